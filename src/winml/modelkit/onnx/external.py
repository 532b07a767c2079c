"""Files beside a model that belong to it: external data of tensors, and contexts of compiled parts.

A path in a model is the word of whoever made the file. It is followed only if it stays inside the model's
folder; nothing here opens a file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, NamedTuple

from winml.modelkit.onnx.dtypes import nbytes_of
from winml.modelkit.onnx.facts import ep_contexts, tensors
from winml.modelkit.onnx.files import shown

if TYPE_CHECKING:
    from winml.modelkit.onnx.model import Model, Tensor

__all__ = ["ExternalFile", "ExternalFiles", "ExternalProblem", "context_files", "external_files"]


class ExternalFile(NamedTuple):
    """A file beside the model.

    Attributes:
        location: its path relative to the model's folder, as the model says it.
        path: where it is.
        nbytes: its size in bytes.
        users: names of the tensors (or nodes) whose data it holds.
    """

    location: str
    path: Path
    nbytes: int
    users: tuple[str, ...]


class ExternalProblem(NamedTuple):
    """Why the data of a tensor (or a compiled node) cannot be had.

    Attributes:
        code: ``external_unsafe``, ``external_missing``, ``external_short``, ``external_malformed`` or
            ``external_not_regular``.
        user: the tensor's or node's name.
        location: the path as the model says it.
        reason: one sentence that names both.
    """

    code: str
    user: str
    location: str
    reason: str


class ExternalFiles(NamedTuple):
    """The files beside a model, and what is wrong with them.

    Attributes:
        files: the usable ones, by first use.
        problems: one per tensor or node whose data cannot be had.
    """

    files: list[ExternalFile]
    problems: list[ExternalProblem]

    @property
    def nbytes(self) -> int:
        """Bytes of all usable files."""
        return sum(file.nbytes for file in self.files)


def external_files(model: Model, folder: Path | None = None) -> ExternalFiles:
    """The external data files of a model's tensors.

    Args:
        model: the model.
        folder: where its paths start; the folder of ``model.path`` if omitted.
    """
    found = _Search(model, folder)
    for name, tensor in tensors(model):
        if tensor.external is not None:
            found.add_tensor(name, tensor)
    return found.result()


def context_files(model: Model, folder: Path | None = None) -> ExternalFiles:
    """The files that hold the compiled parts of a model (EPContext nodes with ``embed_mode`` 0).

    Nodes that are not main may lack a file: they share that of a main one.

    Args:
        model: the model.
        folder: where its paths start; the folder of ``model.path`` if omitted.
    """
    found = _Search(model, folder)
    for context in ep_contexts(model):
        if context.cache_file is not None:
            found.add(context.node, context.cache_file, 1, "the compiled part of node")
        elif context.main and not context.embedded:
            reason = f"the compiled part of node {context.node!r} names no file"
            found.problems.append(ExternalProblem("external_malformed", context.node, "", reason))
    return found.result()


class _Search:
    def __init__(self, model: Model, folder: Path | None) -> None:
        self.folder = folder if folder is not None else model.path.parent
        self.roots = {os.path.realpath(self.folder)}
        # A model reached through a link (as in a download cache) keeps its data beside its real file.
        if self.folder == model.path.parent:
            self.roots.add(str(Path(os.path.realpath(model.path)).parent))
        self.problems: list[ExternalProblem] = []
        self._checked: dict[str, tuple[Path, int] | tuple[str, str]] = {}
        self._users: dict[str, list[str]] = {}

    def add_tensor(self, name: str, tensor: Tensor) -> None:
        data = tensor.external
        assert data is not None
        location = data.location or ""
        if data.malformed:
            self._problem("external_malformed", name, location, f"it says {', '.join(data.malformed)}")
            return
        offset = data.offset or 0
        computed = nbytes_of(tensor.dtype, tensor.elements)
        length = computed or 0 if data.length is None else data.length
        if offset < 0 or length < 0:
            self._problem("external_malformed", name, location, f"it says offset {offset}, length {length}")
            return
        if computed and length != computed:
            why = f"it says {length} bytes, and its shape and type need {computed}"
            self._problem("external_malformed", name, location, why)
            return
        self.add(name, location, offset + length, "the external data of tensor")

    def add(self, user: str, location: str, needed: int, what: str) -> None:
        if location not in self._checked:
            self._checked[location] = self._check(location)
        checked = self._checked[location]
        if isinstance(checked[0], str):
            self._problem(checked[0], user, location, str(checked[1]), what)
            return
        _, size = checked
        assert isinstance(size, int)
        if size < needed:
            why = f"the file has {size} bytes and {needed} are needed"
            self._problem("external_short", user, location, why, what)
            return
        self._users.setdefault(location, []).append(user)

    def result(self) -> ExternalFiles:
        files = []
        for location, users in self._users.items():
            path, size = self._checked[location]
            assert isinstance(path, Path) and isinstance(size, int)
            files.append(ExternalFile(location, path, size, tuple(users)))
        return ExternalFiles(files, self.problems)

    def _problem(
        self, code: str, user: str, location: str, why: str, what: str = "the external data of tensor"
    ) -> None:
        where = f" in '{shown(location)}'" if location else ""
        self.problems.append(ExternalProblem(code, user, location, f"{what} {user!r}{where}: {why}"))

    def _check(self, location: str) -> tuple[Path, int] | tuple[str, str]:
        if not location:
            return "external_malformed", "no location is given"
        if "\0" in location:
            return "external_malformed", "the path holds a NUL character"
        windows = PureWindowsPath(location)
        if PurePosixPath(location).is_absolute() or windows.drive or windows.root:
            return "external_unsafe", "an absolute path is not followed"
        path = self.folder / location
        # Resolved as the system will: through links, then "..".
        real = os.path.realpath(path)
        lexical = os.path.normpath(location)
        if lexical == ".." or lexical.startswith(f"..{os.sep}"):
            return "external_unsafe", "the path leads out of the model's folder and is not followed"
        if not any(real.startswith(root.rstrip(os.sep) + os.sep) for root in self.roots):
            return (
                "external_unsafe",
                f"a link leads out of the model's folder, to {shown(real)}: not followed",
            )
        try:
            status = Path(real).stat()
        except OSError as error:
            why = "there is no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
            return "external_missing", why
        if not stat.S_ISREG(status.st_mode):
            return "external_not_regular", "it is not a regular file"
        return path, status.st_size
