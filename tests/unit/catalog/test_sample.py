"""The bundled samples: what they say of themselves, and that their files are where they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from winml.modelkit import catalog
from winml.modelkit.catalog import find_sample, sample_ids, samples

PACKAGE = Path(catalog.__file__).parents[1]


def test_digits_is_bundled() -> None:
    assert sample_ids() == ("digits",)
    (digits,) = samples()
    assert digits == find_sample("digits")
    assert (digits.id, digits.task) == ("digits", "image-classification")
    assert "CC BY 4.0" in digits.licence
    assert "MIT" in digits.licence


def test_files_are_real_and_self_contained() -> None:
    (digits,) = samples()
    assert digits.model_path.is_absolute()
    assert 250_000 < digits.model_path.stat().st_size < 500_000  # 74,746 float32 weights are 298,984 bytes
    assert digits.data_path.stat().st_size < 100_000
    assert sorted(path.name for path in digits.model_path.parent.iterdir()) == [
        "README.md",
        "digits.onnx",
        "digits_test.npz",
    ]


def test_test_data_is_as_documented() -> None:
    (digits,) = samples()
    with np.load(digits.data_path) as data:
        images, labels = data["images"], data["labels"]
        assert sorted(data.files) == ["images", "labels"]
    assert (images.shape, images.dtype) == ((360, 1, 8, 8), np.uint8)
    assert (labels.shape, labels.dtype) == ((360,), np.int64)
    assert (int(images.min()), int(images.max())) == (0, 16)
    counts = np.bincount(labels)
    assert len(counts) == 10
    assert counts.min() >= 34  # stratified: 360 images, ten digits
    assert counts.max() <= 38


def test_test_data_is_a_part_of_scikit_learns_digits() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    everything = datasets.load_digits()
    known = {
        (image.astype(np.uint8).tobytes(), int(label))
        for image, label in zip(everything.images, everything.target, strict=True)
    }
    (digits,) = samples()
    with np.load(digits.data_path) as data:
        held_out = {(image.tobytes(), int(label)) for image, label in zip(data["images"], data["labels"], strict=True)}
    assert held_out <= known
    assert len(held_out) == 360


@pytest.mark.parametrize("word", ["Digits", "digits ", "", "mnist", "digits/"])
def test_only_the_exact_id_finds_a_sample(word: str) -> None:
    assert find_sample(word) is None


def _python(code: str, path: Path, cwd: Path) -> str:
    """Run code with ``path`` as the only place of packages beside the standard library."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(path)},
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_needs_the_standard_library_only(tmp_path: Path) -> None:
    code = "from winml.modelkit.catalog import samples; print(samples()[0].id)"
    assert _python(code, PACKAGE.parents[1], tmp_path) == "digits\n"


def _copy_package(target: Path) -> Path:
    """The parts of the package that the catalog and the loader need, under ``target/winml``."""
    inner = target / "winml" / "modelkit"
    for part in ("catalog", "loader"):
        shutil.copytree(PACKAGE / part, inner / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("__init__.py", "_version.py", "errors.py"):
        shutil.copy(PACKAGE / part, inner / part)
    return target


REPORT = """
from winml.modelkit.errors import ModelError
from winml.modelkit.catalog import samples
from winml.modelkit.loader import resolve_model
for call in (samples, lambda: resolve_model("digits")):
    try:
        print(call())
    except ModelError as error:
        print(error.code, "|", error.reason, "|", error.hint)
"""


def test_package_inside_a_zip_says_so(tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", _copy_package(tmp_path / "copy"))
    lines = _python(REPORT, Path(archive), tmp_path).splitlines()
    assert len(lines) == 2
    for line in lines:
        code, reason, hint = line.split(" | ")
        assert code == "sample_not_on_disk"
        assert reason.endswith(f"the package was imported from the archive {archive}")
        assert "pip" in hint


def test_incomplete_installation_names_the_missing_file(tmp_path: Path) -> None:
    copy = _copy_package(tmp_path / "copy")
    gone = copy / "winml" / "modelkit" / "catalog" / "samples" / "digits" / "digits_test.npz"
    gone.unlink()
    for line in _python(REPORT, copy, tmp_path).splitlines():
        assert line.startswith("sample_not_on_disk | ")
        assert f"no file {gone}: the installation is incomplete" in line
