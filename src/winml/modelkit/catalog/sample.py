"""The bundled samples: small real models with their held-out data, for a first run that needs no network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from winml.modelkit.errors import ModelError

# ONNX Runtime opens a model by its path, so the files are used where they were installed.
_FOLDER = Path(__file__).absolute().parent / "samples"


@dataclass(frozen=True, slots=True)
class Sample:
    """One bundled model and its test data.

    Attributes:
        id: the word that names it on the command line.
        title: what it is, in one line.
        task: Hugging Face task name.
        model_path: the ONNX file, weights inside.
        data_path: an npz file of held-out data; the README.md beside it says its arrays.
        licence: of the model and of the data.
    """

    id: str
    title: str
    task: str
    model_path: Path
    data_path: Path
    licence: str


_SAMPLES = (
    Sample(
        id="digits",
        title="handwritten digits, 8x8 grey, residual CNN",
        task="image-classification",
        model_path=_FOLDER / "digits" / "digits.onnx",
        data_path=_FOLDER / "digits" / "digits_test.npz",
        licence="model MIT; data CC BY 4.0 (UCI Optical Recognition of Handwritten Digits)",
    ),
)


def sample_ids() -> tuple[str, ...]:
    """The words that name bundled samples; looks at no file."""
    return tuple(sample.id for sample in _SAMPLES)


def samples() -> list[Sample]:
    """All bundled samples, each with its files present on disk.

    Raises:
        ModelError: ``sample_not_on_disk``, where the package was not installed as plain files.
    """
    return [_on_disk(sample) for sample in _SAMPLES]


def find_sample(id: str) -> Sample | None:
    """The bundled sample of exactly that id, or None.

    Raises:
        ModelError: ``sample_not_on_disk``, where the package was not installed as plain files.
    """
    return next((_on_disk(sample) for sample in _SAMPLES if sample.id == id), None)


def _on_disk(sample: Sample) -> Sample:
    for path in (sample.model_path, sample.data_path):
        if path.is_file():
            continue
        archive = next((parent for parent in path.parents if parent.is_file()), None)
        cause = f"the package was imported from the archive {archive}" if archive else "the installation is incomplete"
        raise ModelError(
            f"bundled sample {sample.id!r}: no file {path}: {cause}",
            code="sample_not_on_disk",
            hint="install winml-cli with pip, which unpacks it; ONNX Runtime opens models by path only",
            details={"sample": sample.id, "path": str(path)},
        )
    return sample
