"""Models that come with the package. Importing this costs nothing: no numpy, no onnx."""

from winml.modelkit.catalog.sample import Sample, find_sample, sample_ids, samples

__all__ = ["Sample", "find_sample", "sample_ids", "samples"]
