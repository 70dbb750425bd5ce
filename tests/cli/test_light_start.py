"""A plan and a help page start soon: they import no library for tables, models or statistics."""

import json
import subprocess
import sys

import pytest

from dpensemble.cli.app import methods_of
from dpensemble.cli.options import METHODS, described_method
from dpensemble.methods import designs

HEAVY = ("sklearn", "pandas", "scipy.stats", "joblib", "pyarrow", "jinja2", "sqlalchemy", "torch", "dask")
PROGRAM = f"""
import sys
from dpensemble.cli import main
for line in sys.stdin:
    assert main(line.split()) == 0, line
sys.stderr.write(repr([name for name in {(*HEAVY, "rich")} if name in sys.modules]))
"""
PROGRAM = f"""
import sys
from dpensemble.cli import main
for line in sys.stdin:
    assert main(line.split()) == 0, line
sys.stderr.write(repr([name for name in {(*HEAVY, "rich")} if name in sys.modules]))
"""
SETTINGS = {"bagging": "--records 100 --subsample 5", "bagged-pate": "--records 1000 --epsilon 3"}


def imported(*commands):
    """Return which of the heavy libraries are there after commands in one process."""
    command = [sys.executable, "-c", PROGRAM]
    shown = subprocess.run(command, input="\n".join(commands), capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    return shown.stderr


def plan(method):
    if method == "bagging":
        return "plan bagging --records 100 --subsample 5"
    if method == "bagged-pate":
        return "plan bagged-pate --records 1000 --teachers 20 --epsilon 3"
    budgets = "--budgets 1:50%,2:50% --rule published" if "budgets" in described_method(method).fit else ""
    return f"plan {method} --accounting published {budgets}"


def test_a_plan_as_json_imports_nothing_heavy():
    methods = [method for method in methods_of("plan") if method != "bagging"]
    assert imported(*(f"{plan(method)} --json" for method in methods)) == "[]"


def test_neither_does_a_plan_in_tables(tmp_path):
    plotted = f"{plan('saa')} --plot {tmp_path / 'plan.svg'}"
    assert imported(*map(plan, methods_of("plan")), plotted) == "['rich']"


def test_neither_do_help_and_version():
    pages = [f"plan {method} --help" for method in methods_of("plan")]
    assert imported("--help", "--version", "train --help", "plan --help", *pages) == "[]"


@pytest.mark.parametrize("method", sorted(designs.PLANNED))
def test_a_plan_knows_what_the_estimator_knows(method):
    estimator = getattr(__import__("dpensemble"), METHODS[method])
    assert issubclass(estimator, designs.PLANNED[method])
    usual = {name: parameter.default for name, parameter in described_method(method).parameters.items()}
    planned = designs.PLANNED[method].of(usual)
    asked = {"n_classes": 3, "n_records": 1000}
    assert planned.design(**asked).settings() == estimator().design(**asked).settings()
    json.dumps(planned.design(**asked).settings())


def test_every_method_that_can_be_planned_is_known():
    assert {*methods_of("plan")} == {*designs.PLANNED, "bagging"}
