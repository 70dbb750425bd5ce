"""Imports point downwards, and outside libraries stay behind their fences."""

import ast
from pathlib import Path

import pytest

import dpensemble

PACKAGE = Path(dpensemble.__file__).parent

LAYERS = [
    {"_start", "errors", "relations", "_rounding", "_arrays", "_state"},
    {"_checks", "_guard"},
    {"_drawn", "_entries"},
    {"_original", "_random", "_progress", "_spending", "_workers", "_given", "clusters"},
    {"budget", "cost", "guarantee"},
    {"allocation", "votes", "laws", "budget_groups"},
    {"voting_schedule"},
    {"accounting", "darrm"},
    {"datasets"},
    {"teachers", "student", "report", "neural"},
    {"moments"},
    {"design", "persistence"},
    {"engine"},
    {"methods"},
    {"aggregation", "audit", "certificates", "client"},
    {"ledger"},
    {"workflow"},
    {"service"},
    {"cli"},
    {"__init__", "__main__"},
]
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}

# Outside library -> rooms that may import it.
FENCES = {
    "typer": {"cli"},
    "rich": {"cli", "_progress"},
    "jinja2": {"report", "service"},
    "skops": {"persistence"},
    "threadpoolctl": {"teachers", "cost", "moments"},
    "joblib": {"teachers", "neural"},
    "pandas": {"datasets", "moments", "workflow", "service", "cli"},
    "sklearn": {
        *("teachers", "student", "engine", "methods", "datasets", "moments", "workflow", "persistence", "neural"),
    },
    "lightgbm": set(),
    "statsmodels": set(),
    "reproductions": set(),
    "scipy": {"teachers", "laws", "accounting", "darrm", "audit", "moments"},
    "highspy": {"darrm"},
    "dp_accounting": {"cost"},
    "torch": {"neural"},
    "dask": {"clusters"},
    "distributed": {"clusters"},
    "opacus": {"neural"},
    "sqlalchemy": {"ledger"},
    "cryptography": {"ledger"},
    "filelock": {"ledger", "service"},
    "fastapi": {"service"},
    "starlette": {"service"},
    "pydantic": {"service"},
    "uvicorn": {"service"},
    "jwt": {"service"},
    "prometheus_client": {"service"},
    "httpx": set(),
}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(source: str) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            names += (
                [f"dpensemble.{alias.name}" for alias in node.names] if node.module == "dpensemble" else [node.module]
            )
    return names


def offences(here: str, source: str) -> list[str]:
    found = []
    for name in imports(source):
        top, *rest = name.split(".")
        if top == "dpensemble":
            there = rest[0] if rest else "__init__"
            if there != here and LAYER_OF.get(there, 99) >= LAYER_OF[here]:
                found.append(f"{here} imports {there}")
        elif here not in FENCES.get(top, {here}):
            found.append(f"{here} imports {top}")
    return found


def test_every_room_has_a_layer():
    rooms = {room(path) for path in PACKAGE.rglob("*.py")}
    assert rooms == set(LAYER_OF)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    assert offences(room(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("laws", "from dpensemble.accounting import Meter"),
        ("allocation", "import dpensemble.votes"),
        ("budget", "from dpensemble import cost"),
        ("methods", "import typer"),
        ("accounting", "from sklearn.base import clone"),
    ],
)
def test_the_gate_catches_an_upward_import(here, source):
    assert offences(here, source)


def test_importing_the_package_leaves_heavy_extras_alone():
    import subprocess
    import sys

    # skops imports dask where it finds it, so dask is not among them.
    heavy = ("torch", "opacus", "ray", "typer", "sqlalchemy", "cryptography", "fastapi", "uvicorn")
    code = f"import sys, dpensemble; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
