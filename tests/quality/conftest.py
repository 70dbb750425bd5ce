"""Puts the benchmark of bands on the path, whose population tests share."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
