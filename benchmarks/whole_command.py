"""``winml perf`` as a whole process beside a plain script that does the same work with onnxruntime alone.

python benchmarks/whole_command.py [--runs 20]
"""

from __future__ import annotations

import argparse
import sys

from _pairs import compare, script

from winml.modelkit.loader import resolve_model

PLAIN = """
import sys
import numpy as np
import onnxruntime as ort
session = ort.InferenceSession(sys.argv[1])
inputs = {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], np.float32) for i in session.get_inputs()}
session.run(None, inputs)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    model = str(resolve_model("digits").path)
    compare(
        "winml perf -m digits",
        [script("winml"), "perf", "-m", "digits", "--iterations", "1", "--warmup", "0"],
        "onnxruntime script",
        [sys.executable, "-c", PLAIN, model],
        runs=arguments.runs,
        goal=1.8,
    )


if __name__ == "__main__":
    main()
