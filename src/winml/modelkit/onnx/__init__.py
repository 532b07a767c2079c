"""ONNX graphs and files, without any EP: reading, facts, external data, faults, hashes."""
