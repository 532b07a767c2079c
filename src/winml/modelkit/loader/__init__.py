"""Where a model comes from. Importing this costs nothing: no numpy, no onnx, no network."""

from winml.modelkit.loader.resolve import ModelSource, resolve_model

__all__ = ["ModelSource", "resolve_model"]
