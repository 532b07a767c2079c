"""Names that both sides of ``perf`` use."""

MEASURE_PHASE = "measure"
"""The phase in which the timed runs happen."""
