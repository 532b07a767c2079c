"""The in-process Python API. Loads on first use; native code then runs in the caller's own process."""
