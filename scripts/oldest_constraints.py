"""Print pip constraints that pin every dependency to the oldest version that pyproject.toml declares.

Usage: ``python scripts/oldest_constraints.py [EXTRA ...] > constraints.txt``. Needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
LOWER_BOUND = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9][0-9.]*)")


def oldest(requirements: list[str]) -> list[str]:
    """Return each requirement at its lower bound. A requirement without a bound would be tested at its newest."""
    pins = []
    for requirement in requirements:
        match = LOWER_BOUND.match(requirement)
        if match is None:
            sys.exit(f"{requirement!r} declares no lower bound such as >=1.2.")
        pins.append(f"{match[1]}=={match[2]}")
    return pins


def main(extras: list[str]) -> None:
    """Print the pins of the run-time dependencies and of the extras named."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    print("\n".join(oldest(requirements)))


if __name__ == "__main__":
    main(sys.argv[1:])
