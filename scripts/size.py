"""Print the files, lines and statements of ``src`` by package, as a table or with ``--json``.

A statement is one of Python's, without imports and docstrings. Lines count everything.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "dpensemble"


def statements(source: str) -> int:
    """Return the number of statements in a module, without imports and docstrings."""
    skipped = (ast.Import, ast.ImportFrom)
    return sum(
        isinstance(node, ast.stmt) and not isinstance(node, skipped) and not _is_text(node)
        for node in ast.walk(ast.parse(source))
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def sizes(package: Path = PACKAGE) -> dict[str, dict[str, int]]:
    """Return files, lines and statements of each package. Modules at the top count as one package."""
    counts: dict[str, Counter[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        source = path.read_text(encoding="utf-8")
        counts.setdefault(parts[0] if len(parts) > 1 else "(top)", Counter()).update(
            files=1, lines=len(source.splitlines()), statements=statements(source)
        )
    total: Counter[str] = sum(counts.values(), Counter())
    return {name: dict(counts[name]) for name in sorted(counts)} | {"all": dict(total)}


def main() -> None:
    """Print the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    if parser.parse_args().json:
        print(json.dumps(sizes(), indent=2))
        return
    print(f"{'package':<16}{'files':>8}{'lines':>10}{'statements':>12}")
    for name, size in sizes().items():
        print(f"{name:<16}{size['files']:>8,}{size['lines']:>10,}{size['statements']:>12,}")


if __name__ == "__main__":
    main()
