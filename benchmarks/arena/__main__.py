"""Run ``python benchmarks/arena``; ``--help`` lists the options."""

import sys
from pathlib import Path

# Opacus installs a package that is called benchmarks too, so this one is found by its folder.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from arena.command import main  # noqa: E402

if __name__ == "__main__":
    main()
