"""Puts the arena on the path: it is run as a folder, beside other scripts."""

import sys
from pathlib import Path

# Opacus installs a package that is called benchmarks too, so the arena is imported by its own name.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
