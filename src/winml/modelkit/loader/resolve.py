"""What the word after ``-m`` means, decided by looking at local file names only; the network is never asked.

In this order:

1. an existing file, whatever its ending (ONNX Runtime also reads ``.ort``);
2. an existing folder: the one ``.onnx`` file directly in it;
3. a bare word that names a bundled sample (``digits``). Where a local file or folder has the same name, that
   one is taken and the result carries a warning; ``./digits`` never means the sample;
4. otherwise an error that says which of three things the text looked like: a path, a hub id, neither.

``~`` and ``~user/`` are expanded as a shell does, ``file://`` addresses are read as paths, and a trailing
slash says nothing. Devices, pipes and sockets are refused without being opened.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from winml.modelkit.catalog import find_sample, sample_ids
from winml.modelkit.errors import ModelError, UsageError

MODEL_SUFFIXES = (".onnx", ".ort")
_HUB_ID = re.compile(r"[a-z0-9][\w.-]*/[a-z0-9_][\w.-]*(@[\w.-]+)?", re.ASCII | re.IGNORECASE)
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://", re.ASCII | re.IGNORECASE)
_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))
_LISTED = 10  # names listed in one message
_SHOWN = 500  # characters of a name shown in one message
_EXPORT_HINT = (
    "export the model to ONNX, for example with torch.onnx.export(model, inputs, 'model.onnx', dynamo=True), "
    "and give the path of the file"
)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that was found.

    Attributes:
        requested: the text as the user gave it.
        kind: ``file`` for a local file, ``sample`` for a bundled one.
        path: the model file; absolute, so independent of later changes of directory; links are not resolved.
        name: short and printable, for headings: the file's name or the sample's id.
        warnings: what the user should know about how the text was read.
    """

    requested: str
    kind: Literal["file", "sample"]
    path: Path
    name: str
    warnings: tuple[str, ...] = ()


def resolve_model(text: str) -> ModelSource:
    """Find the model file that ``text`` names (see the module's docstring for the rules).

    Raises:
        UsageError: ``model_not_named`` (empty text), ``path_malformed`` (NUL byte, too long, a bad ``file://``),
            ``url_unsupported``, ``several_models`` (a folder with more than one ``.onnx`` file).
        ModelError: ``model_not_found`` (a path that does not exist), ``hub_model_unsupported``,
            ``model_unknown`` (neither path nor id), ``no_model_in_folder``, ``model_not_a_file``,
            ``model_unreadable``, ``path_not_utf8``, ``sample_not_on_disk``.
    """
    local = _local_text(text)
    path = Path(local)
    bare = not any(separator in local for separator in _SEPARATORS)
    shadows = bare and local in sample_ids()
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        sample = find_sample(local) if bare else None
        if sample is None:
            raise _missing(text, path, bare) from None
        return ModelSource(text, "sample", _checked_name(text, sample.model_path), sample.id)
    except UnicodeEncodeError:
        raise _not_utf8(text) from None
    except OSError as error:
        raise _lookup_failed(text, path, error) from None

    if stat.S_ISDIR(mode):
        path = _only_model_in(text, path, shadows)
    elif not stat.S_ISREG(mode):
        raise ModelError(
            f"{_quoted(text)} is {_file_type(mode)}, not a file",
            code="model_not_a_file",
            hint="save the model to a file first; it is opened by its path, and more than once",
            details={"model": _printable(text)},
        )
    located = _checked_name(text, _absolute(path))
    _check_readable(text, located)
    warnings: tuple[str, ...] = ()
    if shadows:
        warnings = (
            f"{_quoted(text)} is read as the local path {_printable(str(located))}, "
            "not as the bundled sample of that name",
        )
    return ModelSource(text, "file", located, _printable(located.name), warnings)


def _local_text(text: str) -> str:
    """``text`` as a path: ``file://`` decoded, ``~`` expanded.

    Raises:
        UsageError: the text cannot be a path on any system.
    """
    local = text
    if url := _URL.match(text):
        if url[1].casefold() != "file":
            raise UsageError(
                f"{_quoted(text)} is an address ({url[1].lower()}); winml reads local files",
                code="url_unsupported",
                hint="download the model first, then give the path of the .onnx file",
                details={"model": _printable(text)},
            )
        local = _file_url_path(text, text[url.end() :])
    if "\0" in local:
        raise UsageError(
            f"{_quoted(text)} holds a NUL character, which no path can",
            code="path_malformed",
            details={"model": _printable(text)},
        )
    if not local.strip():
        raise UsageError(
            f"no model named: the text given is {'blank' if local else 'empty'}",
            code="model_not_named",
            hint=f"give the path of an .onnx file, or a bundled sample: {', '.join(sample_ids())}",
        )
    # A file name such as ~backup.onnx is no user's home.
    if local == "~" or (local.startswith("~") and any(separator in local for separator in _SEPARATORS)):
        try:
            return str(Path(local).expanduser())
        except RuntimeError:  # no such user, or no home: a shell leaves the text alone too
            return local
    return local


def _file_url_path(text: str, rest: str) -> str:
    """The path in what follows ``file://`` (RFC 8089): percent-encoded bytes, no host but this one."""
    from urllib.parse import unquote_to_bytes

    host, slash, tail = rest.partition("/")
    if host.casefold() not in ("", "localhost") or not slash:
        raise UsageError(
            f"{_quoted(text)} is no file address of this machine",
            code="path_malformed",
            hint="write file:///absolute/path/model.onnx, or the plain path",
            details={"model": _printable(text)},
        )
    try:
        local = os.fsdecode(unquote_to_bytes(os.fsencode(f"/{tail}")))
    except UnicodeError:
        raise _not_utf8(text) from None
    return local[1:] if os.name == "nt" and re.match(r"/[A-Za-z]:", local) else local


def _absolute(path: Path) -> Path:
    """``path`` from the root; ``..`` is taken out where that names the same file (not so behind a link)."""
    absolute = path.absolute()
    tidy = Path(os.path.normpath(absolute))
    try:
        return tidy if tidy.samefile(absolute) else absolute
    except OSError:
        return absolute


def _only_model_in(text: str, folder: Path, shadows: bool) -> Path:
    try:
        models = _models_in(folder)
    except OSError as error:
        raise _unreadable(text, f"the folder cannot be listed: {error.strerror}") from None
    sample = find_sample(text) if shadows else None
    beside = f"; the bundled sample of the same name is {sample.model_path}" if sample else ""
    chosen = [name for name in models if name.casefold().endswith(".onnx")]
    if len(chosen) == 1:
        return folder / chosen[0]
    if chosen:
        raise UsageError(
            f"folder {_quoted(text)} holds {len(chosen)} ONNX files: {_listing(chosen)}",
            code="several_models",
            hint=f"name one of them, for example {_printable(str(folder / chosen[0]))}{beside}",
            details={"model": _printable(text), "files": [_printable(name) for name in chosen]},
        )
    below = [str(Path(sub) / name) for sub in _folders_in(folder) for name in _models_or_none(folder / sub)]
    hint = "give the path of an .onnx file"
    if found := models + below:
        hint = f"name the file, for example {_printable(str(folder / found[0]))}"
    elif _mode(folder / "config.json") is not None:
        hint = f"it looks like a Hugging Face model folder; {_EXPORT_HINT}"
    raise ModelError(
        f"folder {_quoted(text)} holds no .onnx file",
        code="no_model_in_folder",
        hint=hint + beside,
        details={"model": _printable(text), "files": [_printable(name) for name in found[:_LISTED]]},
    )


def _models_in(folder: Path) -> list[str]:
    """Sorted names of the model files directly in ``folder``, hidden ones left out.

    Raises:
        OSError: the folder cannot be listed.
    """
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.name.casefold().endswith(MODEL_SUFFIXES) and not entry.name.startswith(".") and entry.is_file()
        )


def _models_or_none(folder: Path) -> list[str]:
    """As ``_models_in``, and empty where the folder cannot be listed: for hints, which must not fail."""
    try:
        return _models_in(folder)
    except OSError:
        return []


def _folders_in(folder: Path) -> list[str]:
    """Sorted names of a few folders in ``folder``, for hints."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())[:_LISTED]
    except OSError:
        return []


def _missing(text: str, path: Path, bare: bool) -> ModelError:
    """Why nothing was found: the text is a path, a Hugging Face id, or neither."""
    details = {"model": _printable(text)}
    if path.is_symlink():
        return ModelError(
            f"{_quoted(text)} is a symbolic link to {_quoted(str(path.readlink()))}, which does not exist",
            code="model_not_found",
            hint="repair the link, or give the path of the file itself",
            details=details,
        )
    if _HUB_ID.fullmatch(text) and not _is_model_name(text) and _mode(path.parent) is None:
        return ModelError(
            f"{_quoted(text)} is no local file or folder; it looks like a Hugging Face id, "
            "and this release reads local ONNX files only",
            code="hub_model_unsupported",
            hint=_EXPORT_HINT,
            details=details,
        )
    # A bare word may have meant a sample; the same word with a slash or an ending is a path that went wrong.
    known = list(sample_ids()) if path.parent == Path() else []
    if bare and not _is_model_name(text):
        return ModelError(
            f"no file, folder or bundled sample is called {_quoted(text)}.{_did_you_mean(path, known)}",
            code="model_unknown",
            hint="give the path of an .onnx file, a folder that holds one, or a bundled sample: "
            + ", ".join(sample_ids()),
            details=details,
        )
    noun = "folder" if text.endswith(_SEPARATORS) else "file"
    absent: Path | None = None
    for parent in path.parents:
        mode = _mode(parent)
        if mode is None:
            absent = parent
            continue
        if not stat.S_ISDIR(mode):
            cause = f": {_quoted(str(parent))} is a file, not a folder"
        else:
            cause = f": there is no folder {_quoted(str(absent))}" if absent else ""
        break
    else:
        cause = f": there is no folder {_quoted(str(absent))}"
    hint = "check the spelling"
    if not cause:
        meant = _did_you_mean(path, known)
        cause = f".{meant}" if meant else ""
        models = _models_or_none(path.parent)
        where = "this folder" if path.parent == Path() else _quoted(str(path.parent))
        hint = f"model files in {where}: {_listing(models) if models else 'none'}"
    if not path.is_absolute():
        hint += f"; relative paths start at {_working_directory()}"
    return ModelError(f"no such {noun} {_quoted(text)}{cause}", code="model_not_found", hint=hint, details=details)


def _did_you_mean(path: Path, known: list[str]) -> str:
    """`` Did you mean 'x'?``: the nearest of ``known`` and the model files beside ``path``; or nothing."""
    import difflib

    # Compared with and without ending, so that `m` finds m.onnx.
    names: dict[str, str] = {}
    for word in known:
        names.setdefault(word.casefold(), word)
    for file in _models_or_none(path.parent):
        for form in (Path(file).stem, file):
            names.setdefault(form.casefold(), str(path.parent / file))
    wanted = path.name.casefold()
    for form in (wanted, wanted.strip(), Path(wanted).stem if _is_model_name(wanted) else wanted):
        if close := difflib.get_close_matches(form, list(names), n=1, cutoff=0.6):
            return f" Did you mean {_quoted(names[close[0]])}?"
    return ""


def _is_model_name(text: str) -> bool:
    return text.casefold().endswith(MODEL_SUFFIXES)


def _mode(path: Path) -> int | None:
    """The file mode, or None where there is nothing to look at."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return None


def _file_type(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return "something special"


def _check_readable(text: str, path: Path) -> None:
    # Opening is the one question that Windows ACLs answer truly; the caller knows it is a regular file.
    try:
        path.open("rb").close()
    except OSError as error:
        raise _unreadable(text, f"the file cannot be opened: {error.strerror}") from None


def _checked_name(text: str, path: Path) -> Path:
    """``path``, if ONNX Runtime can open it: its binding raises TypeError on a name that is not UTF-8."""
    for name in (text, str(path)):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise _not_utf8(name) from None
    return path


def _not_utf8(name: str) -> ModelError:
    return ModelError(
        f"the path {_quoted(name)} is not valid UTF-8, and ONNX Runtime cannot open such a name",
        code="path_not_utf8",
        hint="rename the file or folder, or give the model through a symbolic link with a UTF-8 path",
        details={"model": _printable(name)},
    )


def _lookup_failed(text: str, path: Path, error: OSError) -> ModelError | UsageError:
    if isinstance(error, PermissionError):
        # The nearest folder that can be seen is the one that does not let us look inside.
        closed = next((parent for parent in path.parents if _mode(parent) is not None), path.parent)
        return _unreadable(text, f"no permission to look inside folder {_quoted(str(closed))}")
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
        return UsageError(
            f"{_quoted(text)} cannot be a path here: {error.strerror}",
            code="path_malformed",
            details={"model": _printable(text)},
        )
    return _unreadable(text, f"looking it up failed: {error.strerror}")


def _unreadable(text: str, cause: str) -> ModelError:
    return ModelError(
        f"{_quoted(text)}: {cause}",
        code="model_unreadable",
        hint="check that it, and the folders above it, can be read by this user",
        details={"model": _printable(text)},
    )


def _working_directory() -> str:
    try:
        return _printable(str(Path.cwd()))
    except FileNotFoundError:
        return "the working directory, which was deleted"


def _listing(names: list[str]) -> str:
    listed = ", ".join(_printable(name) for name in names[:_LISTED])
    return f"{listed} and {len(names) - _LISTED} more" if len(names) > _LISTED else listed


def _quoted(text: str) -> str:
    return f"'{_printable(text)}'"


def _printable(text: str) -> str:
    r"""``text`` for terminals and JSON: controls as ``\n`` or ``\x1b``, undecodable bytes as ``\xff``."""
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}…{text[-_SHOWN // 2 :]}"
    return "".join(map(_printable_char, shown))


def _printable_char(char: str) -> str:
    if char.isprintable():
        return char
    # surrogateescape stands for the byte 0x80..0xff as U+DC80..U+DCFF
    return f"\\x{ord(char) - 0xDC00:02x}" if "\udc80" <= char <= "\udcff" else repr(char)[1:-1]
