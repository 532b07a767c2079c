"""A trace as CSV: a header that scripts can rely on, and every field as it stands in the document."""

from __future__ import annotations

import csv
import io

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fixtures import trace_documents as made
from winml.modelkit.console.trace_csv import FIELDS, to_csv
from winml.modelkit.perf.document import Trace, TraceOp


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_header_is_every_field_of_an_operator_in_a_fixed_order() -> None:
    assert set(FIELDS) == set(TraceOp.__struct_fields__)
    assert to_csv(made.small_trace()).split("\r\n")[0] == (
        "name,op_type,kernel,ep,partition,sources,io,shapes,samples,calls,total_us,mean_us,p50_us,share,"
        "total_cycles,mean_cycles,p50_cycles,derived"
    )


def test_one_row_per_operator_the_most_expensive_first() -> None:
    rows = read(to_csv(made.small_trace()))
    assert [row["name"] for row in rows] == ["conv", "gemm", "move"]
    conv, gemm, move = rows
    assert (conv["total_us"], conv["mean_us"], conv["p50_us"]) == ("1500.0", "500.0", "500.0")
    assert float(conv["share"]) == 1500 / 2400
    assert (conv["kernel"], conv["partition"], conv["samples"], conv["calls"]) == ("brgconv_avx2_i8", "0", "3", "3")
    assert (conv["total_cycles"], conv["derived"], conv["io"]) == ("", "false", "false")
    assert (gemm["sources"], gemm["kernel"]) == ("", "")
    assert (move["io"], move["partition"]) == ("true", "1")


def test_cycles_and_derived_times_stand_apart() -> None:
    first = read(to_csv(made.cycles_trace(scaled=True)))[0]
    assert (first["mean_us"], first["mean_cycles"], first["derived"]) == ("2050.0", "4100.0", "true")
    first = read(to_csv(made.cycles_trace(scaled=False)))[0]
    assert (first["mean_us"], first["mean_cycles"], first["derived"]) == ("", "4100.0", "false")


def test_a_failed_trace_is_its_header() -> None:
    assert to_csv(made.failed_trace()) == ",".join(FIELDS) + "\r\n"


def test_lines_end_as_rfc_4180_says() -> None:
    text = to_csv(made.small_trace())
    assert text.count("\r\n") == 4
    assert text.endswith("\r\n")
    assert "\n" not in text.replace("\r\n", "")


@given(st.text(st.characters(codec="utf-8")), st.lists(st.text('ab/,"\r\n', min_size=1), max_size=3))
def test_any_name_comes_back_as_it_was(name: str, sources: list[str]) -> None:
    trace = made.small_trace()
    trace.ops[0].name, trace.ops[0].sources = name, sources
    row = read(to_csv(trace))[0]
    assert row["name"] == name
    assert row["sources"] == ";".join(sources)


def test_a_name_that_is_no_text_does_not_stop_the_writing() -> None:
    trace: Trace = msgspec.structs.replace(made.small_trace())
    trace.ops[0].name = "caf\udce9"
    to_csv(trace).encode("utf-8")
    assert read(to_csv(trace))[0]["name"] == "caf\\udce9"
