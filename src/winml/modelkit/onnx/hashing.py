"""Which model it was: the SHA-256 of the model file and of the files beside it that belong to it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx.external import context_files, external_files
from winml.modelkit.onnx.files import read_model, shown

if TYPE_CHECKING:
    import os

    from winml.modelkit.onnx.model import Model

__all__ = ["HASH_LIMIT", "FileHash", "ModelHash", "hash_model"]

HASH_LIMIT = 4 * 2**30
"""Bytes, of all files of a model together, above which nothing is hashed."""


class FileHash(NamedTuple):
    """One file: its name (or path relative to the model's folder), size in bytes, and SHA-256 in hex."""

    name: str
    nbytes: int
    sha256: str | None


class ModelHash(NamedTuple):
    """The files of a model, each as ``sha256sum`` would give it: the model file first, then external data and
    compiled parts in the order of their first use.

    Attributes:
        files: one entry per file.
        reason: why the hashes are None, or which files are missing among the entries; None if nothing is.
    """

    files: tuple[FileHash, ...]
    reason: str | None

    @property
    def sha256(self) -> str | None:
        """The hash of the model file itself."""
        return self.files[0].sha256

    @property
    def external_data(self) -> list[dict[str, Any]]:
        """The files beside the model file as plain data: ``name, bytes, sha256``."""
        return [{"name": file.name, "bytes": file.nbytes, "sha256": file.sha256} for file in self.files[1:]]


def hash_model(path: str | os.PathLike[str], model: Model | None = None, *, limit: int = HASH_LIMIT) -> ModelHash:
    """Hash a model file and the files beside it that it uses. Unsafe paths in it are not followed.

    Args:
        path: the model file.
        model: the same, read; it is read here if omitted.
        limit: bytes in all above which the hashes are None, with the reason.

    Raises:
        ModelError: the model cannot be read.
    """
    if model is None:
        model = read_model(path, complete=False)
    beside = external_files(model)
    compiled = context_files(model)
    named = {file.location: file.path for file in (*beside.files, *compiled.files)}
    problems = [problem.reason for problem in (*beside.problems, *compiled.problems)]
    entries = [(Path(path).name, Path(path)), *named.items()]
    try:
        sizes = [file.stat().st_size for _, file in entries]
        total = sum(sizes)
        if total > limit:
            files = tuple(FileHash(shown(name), size, None) for (name, _), size in zip(entries, sizes, strict=True))
            return ModelHash(files, f"not hashed: {total} bytes in all, over the limit of {limit}")
        files = tuple(
            FileHash(shown(name), size, _sha256(file)) for (name, file), size in zip(entries, sizes, strict=True)
        )
    except OSError as error:
        raise ModelError(
            f"{shown(path)}: a file of it cannot be read: {error.strerror}", code="model_unreadable"
        ) from error
    return ModelHash(files, f"left out: {problems[0]}" if problems else None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
