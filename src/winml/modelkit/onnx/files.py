"""From a path to a model, and the true reason where that is not possible."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx import wire
from winml.modelkit.onnx.decode import decode_model

if TYPE_CHECKING:
    from winml.modelkit.onnx.model import Model

__all__ = ["PROTOBUF_LIMIT", "parse_model", "read_model", "require_complete", "shown", "touch"]

PROTOBUF_LIMIT = 2**31 - 1
"""Bytes a protobuf message may have; ONNX Runtime loads no model file above it."""

_WHOLE = 1 << 20
_AGAIN = "fetch or export the model again"
_PARTS = {
    7: "the graph",
    8: "the opset list",
    14: "the metadata",
    20: "the training graphs",
    25: "a function",
}
_MAGIC = (
    (b"PK\x03\x04", "a zip archive (a .pt, .npz or model package?)", "unpack it, or export it to ONNX"),
    (b"\x1f\x8b", "a gzip file", "unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (a Keras model?)", "export it to ONNX"),
    (b"\x80\x02", "a Python pickle (a PyTorch checkpoint?)", "export it to ONNX"),
    (b"\x93NUMPY", "a NumPy array", "give the model's .onnx file"),
    (b"\x7fELF", "an ELF library or program", "give the model's .onnx file"),
    (b"MZ", "a Windows library or program", "give the model's .onnx file"),
    (b"GGUF", "a GGUF model", "export the model to ONNX"),
)


def shown(path: str | os.PathLike[str]) -> str:
    """The path for a message: on one line, and printable whatever its bytes are."""
    text = os.fspath(path)
    return text if text.isprintable() else "".join(_shown_char(char) for char in text)


def _shown_char(char: str) -> str:
    if char.isprintable():
        return char
    # Python carries a byte that is not UTF-8 as U+DC00 plus the byte.
    return f"\\x{ord(char) - 0xDC00:02x}" if 0xDC80 <= ord(char) <= 0xDCFF else ascii(char)[1:-1]


def read_model(path: str | os.PathLike[str], *, complete: bool = True) -> Model:
    """The model in the file at ``path``, without its weights, in time proportional to its graph.

    Args:
        path: the ``.onnx`` file.
        complete: also demand what no model can run without: IR version, operator sets, a graph.

    Raises:
        ModelError: code ``model_path_not_utf8``, ``model_not_found``, ``model_is_directory``,
            ``model_not_regular``, ``model_unreadable``, ``model_empty``, ``git_lfs_pointer``,
            ``model_not_onnx``, ``model_truncated``; with ``complete`` also ``no_ir_version``, ``no_opset``,
            ``no_graph``.
    """
    size = _size(path)
    name = shown(path)
    try:
        with Path(path).open("rb", buffering=0) as file:
            if size > _WHOLE:
                buffer: wire.Buffer = wire.FileBytes(file, size)
            else:
                buffer = file.read(size)
                size = len(buffer)
            model = _parse(buffer, size, name)
    except OSError as error:
        raise _unreadable(path, error) from error
    model.path = Path(path)
    if complete:
        require_complete(model)
    return model


def parse_model(data: bytes, name: str = "") -> Model:
    """The model serialized in ``data``.

    Args:
        data: a ``ModelProto``.
        name: what to call it in errors.

    Raises:
        ModelError: code ``model_empty``, ``git_lfs_pointer``, ``model_not_onnx`` or ``model_truncated``.
    """
    return _parse(data, len(data), name)


def require_complete(model: Model) -> None:
    """Demand an IR version, operator sets and a graph.

    Raises:
        ModelError: code ``no_graph``, ``no_ir_version`` or ``no_opset``.
    """
    hint = f"the file is not a model, or it is cut off: {_AGAIN}"
    details = {"path": model.file, "bytes": model.nbytes}
    if not model.has_graph:
        raise ModelError(f"{model.file}: there is no graph in it", code="no_graph", hint=hint, details=details)
    if model.ir_version is None:
        raise ModelError(
            f"{model.file}: it does not say its IR version",
            code="no_ir_version",
            hint=_AGAIN,
            details=details,
        )
    if not model.opset_imports:
        raise ModelError(
            f"{model.file}: it imports no operator set: its opset_import is empty",
            code="no_opset",
            hint=f"set opset_import, or {_AGAIN}",
            details=details,
        )


def touch(model: Model) -> None:
    """Decode everything that waits undecoded, so that damage anywhere shows.

    Raises:
        ModelError: code ``model_not_onnx``.
    """
    pending = [model.graph]
    nodes = [node for function in model.functions for node in function.nodes]
    while pending or nodes:
        for node in nodes:
            pending += node.graphs
        nodes = []
        if pending:
            graph = pending.pop()
            nodes = list(graph.nodes)
            len(graph.value_infos)


def _size(path: str | os.PathLike[str]) -> int:
    name = shown(path)
    details = {"path": name}
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise ModelError(
            f"{name}: the path is not valid UTF-8, which ONNX Runtime needs",
            code="model_path_not_utf8",
            hint="rename the file or folder",
            details=details,
        ) from None
    try:
        found = Path(path).stat()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        raise ModelError(
            f"{name}: it is a folder, not a model file",
            code="model_is_directory",
            hint="give the .onnx file in it",
            details=details,
        )
    if not stat.S_ISREG(found.st_mode):
        raise ModelError(
            f"{name}: it is not a regular file (a device, a pipe or a socket)",
            code="model_not_regular",
            hint="give a .onnx file",
            details=details,
        )
    return found.st_size


def _unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> ModelError:
    name = shown(path)
    details = {"path": name}
    if isinstance(error, PermissionError):
        return ModelError(
            f"{name}: no permission to read it",
            code="model_unreadable",
            hint="check its rights",
            details=details,
        )
    why = error.strerror if isinstance(error, OSError) else str(error)
    if isinstance(error, FileNotFoundError):
        link = Path(path)
        if link.is_symlink():
            why = f"it is a link to {shown(link.readlink())}, which does not exist"
        else:
            why = "there is no such file"
    elif isinstance(error, OSError) and not isinstance(error, NotADirectoryError):
        return ModelError(f"{name}: it cannot be read: {why}", code="model_unreadable", details=details)
    return ModelError(f"{name}: {why}", code="model_not_found", hint="check the path", details=details)


def _parse(buffer: wire.Buffer, size: int, name: str) -> Model:
    try:
        if size == 0:
            raise ModelError(f"{name}: the file is empty", code="model_empty", hint=_AGAIN, details={"path": name})
        head = wire.part(buffer, 0, min(size, 512))
        _refuse_lfs_pointer(head, name)
        return decode_model(buffer, size, name)
    except wire.WireError as error:
        raise _not_onnx(buffer, size, name, error) from error


def _refuse_lfs_pointer(head: bytes, name: str) -> None:
    if head.startswith((b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")):
        raise ModelError(
            f"{name}: it is a Git LFS pointer, not the model",
            code="git_lfs_pointer",
            hint="run git lfs pull",
            details={"path": name},
        )


def _not_onnx(buffer: wire.Buffer, size: int, name: str, error: wire.WireError) -> ModelError:
    details = {"path": name, "bytes": size}
    head = wire.part(buffer, 0, min(size, 512))
    what, hint = recognise(head, size)
    if not what and _is_tensor(buffer, size):
        what, hint = "a single tensor (TensorProto: test data of a model?)", "give the model's .onnx file"
    if what:
        return ModelError(
            f"{name}: not a valid ONNX protobuf ({size} bytes): it is {what}",
            code="model_not_onnx",
            hint=hint,
            details=details,
        )
    needed = _cut_off_at(buffer, size)
    if needed is not None:
        part, total = needed
        return ModelError(
            f"{name}: the file is cut off inside {part}: it has {size} bytes and needs at least {total}",
            code="model_truncated",
            hint=_AGAIN,
            details=details | {"needed": total},
        )
    return ModelError(
        f"{name}: not a valid ONNX protobuf ({size} bytes): {error}",
        code="model_not_onnx",
        hint=_AGAIN,
        details=details,
    )


def _is_tensor(buffer: wire.Buffer, size: int) -> bool:
    """Whether it is a ``TensorProto``: its field 2 is a number, a model's is text."""
    try:
        kinds = {(number, kind) for number, kind, _, _ in wire.fields(buffer, 0, size)}
    except wire.WireError:
        return False
    return (2, wire.VARINT) in kinds and any(number in (4, 5, 6, 7, 9, 10, 11) for number, _ in kinds)


def _cut_off_at(buffer: wire.Buffer, size: int) -> tuple[str, int] | None:
    """The part in which a file that begins like a model ends too early, and the bytes it would need."""
    believable = False
    try:
        for number, kind, a, _ in wire.fields(buffer, 0, size):
            if number == 1 and kind == wire.VARINT:
                believable = 0 < a < 1000
    except wire.CutOff as cut:
        if believable and cut.needed < 1 << 62:
            return _PARTS.get(cut.number or 0, "its header"), cut.needed
    except wire.WireError:
        pass
    return None


def recognise(head: bytes, size: int) -> tuple[str, str]:
    """What a file is that is not an ONNX model, by its first bytes, and what to do; empty if it is not known.

    Args:
        head: up to 512 first bytes.
        size: size of the file in bytes.
    """
    for magic, what, hint in _MAGIC:
        if head.startswith(magic):
            return what, hint
    if head[4:8] == b"ORTM" and int.from_bytes(head[:4], "little") < size:
        return "a model in ORT format", "give the ONNX model that it was made of"
    if head[4:8] == b"TFL3":
        return "a TensorFlow Lite model", "export the model to ONNX"
    header = int.from_bytes(head[:8], "little")
    if len(head) > 9 and head[8:9] == b"{" and header < size:
        return "a safetensors file (weights without a graph)", "export the model to ONNX"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "an HTML page (a download that failed?)", "download the file itself, not the page about it"
    if text.startswith(b"<?xml") or (text.startswith(b"<") and b"<net" in text):
        return "an XML file", "give the model's .onnx file"
    if text.startswith((b"{", b"[")) and _is_text(head):
        return "a JSON file (an error message of a server?)", "give the model's .onnx file"
    if _is_text(head):
        return "a text file", "give the model's .onnx file"
    return "", ""


def _is_text(head: bytes) -> bool:
    try:
        # The last character may be cut.
        text = head[: max(len(head) - 3, 1)].decode()
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\t\r\n\f" for char in text)
