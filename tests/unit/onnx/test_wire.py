from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto

from winml.modelkit.onnx import wire


def all_fields(data: bytes) -> list[tuple[int, int, int, int]]:
    return list(wire.fields(data, 0, len(data)))


def test_the_example_of_the_encoding_guide() -> None:
    # protobuf.dev, encoding: field 1 = 150 is 08 96 01; field 2 = "testing" is 12 07 74 65 73 74 69 6e 67.
    assert all_fields(bytes.fromhex("089601")) == [(1, wire.VARINT, 150, 3)]
    data = bytes.fromhex("120774657374696e67")
    assert all_fields(data) == [(2, wire.BYTES, 2, 9)]
    assert wire.text(data, 2, 9) == "testing"


def test_negative_numbers_take_ten_bytes() -> None:
    # protobuf.dev, encoding: -2 is fe ff ff ff ff ff ff ff ff 01.
    raw = bytes.fromhex("feffffffffffffffff01")
    assert wire.packed_integers(raw) == [-2]
    assert wire.packed(b"", wire.VARINT, (1 << 64) - 2, 0) == raw


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x00\x01", wire.WireError),  # field number 0
        (b"\x0b", wire.WireError),  # a group
        (b"\x0f", wire.WireError),  # wire type 7
        (b"\x08" + b"\xff" * 11, wire.WireError),  # a varint of more than 10 bytes
        (b"\x08", wire.CutOff),
        (b"\x12", wire.CutOff),
        (b"\x12\x05abc", wire.CutOff),
        (b"\x0d\x00\x00", wire.CutOff),
        (b"\x09" + bytes(7), wire.CutOff),
        (b"\xff", wire.CutOff),
    ],
)
def test_damage_is_told(data: bytes, error: type[wire.WireError], tmp_path: Path) -> None:
    with pytest.raises(error):
        all_fields(data)
    path = tmp_path / "x"
    path.write_bytes(data)
    with path.open("rb", buffering=0) as file, pytest.raises(error):
        list(wire.fields(wire.FileBytes(file, len(data)), 0, len(data)))


def test_a_huge_length_allocates_nothing() -> None:
    data = b"\x12" + b"\xff" * 8 + b"\x7f"
    tracemalloc.start()
    with pytest.raises(wire.CutOff) as caught:
        all_fields(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.needed > 1 << 60
    assert peak < 100_000


def test_a_file_that_shrinks_while_it_is_read_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x12\x05abcde")
    with path.open("rb", buffering=0) as file, pytest.raises(wire.CutOff):
        list(wire.fields(wire.FileBytes(file, 1000), 0, 1000))


def test_text_that_is_not_utf8_stays_distinct() -> None:
    assert wire.text(b"a\xff", 0, 2) == "a\\xff"
    assert wire.text(b"a\xfe", 0, 2) == "a\\xfe"


def test_a_packed_field_of_odd_length_is_damage() -> None:
    with pytest.raises(wire.WireError):
        wire.packed_floats(bytes(5))
    with pytest.raises(wire.WireError):
        wire.packed_doubles(bytes(12))


integers = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(st.lists(integers), st.floats(width=32, allow_nan=False), st.binary(max_size=300))
def test_protobuf_itself_wrote_it(ints: list[int], number: float, raw: bytes) -> None:
    data = AttributeProto(ints=ints, f=number, s=raw).SerializeToString()
    found_ints: list[int] = []
    for field, kind, a, b in wire.fields(data, 0, len(data)):
        if field == 8:
            found_ints += wire.integers(data, kind, a, b)
        elif field == 2:
            assert wire.floats(data, kind, a, b) == [number]
        elif field == 4:
            assert wire.part(data, a, b) == raw
    assert found_ints == ints


@given(st.lists(integers))
def test_packing_and_unpacking_agree(ints: list[int]) -> None:
    raw = b"".join(wire.packed(b"", wire.VARINT, value % (1 << 64), 0) for value in ints)
    assert wire.packed_integers(raw) == ints


def test_packed_doubles_are_little_endian() -> None:
    assert wire.packed_doubles(struct.pack("<2d", 1.5, -2.0)) == [1.5, -2.0]


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_a_file_reads_like_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fields"
    path.write_bytes(data)

    def outcome(buffer: wire.Buffer) -> list[tuple[int, int, int, int]] | str:
        try:
            return list(wire.fields(buffer, 0, len(data)))
        except wire.WireError as error:
            return type(error).__name__

    with path.open("rb", buffering=0) as file:
        assert outcome(wire.FileBytes(file, len(data))) == outcome(data)
