"""The smallest model there is, as bytes: ``y = Relu(x)``, float32 [1, 4], opset 13, IR 8.

Written out so that neither a file nor the onnx package is needed to prove that a device can make a session. Source of
the format: onnx.proto; a test holds it against ``onnx.helper``.
"""

from __future__ import annotations

ONE_NODE_MODEL = (
    b'\x08\x08:H\n\x12\n\x01x\x12\x01y\x1a\x04relu"\x04Relu\x12\x08one_node'
    b"Z\x13\n\x01x\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x01\n\x02\x08\x04"
    b"b\x13\n\x01y\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x01\n\x02\x08\x04B\x04\n\x00\x10\r"
)
