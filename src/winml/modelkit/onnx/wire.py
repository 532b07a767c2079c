"""The protobuf wire format, read from bytes or from a file whose large fields are never loaded.

Source: https://protobuf.dev/programming-guides/encoding/. A message is a run of fields; a field is a tag
(number and wire type) and a varint, 4 bytes, 8 bytes, or a length and that many bytes. Groups (wire types 3
and 4) are taken for damage: ONNX never had any.

A reader of our own, because importing the ``onnx`` package costs more than the rest of a command's start, and
because it copies every weight.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BYTES",
    "FIXED32",
    "FIXED64",
    "VARINT",
    "Buffer",
    "CutOff",
    "FileBytes",
    "WireError",
    "fields",
    "floats",
    "integers",
    "local",
    "packed",
    "packed_doubles",
    "packed_floats",
    "packed_integers",
    "part",
    "signed",
    "text",
]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_PAGE = 1 << 15
_LOCAL = 1 << 12
_MASK64 = (1 << 64) - 1


class WireError(ValueError):
    """These bytes are not the protobuf wire format."""


class CutOff(WireError):
    """A field reaches past the end of its message.

    Attributes:
        number: the field's number, or None if the end came inside the tag.
        needed: bytes the message would need.
    """

    def __init__(self, number: int | None, needed: int) -> None:
        super().__init__(f"field {number} reaches past the end")
        self.number = number
        self.needed = needed


class FileBytes:
    """A file that can be indexed and sliced like ``bytes``, held one page at a time.

    Not a memory map: a map raises SIGBUS where a file shrinks under it, and locks the file on Windows.
    """

    __slots__ = ("_file", "_low", "_page", "size")

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        self._low = 0
        self._page = b""

    def byte(self, position: int) -> int:
        """The byte at ``position``."""
        offset = position - self._low
        if not 0 <= offset < len(self._page):
            self._page = self._read(position, min(_PAGE, self.size - position))
            self._low = position
            offset = 0
        return self._page[offset]

    def part(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` up to ``stop``, a copy."""
        low = start - self._low
        if low >= 0 and stop - self._low <= len(self._page):
            return self._page[low : stop - self._low]
        return self._read(start, stop - start)

    def _read(self, start: int, count: int) -> bytes:
        if count <= 0:
            raise CutOff(None, start + 1)
        self._file.seek(start)
        data = self._file.read(count)
        if len(data) < count:
            raise CutOff(None, start + count)
        return data


Buffer = bytes | FileBytes


def part(buffer: Buffer, start: int, stop: int) -> bytes:
    """The bytes from ``start`` up to ``stop``, a copy."""
    return buffer[start:stop] if isinstance(buffer, bytes) else buffer.part(start, stop)


def local(buffer: Buffer, start: int, stop: int) -> tuple[Buffer, int, int]:
    """The message at ``start:stop``: as bytes of its own if it is small and in a file, else where it stands.

    Bytes are read several times faster than a file.
    """
    if isinstance(buffer, bytes) or stop - start > _LOCAL:
        return buffer, start, stop
    return buffer.part(start, stop), 0, stop - start


def fields(buffer: Buffer, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the message at ``start:stop``: (number, wire type, a, b).

    ``a`` is the value of a varint; otherwise ``a:b`` is where the value's bytes stand.

    Raises:
        WireError: not a message; ``CutOff`` if it ends inside a field.
    """
    if isinstance(buffer, bytes):
        return _fields_of_bytes(buffer, start, stop)
    return _fields_of_file(buffer, start, stop)


def _fields_of_bytes(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    # The one hot loop: one-byte tags and lengths are taken without a call.
    while at < stop:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1, stop)
        number, wire = tag >> 3, tag & 7
        if number == 0 or number > 0x1FFFFFFF:
            raise WireError(f"field number {number}")
        if wire == BYTES:
            if at >= stop:
                raise CutOff(number, at + 1)
            size = data[at]
            at += 1
            if size > 127:
                size, at = _varint(data, at - 1, stop)
            end = at + size
            if end > stop:
                raise CutOff(number, end)
            yield number, wire, at, end
            at = end
        elif wire == VARINT:
            if at >= stop:
                raise CutOff(number, at + 1)
            value = data[at]
            at += 1
            if value > 127:
                value, at = _varint(data, at - 1, stop)
            yield number, wire, value, at
        elif wire in (FIXED32, FIXED64):
            end = at + (4 if wire == FIXED32 else 8)
            if end > stop:
                raise CutOff(number, end)
            yield number, wire, at, end
            at = end
        else:
            raise WireError(f"wire type {wire}")


def _fields_of_file(source: FileBytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    while at < stop:
        tag, at = _varint(source, at, stop)
        number, wire = tag >> 3, tag & 7
        if number == 0 or number > 0x1FFFFFFF:
            raise WireError(f"field number {number}")
        if wire == VARINT:
            value, at = _varint(source, at, stop)
            yield number, wire, value, at
            continue
        if wire == BYTES:
            size, at = _varint(source, at, stop)
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise WireError(f"wire type {wire}")
        end = at + size
        if end > stop:
            raise CutOff(number, end)
        yield number, wire, at, end
        at = end


def _varint(buffer: Buffer, at: int, stop: int) -> tuple[int, int]:
    byte_at = buffer.__getitem__ if isinstance(buffer, bytes) else buffer.byte
    value = shift = 0
    while at < stop:
        byte = byte_at(at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value & _MASK64, at
        shift += 7
        if shift >= 70:
            raise WireError("a varint of more than 10 bytes")
    raise CutOff(None, at + 1)


def signed(value: int) -> int:
    """A varint's 64 bits as a signed integer."""
    return value - (1 << 64) if value >> 63 else value


def text(buffer: Buffer, start: int, stop: int) -> str:
    """The bytes as text; what is not UTF-8 becomes ``\\xNN``, so that different names stay different."""
    return part(buffer, start, stop).decode("utf-8", "backslashreplace")


def packed_integers(raw: bytes) -> list[int]:
    """The varints of a packed field, as signed integers."""
    found = []
    at = 0
    while at < len(raw):
        value, at = _varint(raw, at, len(raw))
        found.append(signed(value))
    return found


def packed(buffer: Buffer, wire: int, a: int, b: int) -> bytes:
    """One occurrence of a repeated field of numbers, as the packed form has it."""
    if wire != VARINT:
        return part(buffer, a, b)
    raw = bytearray()
    while a > 127:
        raw.append(a & 127 | 128)
        a >>= 7
    raw.append(a)
    return bytes(raw)


def packed_floats(raw: bytes) -> list[float]:
    """The 32-bit floats of a packed field."""
    if len(raw) % 4:
        raise WireError("a packed float field of odd length")
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def packed_doubles(raw: bytes) -> list[float]:
    """The 64-bit floats of a packed field."""
    if len(raw) % 8:
        raise WireError("a packed double field of odd length")
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))


def integers(buffer: Buffer, wire: int, a: int, b: int) -> list[int]:
    """One occurrence of a repeated integer field, packed or not."""
    if wire == VARINT:
        return [signed(a)]
    if wire == BYTES:
        return packed_integers(part(buffer, a, b))
    return []


def floats(buffer: Buffer, wire: int, a: int, b: int) -> list[float]:
    """One occurrence of a repeated float field, packed or not."""
    if wire in (FIXED32, BYTES):
        return packed_floats(part(buffer, a, b))
    return []
