"""Train the bundled sample ``digits`` and write it with its held-out set.

A small residual network learns scikit-learn's 8x8 digits on one CPU thread in about a minute. Run it with::

    pip install -e ".[dev]" -c constraints.txt
    python examples/train_digits.py

It writes ``digits.onnx`` and ``digits_test.npz`` into the package's sample folder (``--output`` chooses
another), and only after the exported model was proven: held-out accuracy at least 0.98, ONNX Runtime's
predictions equal to torch's, no external data, no path of this machine inside.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20
HELD_OUT = 360  # of 1797 images, the same number of each digit give or take one
PIXEL_MAX = 16.0  # a pixel counts the black points of a 4x4 block, so 0..16
EPOCHS = 60
BATCH = 64
OPSET = 20
MIN_ACCURACY = 0.98
MAX_DIFFERENCE = 1e-4
SAMPLE_DIR = Path(__file__).resolve().parents[1] / "src/winml/modelkit/catalog/samples/digits"


class ConvNorm(nn.Module):
    """3x3 convolution and batch normalisation, which ``fold`` merges into one convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm: nn.BatchNorm2d | nn.Identity = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.norm(self.conv(x))
        return out

    def fold(self) -> None:
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv, self.norm)
            self.norm = nn.Identity()


class Residual(nn.Module):
    """Two convolutions beside a skip connection: [N,C,H,W] to [N,C,H,W]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = ConvNorm(width, width)
        self.second = ConvNorm(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x + self.second(functional.relu(self.first(x))))


class DigitsNet(nn.Module):
    """float32 [N,1,8,8] with values 0..1 to logits float32 [N,10]; about 75 thousand parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(1, 32)
        self.fine = Residual(32)
        self.down = ConvNorm(32, 48, stride=2)
        self.coarse = Residual(48)
        self.head = nn.Linear(48, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.fine(functional.relu(self.stem(image)))
        x = self.coarse(functional.relu(self.down(x)))
        logits: torch.Tensor = self.head(x.mean(dim=(2, 3)))
        return logits

    def fold(self) -> None:
        """Merge every batch normalisation into its convolution; the network must be in eval mode."""
        for module in self.modules():
            if isinstance(module, ConvNorm):
                module.fold()


def scaled(pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
    """Pixels 0..16 to the float32 0..1 that the model takes."""
    return torch.from_numpy(pixels.astype(np.float32) / PIXEL_MAX)


def shifted(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each image of [N,1,8,8] moved by up to one pixel in x and in y."""
    padded = functional.pad(images, (1, 1, 1, 1))
    out = torch.empty_like(images)
    offsets = torch.randint(0, 3, (len(images), 2), generator=generator).tolist()
    for index, (y, x) in enumerate(offsets):
        out[index] = padded[index, :, y : y + 8, x : x + 8]
    return out


def train(images: torch.Tensor, labels: torch.Tensor) -> DigitsNet:
    """Train on images [N,1,8,8] and labels int64 [N]; gives the network folded and in eval mode."""
    generator = torch.Generator().manual_seed(SEED)
    net = DigitsNet()
    steps = EPOCHS * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        for batch in torch.split(torch.randperm(len(images), generator=generator), BATCH):
            optimizer.zero_grad()
            logits = net(shifted(images[batch], generator))
            loss = functional.cross_entropy(logits, labels[batch], label_smoothing=0.05)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        if epoch % 10 == 0:
            print(f"epoch {epoch}/{EPOCHS}: training loss {total / len(images):.4f}")
    net.eval()
    net.fold()
    return net


def export(net: DigitsNet) -> onnx.ModelProto:
    """The network as one ONNX file: ``image`` float32 [batch,1,8,8] to ``logits`` float32 [batch,10]."""
    program = torch.onnx.export(
        net,
        (torch.zeros(2, 1, 8, 8),),
        input_names=["image"],
        output_names=["logits"],
        opset_version=OPSET,
        dynamic_shapes=({0: "batch"},),
        dynamo=True,
        verbose=False,
    )
    if program is None:
        raise SystemExit("torch.onnx.export returned nothing")
    model: onnx.ModelProto = program.model_proto
    # The exporter notes stack traces, with absolute paths, at nodes and values; they are not about the model.
    graph = model.graph
    for proto in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del proto.metadata_props[:]
        proto.doc_string = ""
    del model.metadata_props[:]
    metadata = {
        "task": "image-classification",
        "labels": json.dumps([str(digit) for digit in range(10)]),
        "input_scaling": json.dumps({"image": 1 / PIXEL_MAX}),
        "source": "examples/train_digits.py",
        "data": "scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits, "
        "E. Alpaydin and C. Kaynak, https://doi.org/10.24432/C50P49, CC BY 4.0",
    }
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(model, full_check=True)
    return model


def check(model: onnx.ModelProto, net: DigitsNet, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Prove the exported model against torch on the held-out images; end the program where it falls short."""
    data = model.SerializeToString()
    inside = [mark for mark in (str(Path.home()), sys.prefix, "site-packages", "/usr/") if mark.encode() in data]
    if inside:
        raise SystemExit(f"the exported model holds machine paths: {', '.join(inside)}")
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise SystemExit("the exported model keeps weights outside the file")
    with torch.no_grad():
        expected: npt.NDArray[np.float32] = net(images).numpy()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    actual = np.asarray(session.run(["logits"], {"image": images.numpy()})[0])
    difference = float(np.abs(actual - expected).max())
    right = int((actual.argmax(1) == labels.numpy()).sum())
    accuracy = right / len(labels)
    print(f"held-out accuracy {accuracy:.4f} ({right} of {len(labels)}), ONNX Runtime to torch {difference:.1e}")
    if not (actual.argmax(1) == expected.argmax(1)).all() or difference >= MAX_DIFFERENCE:
        raise SystemExit(f"ONNX Runtime and torch disagree: max abs difference {difference:.1e}")
    if accuracy < MIN_ACCURACY:
        raise SystemExit(f"held-out accuracy {accuracy:.4f} is below {MIN_ACCURACY}")


def write(path: Path, save: Callable[[Path], object]) -> None:
    """Save under a temporary name beside ``path``, then rename: no half-written file bears the final name."""
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        save(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    print(f"wrote {path} ({path.stat().st_size:,} bytes)")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the bundled sample 'digits'.")
    parser.add_argument("--output", type=Path, default=SAMPLE_DIR, help="folder to write to (default: %(default)s)")
    output: Path = parser.parse_args().output

    # One thread and fixed seeds: the same machine gives the same file again.
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)

    digits = load_digits()
    pixels = digits.images.astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = digits.target.astype(np.int64)
    train_pixels, test_pixels, train_labels, test_labels = train_test_split(
        pixels, labels, test_size=HELD_OUT, random_state=SEED, stratify=labels
    )
    print(f"{len(train_pixels)} images to train on, {len(test_pixels)} held out")

    net = train(scaled(train_pixels), torch.from_numpy(train_labels))
    print(f"{sum(parameter.numel() for parameter in net.parameters()):,} parameters after folding")
    model = export(net)
    check(model, net, scaled(test_pixels), torch.from_numpy(test_labels))

    output.mkdir(parents=True, exist_ok=True)
    write(output / "digits.onnx", lambda path: path.write_bytes(model.SerializeToString()))

    def save_npz(path: Path) -> None:
        with path.open("wb") as stream:
            np.savez_compressed(stream, images=test_pixels, labels=test_labels)

    write(output / "digits_test.npz", save_npz)


if __name__ == "__main__":
    main()
