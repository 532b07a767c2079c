"""``winml --help`` as a whole process beside ``python -c "import click"``.

python benchmarks/startup.py [--runs 20]
"""

from __future__ import annotations

import argparse
import sys

from _pairs import compare, script


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    compare(
        "winml --help",
        [script("winml"), "--help"],
        "import click",
        [sys.executable, "-c", "import click"],
        runs=arguments.runs,
        goal=1.3,
    )


if __name__ == "__main__":
    main()
