"""The program headers and dynamic symbols of a 64-bit little-endian ELF library, read in small pieces.

After the ELF gABI, chapters 4 and 5, and the GNU hash table. Nothing of the library is loaded, and no more than
needed is read.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DynamicSymbols", "Segment", "read_segments"]

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_GNU_HASH = 1, 4, 5, 6, 10, 0x6FFFFEF5
_LONGEST_CHAIN = 1 << 16  # symbols of one hash bucket; only a damaged table has more


@dataclass(frozen=True, slots=True)
class Segment:
    """A program header: its type, place in the file, place in memory, and size in the file, all in bytes."""

    kind: int
    offset: int
    address: int
    size: int


def read_segments(file: BinaryIO, head: bytes) -> list[Segment]:
    """The program headers.

    Args:
        file: the library, opened for reading.
        head: its first 64 bytes or more.

    Raises:
        ValueError: the file is not as the format says.
    """
    (table,) = struct.unpack_from("<Q", head, 32)
    entry_size, entries = struct.unpack_from("<HH", head, 54)
    if entries and entry_size < 56:
        raise ValueError("program headers too small")
    rows = _read(file, table, entry_size * entries)
    found = []
    for index in range(entries):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", rows, index * entry_size)
        found.append(Segment(kind, offset, address, size))
    return found


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    if offset + size > os.fstat(file.fileno()).st_size:  # a damaged size would ask for all memory
        raise ValueError("the file ends too early")
    file.seek(offset)
    data = file.read(size)
    if len(data) != size:
        raise ValueError("the file ends too early")
    return data


class DynamicSymbols:
    """What a library exports and what it was linked against.

    Args:
        file: the library, opened for reading, and open as long as this is used.
        segments: its program headers.

    Raises:
        ValueError: here and in every method: the tables are not as the format says.
    """

    def __init__(self, file: BinaryIO, segments: list[Segment]) -> None:
        self._file = file
        self._loads = [segment for segment in segments if segment.kind == _PT_LOAD]
        dynamic = next((segment for segment in segments if segment.kind == _PT_DYNAMIC), None)
        if dynamic is None:
            raise ValueError("no dynamic segment")
        self._rows = list(struct.iter_unpack("<QQ", _read(file, dynamic.offset, dynamic.size // 16 * 16)))
        self._tags = dict(self._rows)
        self._names = _read(file, self._offset(_DT_STRTAB), self._tag(_DT_STRSZ))

    def _tag(self, tag: int) -> int:
        if tag not in self._tags:
            raise ValueError(f"no dynamic tag {tag}")
        value: int = self._tags[tag]
        return value

    def _offset(self, tag: int) -> int:
        """Where in the file the table stands whose address a tag gives."""
        address = self._tag(tag)
        for segment in self._loads:
            if segment.address <= address < segment.address + segment.size:
                return address - segment.address + segment.offset
        raise ValueError("an address outside the file")

    def _name(self, start: int) -> bytes:
        return self._names[start : self._names.index(b"\0", start)]

    def needed(self) -> list[str]:
        """Names of the libraries it was linked against."""
        return [self._name(value).decode("utf-8", "surrogateescape") for tag, value in self._rows if tag == _DT_NEEDED]

    def has(self, symbol: str) -> bool:
        """Whether it defines a symbol of that name for others."""
        name = symbol.encode()
        return any(self._is_defined(index, name) for index in self._candidates(name))

    def _is_defined(self, index: int, symbol: bytes) -> bool:
        # Elf64_Sym: name, info, other, section (0: undefined), value, size
        entry = _read(self._file, self._offset(_DT_SYMTAB) + index * 24, 24)
        name, section = struct.unpack_from("<I2xH", entry)
        return section != 0 and self._name(name) == symbol

    def _words(self, offset: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", _read(self._file, offset, 4 * count))

    def _candidates(self, symbol: bytes) -> Iterator[int]:
        if _DT_GNU_HASH in self._tags:
            return self._gnu_candidates(symbol, self._offset(_DT_GNU_HASH))
        return self._sysv_candidates(symbol, self._offset(_DT_HASH))

    def _gnu_candidates(self, symbol: bytes, table: int) -> Iterator[int]:
        value = 5381
        for byte in symbol:
            value = (value * 33 + byte) & 0xFFFFFFFF
        buckets, first, bloom = self._words(table, 3)
        if not buckets:
            return
        bucket_offset = table + 16 + 8 * bloom
        (start,) = self._words(bucket_offset + 4 * (value % buckets), 1)
        if start < first:  # an empty bucket
            return
        for index in range(start, start + _LONGEST_CHAIN):
            (link,) = self._words(bucket_offset + 4 * buckets + 4 * (index - first), 1)
            if link | 1 == value | 1:
                yield index
            if link & 1:  # the end of the chain
                return
        raise ValueError("a hash chain without an end")

    def _sysv_candidates(self, symbol: bytes, table: int) -> Iterator[int]:
        value = 0
        for byte in symbol:
            value = (value << 4) + byte
            high = value & 0xF0000000
            value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
        buckets, _ = self._words(table, 2)
        if not buckets:
            return
        (index,) = self._words(table + 8 + 4 * (value % buckets), 1)
        for _ in range(_LONGEST_CHAIN):
            if index == 0:
                return
            yield index
            (index,) = self._words(table + 8 + 4 * buckets + 4 * index, 1)
        raise ValueError("a hash chain without an end")
