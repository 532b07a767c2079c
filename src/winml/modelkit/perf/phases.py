"""Names that both sides of ``perf`` use."""

PRELOAD = (
    "onnxruntime",
    "winml.modelkit.perf.job",
    "winml.modelkit.perf.inputs",
    "winml.modelkit.perf.loop",
    "winml.modelkit.onnx.files",
)
"""What the worker imports while it waits for its job."""

MEASURE_PHASE = "measure"
"""The phase in which the timed runs happen."""
