"""Make notebooks of the examples: each ``# %%`` begins a cell, and ``# %% [markdown]`` one of text.

python scripts/make_notebooks.py notebooks
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_CELL = re.compile(r"(?m)^# %%( \[markdown\])?\n")


def notebook(source: str) -> dict[str, Any]:
    """Return a notebook of a script, as nbformat 4 has it."""
    parts = _CELL.split(source)[1:]
    cells = []
    for number, (kind, body) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        lines = body.strip("\n").splitlines(keepends=True)
        common = {"id": f"cell-{number}", "metadata": {}}
        if kind:
            cells.append({"cell_type": "markdown", **common, "source": [re.sub("^# ?", "", line) for line in lines]})
        else:
            cells.append({"cell_type": "code", **common, "execution_count": None, "outputs": [], "source": lines})
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def main(folder: Path) -> list[Path]:
    """Write a notebook of every example, and the files it needs to draw, into a folder. Return the notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    notebooks = []
    for example in sorted(EXAMPLES.glob("*.py")):
        source = example.read_text(encoding="utf-8")
        if not source.startswith("# %%"):
            (folder / example.name).write_text(source, encoding="utf-8")
            continue
        place = folder / f"{example.stem}.ipynb"
        place.write_text(json.dumps(notebook(source), indent=1) + "\n", encoding="utf-8")
        notebooks.append(place)
    return notebooks


if __name__ == "__main__":
    for path in main(Path(sys.argv[1] if len(sys.argv) > 1 else "notebooks")):
        print(path)
