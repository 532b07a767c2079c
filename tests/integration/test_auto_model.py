"""The Python API on real EPs: the same resolver, the same proof, the same refusals as the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from winml.modelkit import DeviceNotFound, WinMLAutoModel, WinMLError
from winml.modelkit.catalog import find_sample


@pytest.fixture(scope="module")
def held_out() -> tuple[np.ndarray, np.ndarray]:
    sample = find_sample("digits")
    assert sample is not None
    data = np.load(sample.data_path)
    return data["images"].astype(np.float32) / 16, data["labels"]


def test_digits_on_cpu_is_as_accurate_as_trained(held_out: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = held_out
    model = WinMLAutoModel.from_pretrained("digits", ep="cpu")
    logits = model(image=images)["logits"]
    assert (logits.argmax(axis=1) == labels).mean() >= 0.98
    placed = model.placement()
    assert placed["target_nodes"] == placed["nodes_total"] > 0
    assert (model.effective.ep, model.effective.device) == ("CPUExecutionProvider", "cpu")


@pytest.mark.parametrize("way", ["from_onnx", "from_pretrained"])
def test_no_target_is_auto_on_every_path(way: str) -> None:
    sample = find_sample("digits")
    assert sample is not None
    model = getattr(WinMLAutoModel, way)(sample.model_path)
    assert model.requested.is_open
    assert "first usable of npu, gpu, cpu" in model.effective.rule


@pytest.mark.parametrize("way", ["from_onnx", "from_pretrained"])
def test_a_target_that_is_not_here_is_refused_and_never_the_cpu(way: str) -> None:
    with pytest.raises(WinMLError) as caught:
        getattr(WinMLAutoModel, way)("digits", ep="vitisai", device="npu")
    assert caught.value.exit_code == 3


def test_a08_qnn_is_refused_without_emulate_in_a_process_of_its_own() -> None:
    code = """
import json
from winml.modelkit import WinMLAutoModel, WinMLError
try:
    WinMLAutoModel.from_pretrained("digits", ep="qnn", device="npu", dims={"batch": 1})
except WinMLError as error:
    refused = [type(error).__name__, error.exit_code]
model = WinMLAutoModel.from_pretrained("digits", ep="qnn", device="npu", emulate=True, dims={"batch": 1})
placed = model.placement()
print(json.dumps([refused, model.effective.emulated, placed["target_nodes"] == placed["nodes_total"]]))
"""
    try:
        import onnxruntime_qnn  # noqa: F401
    except ImportError:
        pytest.skip("onnxruntime-qnn is not installed")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
    assert answer == [[DeviceNotFound.__name__, 3], True, True]


def test_inputs_that_do_not_fit_are_named() -> None:
    model = WinMLAutoModel.from_pretrained("digits", ep="cpu")
    with pytest.raises(WinMLError, match="missing: image; unknown: picture"):
        model(picture=np.zeros((1, 1, 8, 8), np.float32))
    with pytest.raises(WinMLError, match="given twice: image"):
        model({"image": np.zeros((1, 1, 8, 8), np.float32)}, image=np.zeros((1, 1, 8, 8), np.float32))
