"""Measure latency, and prove where it was spent: request in, document out."""
