"""Print the files, lines and statements of ``src`` by package, as a table or with ``--json``.

A statement is one of Python's, without imports and docstrings. Lines count everything. ``--structure`` prints what a
reader must know instead: how many modules there are, how large, and how many names cross their borders.
``--walks`` runs ``LabelMomentsClassifier.fit`` and ``dpensemble train`` on a small CSV file, and counts the modules
whose functions they call.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import statistics
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pandas as pd

from dpensemble import LabelMomentsClassifier
from dpensemble.cli import main as command

PACKAGE = Path(__file__).parents[1] / "src" / "dpensemble"
#: A module below this number of lines that one other module uses may belong into that other module.
SMALL = 100


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


def module_name(path: Path, package: Path = PACKAGE) -> str:
    """Return the dotted name by which a file is imported."""
    parts = ("dpensemble", *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def structure(sources: dict[str, str]) -> dict[str, float]:
    """Return the measures of `sources`, which are the texts of modules by their dotted names.

    A name crosses a border when another module imports the name, or reads the name as an attribute of a module. Names
    that a package exports count for the module that defines them. Two packages are a pair when one imports the other.
    """
    lines = {name: len(source.splitlines()) for name, source in sources.items()}
    packages = {name.rpartition(".")[0] for name in sources}
    uses = {name: list(_uses(ast.parse(source), set(sources))) for name, source in sources.items()}
    exported = {(name, used): (module, used) for name in packages & set(sources) for module, used in uses[name] if used}
    crossing, users, pairs = set(), defaultdict(set), set()
    for name in set(sources) - packages:
        for use in uses[name]:
            module, used = exported.get(use, use)
            if module == name:
                continue
            users[module].add(name)
            if used:
                crossing.add((module, used))
            rooms = _room(name), _room(module)
            if rooms[0] != rooms[1] and {f"dpensemble.{room}" for room in rooms} <= packages:
                pairs.add(rooms)
    small = [name for name in set(sources) - packages if lines[name] < SMALL and len(users[name]) == 1]
    return {
        "modules": len(sources),
        "lines": sum(lines.values()),
        "lines of the median module": statistics.median(lines.values()),
        "lines of the largest module": max(lines.values()),
        "names used across modules": len(crossing),
        f"modules below {SMALL} lines with one user": len(small),
        "pairs of packages": len(pairs),
    }


def _room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def _uses(tree: ast.Module, modules: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each module that a module imports, with each name of the other module that it uses."""
    known_as: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known_as |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in modules}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules:
                    known_as[alias.asname or alias.name] = inner
                elif node.module in modules:
                    yield node.module, alias.name
    yield from ((module, "") for module in known_as.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (module := known_as.get(ast.unparse(node.value))):
            yield module, node.attr


def sources_of(package: Path = PACKAGE) -> dict[str, str]:
    """Return the texts of a package's modules by their dotted names."""
    return {module_name(path, package): path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}


def called(work: Callable[[], object]) -> int:
    """Return how many modules of the package have a function that `work` calls in this process, not for an import."""
    files: set[str] = set()

    def watch(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        is_new = event == "call" and code.co_filename not in files and _is_named_function(code)
        if is_new and not any(map(_is_import, _around(frame))):
            files.add(code.co_filename)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return len(files)


def _is_named_function(code: CodeType) -> bool:
    """Return whether code is of a function of the package. The body of a class is code as well."""
    ours = Path(code.co_filename).is_relative_to(PACKAGE)
    return ours and bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")


def _is_import(frame: Any) -> bool:
    """Return whether a frame is of Python's import, which runs modules and asks finders, ours for any library."""
    return frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")


def _around(frame: Any) -> Iterator[Any]:
    while frame := frame.f_back:
        yield frame


def walks() -> dict[str, int]:
    """Return how many modules a fit and a training call."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 90, 600), "ward": rng.choice(["a", "b"], 600)})
    labels = np.where(rows["age"] + 20 * rng.normal(size=600) > 55, "yes", "no")
    model = LabelMomentsClassifier(classes=["no", "yes"], epsilon=1, delta=1e-5, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        private, public, out = (Path(folder) / name for name in ("private.csv", "public.csv", "run"))
        rows[:400].assign(answer=labels[:400]).to_csv(private, index=False)
        rows[400:].to_csv(public, index=False)
        arguments = f"train --private {private} --public {public} --target answer --classes no,yes --epsilon 1 "
        arguments += f"--delta 1e-5 --seed 0 --out {out}"
        return {
            "modules called by LabelMomentsClassifier.fit": called(
                lambda: model.fit(rows[:400], labels[:400], X_public=rows[400:])
            ),
            "modules called by train on a CSV file": called(lambda: command(arguments.split())),
        }


def main() -> None:
    """Print the sizes, or the measures of the structure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--structure", action="store_true", help="print what a reader must know, not sizes")
    parser.add_argument("--walks", action="store_true", help="count the modules that a fit and a training call")
    asked = parser.parse_args()
    if asked.structure or asked.walks:
        measures = (structure(sources_of()) if asked.structure else {}) | (walks() if asked.walks else {})
        width = max(map(len, measures))
        print(
            json.dumps(measures, indent=2)
            if asked.json
            else "\n".join(f"{name:<{width}}{value:>10,g}" for name, value in measures.items())
        )
        return
    if asked.json:
        print(json.dumps(sizes(), indent=2))
        return
    print(f"{'package':<16}{'files':>8}{'lines':>10}{'statements':>12}")
    for name, size in sizes().items():
        print(f"{name:<16}{size['files']:>8,}{size['lines']:>10,}{size['statements']:>12,}")


if __name__ == "__main__":
    main()
