"""``winml perf`` on models that are damaged, odd, huge, hidden under awkward names, or compiled for another EP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from fixtures.cli import PerfCommand, write
from fixtures.zoo import Zoo, external_model

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4" * 64 + b"\nsize 12345\n"


def codes(document: dict[str, object]) -> list[str]:
    """Codes of the warnings."""
    warnings = document["warnings"]
    assert isinstance(warnings, list)
    return [notice["code"] for notice in warnings]


# --- files that are no model ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", "model_empty", "empty"),
        (LFS, "git_lfs_pointer", "LFS"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "model_not_onnx", "HTML"),
        (b'{"error": "Repository not found"}', "model_not_onnx", "JSON"),
        (b"\x00\xff" * 300, "model_not_onnx", "not a valid ONNX protobuf (600 bytes)"),
    ],
    ids=["c01_empty", "c02_lfs_pointer", "c02_html", "c02_json", "c02_noise"],
)
def test_a_file_that_is_no_model_is_told_for_what_it_is(
    perf: PerfCommand, tmp_path: Path, content: bytes, code: str, words: str
) -> None:
    outcome = perf.refused(code, 1, write(tmp_path / "m.onnx", content))
    assert words in outcome.error["reason"]
    assert "error: " in outcome.err
    if code == "git_lfs_pointer":
        assert "git lfs pull" in outcome.error["hint"]


def test_c02_half_a_model_is_cut_off(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    whole = zoo("slow").read_bytes()
    outcome = perf.refused("model_truncated", 1, write(tmp_path / "m.onnx", whole[: len(whole) // 2]))
    assert "cut off" in outcome.error["reason"]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("opset_99", "opset_too_new", "opset 99 of ai.onnx, and this onnxruntime"),
        ("ir_99", "ir_too_new", "IR version 99, and this onnxruntime"),
        ("no_opset", "no_opset", "its opset_import is empty"),
        ("no_ir", "no_ir_version", "does not say its IR version"),
        ("same_names", "duplicate_node_names", "'n' (2 nodes)"),
        ("no_outputs", "no_outputs", "nothing to run it for"),
    ],
    ids=["c03_opset", "c03_ir", "c04_no_opset", "c04_no_ir", "c05_same_names", "c08_no_outputs"],
)
def test_a_model_with_a_fault_is_refused_with_its_cause(
    perf: PerfCommand, zoo: Zoo, name: str, code: str, words: str
) -> None:
    outcome = perf.refused(code, 1, zoo(name), "--ep", "cpu")
    assert words in outcome.error["reason"]
    # C03: no C++ source position
    assert ".cc:" not in outcome.error["reason"]


@pytest.mark.parametrize("name", ["opset_99", "ir_99", "same_names"])
def test_the_same_cause_is_told_whatever_the_ep(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], name: str
) -> None:
    on_cpu = perf(zoo(name), "--ep", "cpu").error
    on_openvino = perf(zoo(name), "--ep", "openvino", "--device", "cpu", env=openvino).error
    assert (on_openvino["code"], on_openvino["reason"]) == (on_cpu["code"], on_cpu["reason"])


def test_c03_a_model_too_new_names_both_limits(perf: PerfCommand, zoo: Zoo) -> None:
    details = perf.refused("opset_too_new", 1, zoo("opset_99"), "--ep", "cpu").error["details"]
    assert (details["opset"], details["domain"]) == (99, "ai.onnx")
    assert 20 < details["max_opset"] < 99
    details = perf.refused("ir_too_new", 1, zoo("ir_99"), "--ep", "cpu").error["details"]
    assert 9 < details["max_ir"] < 99


def test_i07_a_missing_file_a_hub_id_and_an_unknown_word_are_three_messages(perf: PerfCommand, tmp_path: Path) -> None:
    missing = perf.refused("model_not_found", 1, "./nope.onnx", cwd=tmp_path)
    hub = perf.refused("hub_model_unsupported", 1, "org/nope", cwd=tmp_path)
    word = perf.refused("model_unknown", 1, "digitz", cwd=tmp_path)
    reasons = {outcome.error["reason"] for outcome in (missing, hub, word)}
    assert len(reasons) == 3
    assert not any("network" in reason.casefold() for reason in reasons)
    assert "Did you mean 'digits'?" in word.error["reason"]


def test_i08_a_hub_that_cannot_be_reached_costs_nothing(perf: PerfCommand) -> None:
    blackhole = {
        "HF_ENDPOINT": "http://10.255.255.1",
        "https_proxy": "http://10.255.255.1:9",
        "http_proxy": "http://10.255.255.1:9",
    }
    assert perf.ok("digits", "--ep", "cpu", env=blackhole, timeout=30)["result"]
    assert perf.refused("hub_model_unsupported", 1, "org/nope", env=blackhole).seconds < 10


# --- odd, and sound -------------------------------------------------------------------------------------------


def test_c06_nodes_out_of_order_run_with_a_warning(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("unsorted"), "--ep", "cpu")
    assert "unsorted_nodes" in codes(document)
    assert "unsorted_nodes" not in codes(perf.ok(zoo("batched"), "--ep", "cpu"))


@pytest.mark.parametrize("name", ["no_nodes", "no_inputs", "initializer_output", "same_output_twice"])
@pytest.mark.parametrize("ep", ["cpu", "openvino"])
def test_c08_degenerate_graphs_run_and_say_what_is_odd(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], name: str, ep: str
) -> None:
    document = perf.ok(zoo(name), "--ep", ep, "--device", "cpu", env=openvino)
    assert document["result"]["latency_ms"]["n"] == 2
    nodes = document["placement"]["nodes_total"]
    # Nothing to place is no proof of a placement, so it is said.
    assert ("no_nodes" in codes(document)) == (nodes == 0)
    if nodes == 0:
        assert document["placement"]["target_share"] is None
    if name == "no_inputs":
        assert document["effective"]["inputs"] == {}


def test_outputs_that_are_not_finite_are_told(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("nan_maker"), "--ep", "cpu")
    (notice,) = [item for item in document["warnings"] if item["code"] == "non_finite_output"]
    assert "'y'" in notice["message"]


@pytest.mark.parametrize("ep", ["cpu", "openvino"])
def test_a_run_that_fails_tells_the_cause_without_source_positions(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], ep: str
) -> None:
    outcome = perf.refused("run_failed", 1, zoo("bad_reshape"), "--ep", ep, "--device", "cpu", env=openvino)
    reason = outcome.error["reason"]
    assert "eshape" in reason and ("{7,-1}" in reason or "(7.-1)" in reason)
    assert not any(part in reason for part in (".h:", ".cc:", ".cpp:", "onnxruntime_src", "Exception from"))
    assert "n=1" in outcome.error["hint"]  # the size that was chosen here, since none was given
    assert outcome.error["details"]["original"]


def test_c11_a_string_input_is_fed(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("string_identity"), "--ep", "cpu")
    assert document["effective"]["inputs"]["x"]["dtype"] == "string"


def test_c11_a_string_model_that_aborts_openvino_is_one_clean_crash(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], nothing_left: Callable[[str], None]
) -> None:
    outcome = perf(zoo("string_identity"), "--ep", "openvino", "--device", "cpu", env=openvino)
    if outcome.code == 0:  # a plugin that has learnt it
        return
    assert outcome.code in (1, 5)
    if outcome.code == 5:
        assert outcome.error["code"] == "crashed"
        assert outcome.error["details"]["signal"]
        assert outcome.document["effective"]["target"]["alias"] == "openvino"
    nothing_left(outcome.mark)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sequence_input", "the input 'parts' is a sequence"),
        ("optional_input", "the input 'maybe' is an optional value"),
    ],
)
def test_c11_an_input_that_is_no_tensor_is_refused_by_name_before_a_session(
    perf: PerfCommand, zoo: Zoo, name: str, words: str
) -> None:
    outcome = perf.refused("input_kind_unsupported", 1, zoo(name), "--ep", "cpu")
    assert words in outcome.error["reason"]
    assert outcome.document["placement"] is None


@pytest.mark.parametrize(
    ("name", "dtype", "binding"),
    [
        ("bf16", "bfloat16", "--no-io-binding"),
        ("bf16", "bfloat16", "--io-binding"),
        ("fp8", "float8e4m3fn", "--no-io-binding"),
        ("fp8", "float8e4m3fn", "--io-binding"),
        ("fp16", "float16", "--no-io-binding"),
        ("double", "float64", "--no-io-binding"),
        ("bool", "bool", "--no-io-binding"),
    ],
)
def test_c12_types_that_numpy_lacks_are_fed_and_fetched(
    perf: PerfCommand, zoo: Zoo, name: str, dtype: str, binding: str
) -> None:
    document = perf.ok(zoo(f"identity_{name}"), "--ep", "cpu", binding)
    assert document["effective"]["inputs"]["x"]["dtype"] == dtype
    assert document["placement"]["nodes_total"] == 1


@pytest.mark.parametrize("name", ["int4", "fp4", "complex64"])
def test_c12_types_that_onnxruntime_cannot_be_fed_are_refused_by_name(perf: PerfCommand, zoo: Zoo, name: str) -> None:
    error = perf.refused("input_dtype_unsupported", 1, zoo(f"identity_{name}"), "--ep", "cpu").error
    assert error["reason"].startswith("ONNX Runtime cannot be fed the input 'x' of type ")


@pytest.mark.parametrize("ep", ["cpu", "openvino"])
@pytest.mark.parametrize("name", ["initializer_input_ir3", "initializer_input_ir9"])
def test_c14_initializers_that_are_inputs_are_never_asked_for_or_fed(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], name: str, ep: str
) -> None:
    document = perf.ok(zoo(name), "--ep", ep, "--device", "cpu", env=openvino)
    assert list(document["effective"]["inputs"]) == ["x"]
    assert document["placement"]["target_nodes"] == 1


def test_c14_strict_and_weights_beside_the_model_hold_for_such_a_model_too(
    perf: PerfCommand, zoo: Zoo, tmp_path: Path, openvino: dict[str, str]
) -> None:
    """``det_unnamed`` with w1 as an input with a default, in a file beside the model."""
    model = zoo.proto("det_unnamed")
    table = next(item for item in model.graph.initializer if item.name == "w1")
    write(tmp_path / "w1.bin", table.raw_data)
    table.ClearField("raw_data")
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="w1.bin")
    model.graph.input.append(onnx.helper.make_tensor_value_info("w1", onnx.TensorProto.FLOAT, [4, 8]))
    path = write(tmp_path / "m.onnx", model.SerializeToString())
    document = perf.ok(path, "--ep", "openvino", "--device", "cpu", env=openvino)
    assert [node["name"] for node in document["placement"]["leftovers"]] == ["h3"]
    (notice,) = [item for item in document["warnings"] if item["code"] == "session"]
    assert "'w1' ran as constants" in notice["message"]
    strict = perf.refused("strict_placement", 4, path, "--ep", "openvino", "--device", "cpu", "--strict", env=openvino)
    assert "Det (h3)" in strict.error["reason"]


@pytest.mark.parametrize("binding", ["--io-binding", "--no-io-binding"])
def test_c11_an_output_that_is_no_tensor_is_fetched(perf: PerfCommand, zoo: Zoo, binding: str) -> None:
    assert perf.ok(zoo("sequence_output"), "--ep", "cpu", binding)["placement"]["nodes_total"] == 1


# --- custom operators -----------------------------------------------------------------------------------------


def test_c16_a_custom_operator_is_named_with_its_domain_and_count(perf: PerfCommand, zoo: Zoo) -> None:
    error = perf.refused("custom_ops_missing", 1, zoo("custom_op"), "--ep", "cpu").error
    assert "acme.ops::MyOp (2 times)" in error["reason"]
    assert "--custom-ops" in error["hint"]
    assert error["details"]["operators"] == [{"domain": "acme.ops", "op_type": "MyOp", "count": 2}]


@pytest.mark.parametrize("kind", ["absent", "no_library", "no_symbol"])
def test_c16_a_custom_operator_library_that_does_not_serve_is_told(
    perf: PerfCommand, zoo: Zoo, tmp_path: Path, hostile_libraries: dict[str, Path], kind: str
) -> None:
    library = {
        "absent": tmp_path / "nope.so",
        "no_library": write(tmp_path / "text.so", b"not a library\n"),
        "no_symbol": hostile_libraries["no_device"],
    }[kind]
    error = perf.refused("custom_ops_failed", 1, zoo("custom_op"), "--ep", "cpu", "--custom-ops", library).error
    assert str(library) in error["reason"]
    assert error["hint"]


@linux
def test_c16_a_custom_operator_library_is_loaded(perf: PerfCommand, zoo: Zoo, tmp_path: Path, c_compiler: str) -> None:
    source = write(
        tmp_path / "ops.c", b"void *RegisterCustomOps(void *o, const void *a) { (void)o, (void)a; return 0; }\n"
    )
    library = tmp_path / "libops.so"
    subprocess.run([c_compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    document = perf.ok(zoo("relu"), "--ep", "cpu", "--custom-ops", "libops.so", cwd=tmp_path)
    assert document["requested"]["custom_ops"] == ["libops.so"]
    # It defines nothing, so what the model needs is still missing.
    perf.refused("custom_ops_missing", 1, zoo("custom_op"), "--ep", "cpu", "--custom-ops", library)


# --- external data --------------------------------------------------------------------------------------------


def test_c21_external_data_beside_the_model_is_read(perf: PerfCommand, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    document = perf.ok(external_model(tmp_path / "m.onnx", "w.bin"), "--ep", "cpu")
    (data,) = document["effective"]["model"]["external_data"]
    assert (data["name"], data["bytes"]) == ("w.bin", 64)
    # sha256sum of 64 zero bytes
    assert data["sha256"] == "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"


@pytest.mark.parametrize("kind", ["absolute", "parent", "link"])
def test_c21_external_data_outside_the_folder_is_never_followed(perf: PerfCommand, tmp_path: Path, kind: str) -> None:
    secret = write(tmp_path / "up.bin", b"s" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    location = {"absolute": str(secret), "parent": "../up.bin", "link": "link.bin"}[kind]
    if kind == "link":
        try:
            (folder / "link.bin").symlink_to("../up.bin")
        except OSError:
            pytest.skip("no symbolic links here")
    outcome = perf.refused("external_unsafe", 1, external_model(folder / "m.onnx", location), "--ep", "cpu")
    assert "'table'" in outcome.error["reason"]
    assert "not followed" in outcome.error["reason"]
    # Neither run nor hashed: the hash of the file outside would tell what is in it.
    assert outcome.document["result"] is None
    assert outcome.document["effective"]["model"]["external_data"] == []


@pytest.mark.parametrize(("size", "code"), [(None, "external_missing"), (10, "external_short")])
def test_external_data_that_is_missing_or_short_is_named(
    perf: PerfCommand, tmp_path: Path, size: int | None, code: str
) -> None:
    if size is not None:
        write(tmp_path / "w.bin", b"\0" * size)
    error = perf.refused(code, 1, external_model(tmp_path / "m.onnx", "w.bin"), "--ep", "cpu").error
    assert "'table'" in error["reason"] and "w.bin" in error["reason"]


@linux
def test_c24_two_gigabytes_of_external_data_run_quickly_in_little_memory(perf: PerfCommand, tmp_path: Path) -> None:
    rows, columns = 550, 1024 * 1024  # 2.15 GiB of float32 in a file that takes no disk
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * rows * columns)
    if (tmp_path / "w.bin").stat().st_blocks > 1000:
        pytest.skip("this file system has no sparse files")
    model = external_model(tmp_path / "m.onnx", "w.bin", rows, columns)
    outcome = perf(model, "--ep", "cpu", "--iterations", "1")
    assert outcome.code == 0, outcome.err
    assert outcome.seconds < 30
    document = outcome.document
    assert document["placement"]["nodes_total"] == 1
    stages = {stage["stage"]: stage["rss_bytes"] for stage in document["result"]["memory"]["stages"]}
    assert stages["session created"] < 1024**3
    (data,) = document["effective"]["model"]["external_data"]
    assert data["bytes"] == 4 * rows * columns


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ep"),
    [
        ("two words", "cpu"),
        ('it\'s "quoted"', "cpu"),
        ("模型·модель", "cpu"),
        ("模型 'x'", "openvino"),
        ("new\nline", "cpu"),
        ("new\nline", "openvino"),
        ("-dash", "cpu"),
        ("%41$HOME*", "cpu"),
        ("a=b,c", "cpu"),
    ],
)
def test_c25_awkward_names_work(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], tmp_path: Path, name: str, ep: str
) -> None:
    folder = tmp_path / name
    model, report = folder / f"{name}.onnx", folder / f"{name}.json"
    try:
        folder.mkdir()
        shutil.copy(zoo("relu"), model)
    except OSError:
        pytest.skip("this file system has no such names")
    outcome = perf("-m", model, "--ep", ep, "--device", "cpu", "-o", report, json_format=False, env=openvino)
    assert outcome.code == 0, outcome.err
    document = json.loads(report.read_text(encoding="utf-8"))
    assert document["effective"]["model"]["path"] == str(model)
    # A line break in a name breaks no line of the report.
    assert outcome.out.splitlines()[0] == outcome.out.splitlines()[-1] == document["summary"]
    assert not any(line.startswith("line") for line in outcome.out.splitlines())


@linux
def test_c25_a_name_that_is_not_utf8_is_refused_in_words(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    model = os.fsencode(tmp_path) + b"/m\xff.onnx"
    shutil.copy(os.fsencode(zoo("relu")), model)
    outcome = perf(os.fsdecode(model))
    assert (outcome.code, outcome.error["code"]) == (1, "path_not_utf8")
    assert "m\\xff.onnx" in outcome.error["reason"]
    report = os.fsdecode(os.fsencode(tmp_path) + b"/r\xff.json")
    assert perf(zoo("relu"), "--ep", "cpu", "-o", report).code == 0
    assert Path(report).is_file()


def test_c26_a_relative_path_gives_the_same_from_any_folder(perf: PerfCommand, tmp_path: Path) -> None:
    rel, elsewhere = tmp_path / "rel", tmp_path / "else" / "where"
    rel.mkdir()
    elsewhere.mkdir(parents=True)
    write(rel / "w.bin", b"\0" * 64)
    external_model(rel / "m.onnx", "w.bin")
    there = perf.ok("-m", "../../rel/../rel/m.onnx", "--ep", "cpu", "-o", "out/report.json", cwd=elsewhere)
    here = perf.ok("-m", "m.onnx", "--ep", "cpu", cwd=rel)
    assert there["effective"]["model"] == here["effective"]["model"]
    assert (elsewhere / "out" / "report.json").is_file()
    # Nothing else was left anywhere.
    assert [path.name for path in elsewhere.iterdir()] == ["out"]
    assert sorted(path.name for path in rel.iterdir()) == ["m.onnx", "w.bin"]


def test_a_folder_with_one_model_is_that_model(perf: PerfCommand, zoo: Zoo) -> None:
    assert perf.ok(zoo("relu").parent, "--ep", "cpu")["effective"]["model"]["name"] == "relu.onnx"


# --- compiled models ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ep", ["openvino", "cpu"])
def test_a_model_compiled_by_qnn_is_refused_by_another_ep_before_a_session(
    perf: PerfCommand, qnn_context: Path, openvino: dict[str, str], ep: str
) -> None:
    outcome = perf.refused("compiled_for_other_ep", 1, qnn_context, "--ep", ep, "--device", "cpu", env=openvino)
    assert f"compiled by qnn; {ep} cannot run it" in outcome.error["reason"]
    assert "--ep qnn" in outcome.error["hint"]
    assert outcome.document["placement"] is None
    assert outcome.document["effective"]["target"] is None


def test_a_model_compiled_by_qnn_goes_to_qnn_where_no_ep_is_named(perf: PerfCommand, qnn_context: Path) -> None:
    outcome = perf.refused("device_not_found", 3, qnn_context)
    assert "compiled_model" in codes(outcome.document)
    assert "--emulate" in outcome.error["hint"]
    assert "qnn offers no npu" in outcome.error["reason"]


def test_a_model_compiled_by_qnn_runs_in_its_emulator(perf: PerfCommand, qnn_context: Path) -> None:
    document = perf.ok(qnn_context, "--ep", "qnn", "--emulate")
    assert document["placement"]["target_nodes"] >= 1
    assert document["effective"]["target"]["emulated"] is True
    compiled = [
        node for node in onnx.load(qnn_context, load_external_data=False).graph.node if node.op_type == "EPContext"
    ]
    assert document["placement"]["target_nodes"] == len(compiled)


def test_a_compiled_model_without_its_context_file_is_told(
    perf: PerfCommand, qnn_context: Path, tmp_path: Path
) -> None:
    shutil.copy(qnn_context, tmp_path / "m.onnx")
    outcome = perf(tmp_path / "m.onnx", "--ep", "qnn", "--emulate")
    assert (outcome.code, outcome.error["code"]) == (1, "external_missing")
    assert ".bin" in outcome.error["reason"]
