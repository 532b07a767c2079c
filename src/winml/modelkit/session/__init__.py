"""Everything that touches an EP; imports of onnxruntime happen inside functions that only a worker calls."""
