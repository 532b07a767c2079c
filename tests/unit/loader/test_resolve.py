"""What the word after ``-m`` means: rules, messages, and names that are awkward on purpose."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from winml.modelkit import loader
from winml.modelkit.catalog import samples
from winml.modelkit.errors import EXIT_FAILED, EXIT_USAGE, ModelError, UsageError, WinMLError
from winml.modelkit.loader import ModelSource, resolve_model

if TYPE_CHECKING:
    from collections.abc import Iterator

SRC = Path(loader.__file__).parents[3]
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX file types, names and permissions")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"model")
    return path


def refusal(text: str) -> WinMLError:
    with pytest.raises(WinMLError) as caught:
        resolve_model(text)
    error = caught.value
    shown = f"{error.reason}{error.hint}{error.details}"
    assert shown.isprintable()
    shown.encode()
    return error


# Files and folders


@pytest.mark.parametrize("name", ["m.onnx", "M.ONNX", "m.ort", "m.bin", "m"])
def test_existing_file_of_any_ending(here: Path, name: str) -> None:
    path = put(here / name)
    assert resolve_model(name) == ModelSource(requested=name, kind="file", path=path, name=name)


def test_absolute_dotted_and_slashed_spellings_are_one_file(here: Path) -> None:
    path = put(here / "sub" / "m.onnx")
    for text in ("sub/m.onnx", "./sub/m.onnx", "sub//m.onnx", "sub/../sub/m.onnx", "sub/m.onnx/", str(path)):
        source = resolve_model(text)
        assert (source.path, source.requested) == (path, text)


def test_relative_path_does_not_depend_on_a_later_chdir(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(here / "rel" / "m.onnx")
    source = resolve_model("rel/../rel/m.onnx")
    monkeypatch.chdir(tmp_path)
    assert source.path.is_absolute()
    assert source.path == path
    assert source.path.is_file()


@posix
def test_symbolic_link_keeps_its_name(here: Path) -> None:
    put(here / "store" / "blob")
    (here / "m.onnx").symlink_to("store/blob")
    source = resolve_model("m.onnx")
    assert (source.path, source.name) == (here / "m.onnx", "m.onnx")


@posix
def test_dots_behind_a_linked_folder_are_not_cut_away(here: Path) -> None:
    """a/link/../m.onnx is beside the link's target, and a/m.onnx is another file."""
    (here / "far" / "deep").mkdir(parents=True)
    (here / "far" / "m.onnx").write_bytes(b"right")
    (here / "a").mkdir()
    (here / "a" / "m.onnx").write_bytes(b"wrong")
    (here / "a" / "link").symlink_to(here / "far" / "deep")
    assert resolve_model("a/link/../m.onnx").path.read_bytes() == b"right"


def test_home_is_expanded(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    path = put(home / "m.onnx")
    monkeypatch.setenv("USERPROFILE" if os.name == "nt" else "HOME", str(home))
    assert resolve_model("~/m.onnx").path == path
    assert resolve_model("~").path == path
    plain = put(here / "~backup.onnx")
    assert resolve_model("~backup.onnx").path == plain
    assert refusal("~no-such-user-here/m.onnx").code == "model_not_found"


def test_folder_with_one_model(here: Path) -> None:
    path = put(here / "out" / "m.onnx")
    put(here / "out" / "m.onnx.data")
    put(here / "out" / "._m.onnx")
    (here / "out" / "cache.onnx").mkdir()
    for text in ("out", "out/", "./out", str(here / "out")):
        assert resolve_model(text) == ModelSource(requested=text, kind="file", path=path, name="m.onnx")


def test_folder_with_several_models_lists_them(here: Path) -> None:
    for name in ("b.onnx", "a.onnx", "c.ONNX", "d.ort"):
        put(here / "out" / name)
    error = refusal("out")
    assert isinstance(error, UsageError)
    assert (error.code, error.exit_code) == ("several_models", EXIT_USAGE)
    assert error.reason == "folder 'out' holds 3 ONNX files: a.onnx, b.onnx, c.ONNX"
    assert error.details["files"] == ["a.onnx", "b.onnx", "c.ONNX"]
    assert error.hint == f"name one of them, for example {Path('out/a.onnx')}"


def test_long_listings_are_cut(here: Path) -> None:
    for number in range(15):
        put(here / "out" / f"m{number:02}.onnx")
    assert refusal("out").reason.endswith("m08.onnx, m09.onnx and 5 more")


def test_folder_without_a_model(here: Path) -> None:
    (here / "out").mkdir()
    error = refusal("out")
    assert isinstance(error, ModelError)
    assert (error.code, error.exit_code) == ("no_model_in_folder", EXIT_FAILED)
    assert error.reason == "folder 'out' holds no .onnx file"
    assert error.hint == "give the path of an .onnx file"


def test_folder_without_a_model_points_to_what_is_near(here: Path) -> None:
    put(here / "hub" / "config.json")
    assert "torch.onnx.export" in (refusal("hub").hint or "")
    put(here / "hub" / "onnx" / "model.onnx")
    assert refusal("hub").hint == f"name the file, for example {Path('hub/onnx/model.onnx')}"
    put(here / "hub" / "model.ort")
    assert refusal("hub").hint == f"name the file, for example {Path('hub/model.ort')}"


# The bundled sample


def test_bundled_sample(here: Path) -> None:
    (digits,) = samples()
    assert resolve_model("digits") == ModelSource("digits", "sample", digits.model_path, "digits")


def test_local_file_wins_over_the_sample_and_says_so(here: Path) -> None:
    path = put(here / "digits")
    source = resolve_model("digits")
    assert (source.kind, source.path) == ("file", path)
    assert source.warnings == (f"'digits' is read as the local path {path}, not as the bundled sample of that name",)
    assert resolve_model("./digits").warnings == ()


def test_local_folder_wins_over_the_sample_and_says_so(here: Path) -> None:
    path = put(here / "digits" / "m.onnx")
    source = resolve_model("digits")
    assert (source.kind, source.path) == ("file", path)
    assert len(source.warnings) == 1


def test_local_folder_that_hides_the_sample_names_it(here: Path) -> None:
    (here / "digits").mkdir()
    (digits,) = samples()
    assert refusal("digits").hint == (
        f"give the path of an .onnx file; the bundled sample of the same name is {digits.model_path}"
    )
    put(here / "digits" / "a.onnx")
    put(here / "digits" / "b.onnx")
    assert str(digits.model_path) in (refusal("digits").hint or "")
    assert str(digits.model_path) not in (refusal("./digits").hint or "")


@pytest.mark.parametrize("text", ["./digits", "digits/", "digits.onnx"])
def test_a_path_never_means_the_sample(here: Path, text: str) -> None:
    error = refusal(text)
    assert error.code == "model_not_found"
    assert "Did you mean 'digits'?" in error.reason


# Missing: three different messages


def test_missing_file_hub_id_and_unknown_word_are_told_apart(here: Path) -> None:
    path, hub, word = refusal("./nope.onnx"), refusal("org/nope"), refusal("nope")
    assert [error.code for error in (path, hub, word)] == [
        "model_not_found",
        "hub_model_unsupported",
        "model_unknown",
    ]
    assert all(isinstance(error, ModelError) and error.exit_code == EXIT_FAILED for error in (path, hub, word))
    assert path.reason == "no such file './nope.onnx'"
    assert path.hint == f"model files in this folder: none; relative paths start at {here}"
    assert hub.reason.startswith("'org/nope' is no local file or folder; it looks like a Hugging Face id")
    assert "torch.onnx.export" in (hub.hint or "")
    assert word.reason == "no file, folder or bundled sample is called 'nope'."
    assert (word.hint or "").endswith("a bundled sample: digits")


@pytest.mark.parametrize("text", ["microsoft/resnet-50", "openai/whisper-tiny.en", "org/name@v1.0", "a/b"])
def test_hub_ids(here: Path, text: str) -> None:
    assert refusal(text).code == "hub_model_unsupported"


@pytest.mark.parametrize(
    "text",
    ["org/nope.onnx", "org/nope.ort", "./org/nope", "/org/nope", "a/b/c", "../org/nope", "org/", "org/ b"],
)
def test_paths_that_are_no_hub_ids(here: Path, text: str) -> None:
    assert refusal(text).code == "model_not_found"


def test_name_in_an_existing_folder_is_no_hub_id(here: Path) -> None:
    put(here / "models" / "resnet50.onnx")
    error = refusal("models/resnet")
    assert error.code == "model_not_found"
    meant = Path("models/resnet50.onnx")
    assert error.reason == f"no such file 'models/resnet'. Did you mean '{meant}'?"


@pytest.mark.parametrize("text", ["digit", "Digits", "digits ", "digitss"])
def test_unknown_word_suggests_the_sample(here: Path, text: str) -> None:
    error = refusal(text)
    assert error.code == "model_unknown"
    assert error.reason.endswith("Did you mean 'digits'?")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("modl.onnx", "model.onnx"), ("model", "model.onnx"), ("model.onx", "model.onnx"), ("x", "x.onnx")],
)
def test_missing_file_suggests_its_neighbour(here: Path, typed: str, meant: str) -> None:
    put(here / meant)
    put(here / "entirely-different.onnx")
    assert refusal(typed).reason.endswith(f" Did you mean '{meant}'?")


def test_missing_file_lists_the_folder(here: Path) -> None:
    put(here / "sub" / "a.onnx")
    put(here / "sub" / "b.ort")
    put(here / "sub" / "notes.txt")
    error = refusal("sub/zzzzzz.onnx")
    assert error.reason == "no such file 'sub/zzzzzz.onnx'"
    assert error.hint == f"model files in 'sub': a.onnx, b.ort; relative paths start at {here}"


def test_missing_folder_and_file_in_the_way_are_named(here: Path) -> None:
    assert refusal("no/sub/m.onnx").reason == "no such file 'no/sub/m.onnx': there is no folder 'no'"
    assert refusal("./no/").reason == "no such folder './no/'"
    put(here / "m.onnx")
    assert refusal("m.onnx/x.onnx").reason == "no such file 'm.onnx/x.onnx': 'm.onnx' is a file, not a folder"


@posix
def test_dangling_and_looping_links(here: Path) -> None:
    (here / "m.onnx").symlink_to("gone.onnx")
    error = refusal("m.onnx")
    assert error.code == "model_not_found"
    assert error.reason == "'m.onnx' is a symbolic link to 'gone.onnx', which does not exist"
    (here / "loop.onnx").symlink_to("loop.onnx")
    assert refusal("loop.onnx").code == "model_unreadable"


@posix
def test_deleted_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert resolve_model("digits").kind == "sample"
    assert (refusal("m.onnx").hint or "").endswith("the working directory, which was deleted")
    monkeypatch.chdir(tmp_path)


def test_decided_without_network_and_with_the_standard_library_only(tmp_path: Path) -> None:
    code = """
import sys
from winml.modelkit.errors import ModelError
from winml.modelkit.loader import resolve_model
for text in ("./nope.onnx", "org/nope", "nope", "file:///nope.onnx"):
    try:
        resolve_model(text)
    except ModelError as error:
        print(error.code)
print(resolve_model("digits").kind)
print([name for name in ("socket", "ssl", "http", "urllib.request", "asyncio") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    assert done.stdout.split("\n") == [
        "model_not_found",
        "hub_model_unsupported",
        "model_unknown",
        "model_not_found",
        "sample",
        "[]",
        "",
    ]


# Awkward names


@pytest.mark.parametrize(
    "name",
    [
        "two words.onnx",
        'it\'s "quoted".onnx',
        "模型 モデル.onnx",
        "new\nline.onnx",
        "é.onnx",
        "e\u0301.onnx",
        "-m.onnx",
    ],
)
def test_awkward_utf8_names(here: Path, name: str) -> None:
    try:
        path = put(here / name)
    except OSError:
        pytest.skip("the file system refuses this name")
    source = resolve_model(name)
    assert source.path == path
    assert source.name.isprintable()
    assert resolve_model(str(here)).path == path


def test_heading_name_holds_no_control_characters(here: Path) -> None:
    try:
        put(here / "red\x1b[31m.onnx")
    except OSError:
        pytest.skip("the file system refuses this name")
    assert resolve_model("red\x1b[31m.onnx").name == "red\\x1b[31m.onnx"


@pytest.fixture
def undecodable(here: Path) -> str:
    """The name of an existing file whose bytes are not UTF-8, as the interpreter spells it."""
    if os.name == "nt":
        pytest.skip("Windows names are Unicode")
    name = os.fsdecode(b"bad\xff.onnx")
    try:
        put(here / name)
    except OSError:
        pytest.skip("the file system refuses names that are not UTF-8")
    return name


def test_non_utf8_name_is_refused_with_its_bytes(here: Path, undecodable: str) -> None:
    error = refusal(undecodable)
    assert isinstance(error, ModelError)
    assert error.code == "path_not_utf8"
    assert "bad\\xff.onnx" in error.reason
    assert "rename" in (error.hint or "")


def test_non_utf8_name_found_in_a_folder_or_by_url(here: Path, undecodable: str) -> None:
    assert refusal(str(here)).code == "path_not_utf8"
    assert refusal(f"{here.as_uri()}/bad%FF.onnx").code == "path_not_utf8"


def test_non_utf8_working_directory(here: Path, undecodable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / os.fsdecode(b"dir\xfe")
    put(folder / "m.onnx")
    monkeypatch.chdir(folder)
    error = refusal("m.onnx")
    assert error.code == "path_not_utf8"
    assert "dir\\xfe/m.onnx" in error.reason


def test_link_with_a_utf8_name_is_the_way_round(here: Path, undecodable: str) -> None:
    (here / "good.onnx").symlink_to(undecodable)
    assert resolve_model("good.onnx").path == here / "good.onnx"


def test_missing_non_utf8_name(here: Path, undecodable: str) -> None:
    assert refusal(os.fsdecode(b"other\xff.onnx")).code == "model_not_found"


@pytest.mark.parametrize("text", ["a\0b.onnx", "\0", "file:///a%00b.onnx"])
def test_nul_byte(here: Path, text: str) -> None:
    error = refusal(text)
    assert isinstance(error, UsageError)
    assert (error.code, error.exit_code) == ("path_malformed", EXIT_USAGE)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_no_name_at_all(here: Path, text: str) -> None:
    error = refusal(text)
    assert (error.code, error.exit_code) == ("model_not_named", EXIT_USAGE)
    assert (error.hint or "").endswith("digits")


@posix
def test_name_too_long(here: Path) -> None:
    error = refusal("x" * 5000)
    assert (error.code, error.exit_code) == ("path_malformed", EXIT_USAGE)
    assert len(error.reason) < 700


# Addresses


def test_file_address(here: Path) -> None:
    path = put(here / "two words #1.onnx")
    assert resolve_model(path.as_uri()).path == path
    assert resolve_model(path.as_uri().replace("file://", "FILE://localhost")).path == path
    assert refusal(path.as_uri() + "x").code == "model_not_found"


@pytest.mark.parametrize("text", ["file://elsewhere/m.onnx", "file://", "file://m.onnx"])
def test_file_address_of_another_host(here: Path, text: str) -> None:
    error = refusal(text)
    assert (error.code, error.exit_code) == ("path_malformed", EXIT_USAGE)


@pytest.mark.parametrize("text", ["https://host/m.onnx", "HTTP://host/m.onnx", "s3://bucket/m.onnx", "hf://org/m"])
def test_other_addresses_are_not_read(here: Path, text: str) -> None:
    error = refusal(text)
    assert (error.code, error.exit_code) == ("url_unsupported", EXIT_USAGE)
    assert "download" in (error.hint or "")


# Things that are no files, and things that may not be read


@posix
@pytest.mark.timeout(20)
def test_pipes_sockets_and_devices_are_refused_unopened(here: Path) -> None:
    os.mkfifo(here / "pipe.onnx")  # opening it to read would wait for a writer
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock.onnx")
        refusals = [refusal(text) for text in ("pipe.onnx", "sock.onnx", "/dev/null", "/dev/zero")]
    assert {error.code for error in refusals} == {"model_not_a_file"}
    assert [error.reason for error in refusals] == [
        "'pipe.onnx' is a pipe, not a file",
        "'sock.onnx' is a socket, not a file",
        "'/dev/null' is a device, not a file",
        "'/dev/zero' is a device, not a file",
    ]
    assert refusal(".").code == "no_model_in_folder"


@contextlib.contextmanager
def _plain_user() -> Iterator[None]:
    """Root may read everything, so as root the block runs as the user nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@posix
def test_permission_denied_names_the_obstacle() -> None:
    root = Path(tempfile.mkdtemp())
    closed, secret = root / "closed", root / "secret.onnx"
    try:
        put(closed / "sub" / "m.onnx")
        put(secret)
        root.chmod(0o755)
        secret.chmod(0o000)
        closed.chmod(0o000)
        with _plain_user():
            inside, folder, file = (refusal(str(path)) for path in (closed / "sub/m.onnx", closed, secret))
    finally:
        closed.chmod(0o700)
        shutil.rmtree(root)
    assert [error.code for error in (inside, folder, file)] == ["model_unreadable"] * 3
    assert inside.reason == f"'{closed}/sub/m.onnx': no permission to look inside folder '{closed}'"
    assert folder.reason == f"'{closed}': the folder cannot be listed: Permission denied"
    assert file.reason == f"'{secret}': the file cannot be opened: Permission denied"


@given(st.text(st.characters(codec=None), max_size=40))
@example("\ud800")
@example("file://\udcff/")
@example("file:///\ud800")
@example("~/\ud800")
@example("a/\udcff")
def test_any_text_gives_a_model_or_one_clean_refusal(text: str) -> None:
    try:
        source = resolve_model(text)
    except WinMLError as error:
        for words in (error.reason, error.hint or "", str(error.details)):
            words.encode()
            assert words.isprintable()
    else:
        assert source.path.is_absolute()
        assert source.path.is_file()
        f"{source.requested}{source.path}{source.name}".encode()
