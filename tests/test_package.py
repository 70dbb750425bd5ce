"""``import dpensemble`` is quick, and what it exports is there when asked for."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import dpensemble


def test_exports_imports_for_type_checkers_and_homes_agree():
    tree = ast.parse(Path(dpensemble.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    told = {
        alias.name: node.module.removeprefix("dpensemble.")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
        if alias.name != "*"
    }
    told |= dict.fromkeys(dpensemble.methods.__all__, "methods")
    assert told == {name: dpensemble._ROOM_OF.get(name, "methods") for name in dpensemble.__all__}


def test_every_method_is_imported_from_its_module():
    tree = ast.parse(Path(dpensemble.methods.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {name.name: node.module.rpartition(".")[2] for node in block.body for name in node.names}
    assert told == dpensemble.methods._MODULES
    # Neither a regressor nor a model of times is a classifier.
    assert sorted(told.keys() - {"LabelMomentsRegressor", "LabelMomentsSurvival"}) == dpensemble.methods.__all__
    with pytest.raises(AttributeError, match="NoClassifier"):
        getattr(dpensemble.methods, "NoClassifier")  # noqa: B009


@pytest.mark.parametrize("name", [*dpensemble.__all__, "__version__", "accounting", "laws"])
def test_every_export_is_there(name):
    assert getattr(dpensemble, name) is getattr(dpensemble, name)
    assert name in dir(dpensemble)


@pytest.mark.parametrize("name", ["nothing", "_nothing"])
def test_what_is_not_there_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=name):
        getattr(dpensemble, name)


@pytest.mark.parametrize("package", ["dpensemble", "dpensemble.datasets"])
def test_an_old_import_of_cifar_10_states_where_the_loader_is(package):
    loader = "from reproductions.cifar10 import load_cifar10"
    with pytest.raises(ImportError, match=loader):
        exec(f"from {package} import load_cifar10")  # noqa: S102
    with pytest.raises(ImportError, match=loader):
        getattr(importlib.import_module(package), "load_cifar10")  # noqa: B009
    assert "load_cifar10" not in dir(importlib.import_module(package))
    exec(loader)  # noqa: S102
    with pytest.raises(AttributeError, match="load_cifar100"):
        getattr(importlib.import_module(package), "load_cifar100")  # noqa: B009


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, dpensemble; print([m for m in ('sklearn', 'numpy', 'typer') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
