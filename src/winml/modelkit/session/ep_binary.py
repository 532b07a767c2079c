"""What a library file says of itself, read without loading it.

The system loader gives one text for a missing file, a dangling link and a wrong machine, dies of a truncated
library (SIGBUS) and waits for ever on a named pipe. So the file is looked at first: its kind, its header, its
size against what the header promises, its exports. Formats: the ELF gABI with the GNU hash table; Microsoft's
PE/COFF specification (read by pefile).
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from winml.modelkit.session.ep_elf import DynamicSymbols, Segment, read_segments

__all__ = [
    "FACTORY_SYMBOLS",
    "Finding",
    "examine_library",
    "exports_symbol",
    "file_version",
    "host_machine",
    "process_machine",
]

FACTORY_SYMBOLS = ("CreateEpFactories", "ReleaseEpFactory")
"""The functions every plugin EP library exports (onnxruntime_ep_c_api.h)."""

# e_machine of the ELF gABI, Machine of PE/COFF; ARM64X reads as ARM64, ARM64EC as AMD64.
_ELF_MACHINES = {
    3: "i386",
    8: "mips",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
_PE_MACHINES = {0x14C: "i386", 0x1C4: "arm", 0x8664: "x86_64", 0xAA64: "aarch64"}
_ELF_KINDS = {1: "an object file", 2: "an executable", 4: "a core dump"}
_FILE_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a library cannot be an EP: a symbolic cause, a reason short enough for a table row, plain data."""

    cause: str
    reason: str
    details: dict[str, Any] = field(default_factory=dict)


@cache
def process_machine() -> str:
    """The machine code this process runs, and so the one its libraries must have: ``x86_64``, ``aarch64`` ...

    Not ``platform.machine()``: that is the kernel's machine under a 32-bit Python, and x64 Python on an Arm
    Windows may be told either.
    """
    if sys.platform == "win32":
        import sysconfig

        return {"win-amd64": "x86_64", "win-arm64": "aarch64"}.get(sysconfig.get_platform(), "i386")
    try:
        with Path("/proc/self/exe").open("rb") as file:
            return _ELF_MACHINES[struct.unpack("<18xH", file.read(20))[0]]
    except (OSError, struct.error, KeyError):
        return os.uname().machine


@cache
def host_machine() -> str:
    """The machine under this process; differs from ``process_machine`` for x64 Python on an Arm Windows."""
    if sys.platform == "win32":  # not seen on hardware
        import ctypes

        process, native = ctypes.c_ushort(), ctypes.c_ushort()
        kernel = ctypes.windll.kernel32
        handle = ctypes.c_void_p(-1)  # the pseudo handle of the current process
        if hasattr(kernel, "IsWow64Process2") and kernel.IsWow64Process2(
            handle, ctypes.byref(process), ctypes.byref(native)
        ):
            return _PE_MACHINES.get(native.value, process_machine())
    return process_machine()


def examine_library(
    path: str | os.PathLike[str],
    *,
    platform: str = sys.platform,
    machine: str | None = None,
    host: str | None = None,
) -> Finding | None:
    """Look at a library without loading it; None if nothing speaks against it.

    Args:
        path: the library.
        platform: ``sys.platform`` of the machine it is for.
        machine: the machine of the process that would load it; this process's if None.
        host: the machine under that process, where it emulates; this one's if None.
    """
    try:
        status = Path(path).stat()
    except OSError as error:
        return _not_there(path, error)
    except ValueError as error:  # a NUL in the path
        return Finding("file_missing", f"not a usable path: {error}")
    if not stat.S_ISREG(status.st_mode):
        # Opening a pipe would wait for ever, so nothing but a regular file is opened.
        kind = next((word for test, word in _FILE_KINDS if test(status.st_mode)), "something else")
        return Finding("not_a_regular_file", f"not a regular file: {kind}", {"kind": kind})
    try:
        with Path(path).open("rb") as file:
            head = file.read(512)
            wrong = _wrong_format(head, platform)
            if wrong is not None:
                return wrong
            if platform == "win32":
                return _check_pe(path, head, status.st_size, machine or process_machine(), host or host_machine())
            return _check_elf(file, head, path, status.st_size, machine or process_machine())
    except PermissionError:
        return Finding("access_denied", "access denied")
    except OSError as error:
        return Finding("unknown", f"cannot be read: {error.strerror or error}")


def _not_there(path: str | os.PathLike[str], error: OSError) -> Finding:
    if isinstance(error, PermissionError):
        return Finding("access_denied", "access denied")
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        try:
            target = Path(path).readlink()
        except OSError:
            return Finding("file_missing", "file missing")
        return Finding("file_missing", f"file missing: dangling link to {target}", {"link_target": target})
    return Finding("file_missing", f"file cannot be reached: {error.strerror or error}")


def _wrong_format(head: bytes, platform: str) -> Finding | None:
    if platform == "win32":
        if head.startswith(b"MZ"):
            return None
        wanted = "a Windows DLL"
    else:
        if head.startswith(b"\x7fELF"):
            return None
        wanted = "a Linux shared library"
    if not head:
        return Finding("wrong_format", "empty file", {"found": "empty"})
    if head.startswith(b"MZ"):
        found = "a Windows program or DLL"
    elif head.startswith(b"\x7fELF"):
        found = "a Linux program or library"
    elif head.startswith(b"version https://git-lfs"):
        found = "a Git LFS pointer (run: git lfs pull)"
    elif _is_text(head):
        found = "a text file"
    else:
        found = "something else"
    return Finding("wrong_format", f"not {wanted}: {found}", {"found": found})


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # not merely a character cut at the end of what was read
            return False
        text = head[: error.start].decode("utf-8")
    return all(char.isprintable() or char in "\t\r\n\f" for char in text)


def _wrong_machine(found: str, machine: str) -> Finding:
    reason = f"wrong machine: built for {found}, this process is {machine}"
    return Finding("wrong_machine", reason, {"machine": found, "process_machine": machine})


def _truncated(size: int, needed: int) -> Finding:
    reason = f"truncated: {size} bytes of at least {needed}"
    return Finding("truncated", reason, {"size": size, "needed": needed})


def _no_factory(symbol: str) -> Finding:
    return Finding("not_an_ep_library", f"not an EP library: no function {symbol}", {"symbol": symbol})


# --- ELF ----------------------------------------------------------------------------------------------------

# What dlsym may search beyond the library itself and can never hold a factory.
_SYSTEM_LIBRARIES = ("libc", "libm", "libdl", "libpthread", "librt", "libstdc++", "libgcc_s", "ld-linux")


def _check_elf(file: BinaryIO, head: bytes, path: str | os.PathLike[str], size: int, machine: str) -> Finding | None:
    if len(head) < 20:
        return _truncated(size, 64)
    bits, order = head[4], "<" if head[5] == 1 else ">"
    kind, code = struct.unpack_from(f"{order}HH", head, 16)
    found = _ELF_MACHINES.get(code, f"machine {code}")
    if bits != 2 or order == ">" or found != machine:
        if bits != 2 and found == machine:
            found = f"32-bit {found}"
        return _wrong_machine(found, machine)
    if kind != 3:
        what = _ELF_KINDS.get(kind, "something else")
        return Finding("wrong_format", f"not a Linux shared library: {what}", {"found": what})
    if len(head) < 64:
        return _truncated(size, 64)
    table, sections = struct.unpack_from("<QQ", head, 32)
    entry_size, entries, section_size, section_count = struct.unpack_from("<4H", head, 54)
    needed = max(table + entry_size * entries, sections + section_size * section_count if sections else 0)
    if size < table + entry_size * entries:
        return _truncated(size, needed)
    try:
        segments = read_segments(file, head)
    except ValueError as error:
        return Finding("wrong_format", f"not a Linux shared library: {error}", {"found": "a damaged file"})
    needed = max([needed, *(segment.offset + segment.size for segment in segments)])
    if size < needed:
        return _truncated(size, needed)
    for symbol in FACTORY_SYMBOLS:
        if _elf_exports(file, segments, symbol, Path(path)) is False:
            return _no_factory(symbol)
    return None


def _elf_exports(file: BinaryIO, segments: list[Segment], symbol: str, path: Path) -> bool | None:
    """Whether ``dlsym`` would find the symbol; None if that cannot be told without loading."""
    try:
        symbols = DynamicSymbols(file, segments)
        if symbols.has(symbol):
            return True
        needed = symbols.needed()
    except ValueError:
        return None
    # dlsym also searches what the library was linked against.
    for name in needed:
        if name.startswith(_SYSTEM_LIBRARIES):
            continue
        beside = path.parent / name
        if not beside.is_file() or exports_symbol(beside, symbol, deep=False) is not False:
            return None
    return False


def exports_symbol(
    path: str | os.PathLike[str], symbol: str, *, platform: str = sys.platform, deep: bool = True
) -> bool | None:
    """Whether a library exports a function; None if that cannot be told from the file.

    Args:
        path: the library.
        symbol: name of the function.
        platform: ``sys.platform`` of the machine it is for.
        deep: for ELF, also look at the libraries beside it that it was linked against, as ``dlsym`` does.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return None
        with Path(path).open("rb") as file:
            head = file.read(64)
            if platform == "win32":
                return _pe_exports(path, symbol) if head.startswith(b"MZ") else None
            if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
                return None
            segments = read_segments(file, head)
            if deep:
                return _elf_exports(file, segments, symbol, Path(path))
            return DynamicSymbols(file, segments).has(symbol)
    except (OSError, ValueError):
        return None


# --- PE -----------------------------------------------------------------------------------------------------


def _check_pe(path: str | os.PathLike[str], head: bytes, size: int, machine: str, host: str) -> Finding | None:
    import pefile

    if len(head) < 64:
        return _truncated(size, 64)
    (new_header,) = struct.unpack_from("<I", head, 60)
    if new_header + 24 > size:
        return _truncated(size, new_header + 24)
    try:
        with _open_pe(path) as pe:
            return _judge_pe(pe, new_header, size, machine, host)
    except pefile.PEFormatError as error:
        return Finding("wrong_format", f"not a Windows DLL: {error}", {"found": "a damaged file"})
    except Exception:  # noqa: BLE001 - pefile raises unrelated types on damaged tables; then the loader decides
        return None


def _open_pe(path: str | os.PathLike[str]) -> contextlib.closing[Any]:
    import pefile

    return contextlib.closing(pefile.PE(os.fspath(path), fast_load=True))


def _judge_pe(pe: Any, new_header: int, size: int, machine: str, host: str) -> Finding | None:
    header = pe.FILE_HEADER
    needed = new_header + 24 + header.SizeOfOptionalHeader + 40 * header.NumberOfSections
    needed = max([needed, *(section.PointerToRawData + section.SizeOfRawData for section in pe.sections)])
    found = _pe_machine(pe)
    if found == "arm64ec" and not (machine == "x86_64" and host == "aarch64"):
        return _wrong_machine("arm64ec (x64 programs on an Arm Windows)", machine)
    if found not in (machine, "arm64ec"):
        return _wrong_machine(found, machine)
    if not pe.is_dll():
        return Finding("wrong_format", "not a Windows DLL: a program", {"found": "a program"})
    if size < needed:
        return _truncated(size, needed)
    exported = _export_names(pe)
    return next((_no_factory(symbol) for symbol in FACTORY_SYMBOLS if symbol.encode() not in exported), None)


def _pe_machine(pe: Any) -> str:
    import pefile

    code = pe.FILE_HEADER.Machine
    found = _PE_MACHINES.get(code, f"machine {code:#x}")
    if found == "x86_64":
        # ARM64EC code calls itself AMD64; only its load configuration has hybrid metadata.
        pe.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG"]])
        config = getattr(pe, "DIRECTORY_ENTRY_LOAD_CONFIG", None)
        if config is not None and vars(config.struct).get("CHPEMetadataPointer"):
            return "arm64ec"
    return found


def _export_names(pe: Any) -> set[bytes]:
    import pefile

    pe.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_EXPORT"]])
    directory = getattr(pe, "DIRECTORY_ENTRY_EXPORT", None)
    return {symbol.name for symbol in directory.symbols if symbol.name} if directory else set()


def _pe_exports(path: str | os.PathLike[str], symbol: str) -> bool | None:
    try:
        with _open_pe(path) as pe:
            return symbol.encode() in _export_names(pe)
    except Exception:  # noqa: BLE001 - pefile raises unrelated types on damaged tables
        return None


def _starts_with(path: str | os.PathLike[str], magic: bytes) -> bool:
    """Whether a regular file starts so; a pipe is not opened, that would wait for ever."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return False
        with Path(path).open("rb") as file:
            return file.read(len(magic)) == magic
    except (OSError, ValueError):
        return False


def file_version(path: str | os.PathLike[str]) -> str | None:
    """FileVersion of a PE file's VS_VERSIONINFO, on any platform; None where there is none."""
    if not _starts_with(path, b"MZ"):
        return None
    import pefile

    try:
        with _open_pe(path) as pe:
            pe.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_RESOURCE"]])
            return _version_string(pe) or _version_numbers(pe)
    except Exception:  # noqa: BLE001 - pefile raises unrelated types on damaged tables
        return None


def _version_string(pe: Any) -> str | None:
    for group in getattr(pe, "FileInfo", []):
        for info in group:
            for table in getattr(info, "StringTable", []):
                value: bytes = table.entries.get(b"FileVersion", b"")
                text = value.decode("utf-8", "replace").strip("\0 ")
                if text:
                    return text
    return None


def _version_numbers(pe: Any) -> str | None:
    for info in getattr(pe, "VS_FIXEDFILEINFO", []):
        high, low = info.FileVersionMS, info.FileVersionLS
        return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}.{low & 0xFFFF}"
    return None
