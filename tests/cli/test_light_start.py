"""A plan and a help page start soon: they import no library for tables, models or statistics."""

import json
import subprocess
import sys

import pytest

from dpensemble.cli.app import methods_of
from dpensemble.cli.options import METHODS, described_method
from dpensemble.cli.static_commands import KEYS, LEDGER, STATIC_COMMANDS
from dpensemble.methods import designs

#: A comparison and the networks, what only servers use, and what scikit-learn uses in its own tests.
UNUSED = ("dpensemble.workflow.comparison", "dpensemble.neural", "dpensemble.server", "sqlalchemy", "torch", "pytest")
HEAVY = ("sklearn", "pandas", "scipy.stats", "joblib", "pyarrow", "jinja2", "sqlalchemy", "torch", "dask")
PROGRAM = f"""
import sys
from dpensemble.cli import main
for line in sys.stdin:
    assert main(line.split()) == 0, line
sys.stderr.write(repr([name for name in {(*HEAVY, "rich")} if name in sys.modules]))
"""
# Label moments are planned by fits to simulated labels.
COUNTED = [method for method in methods_of("plan") if method != "label-moments"]


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
    methods = [method for method in COUNTED if method != "bagging"]
    assert imported(*(f"{plan(method)} --json" for method in methods)) == "[]"


def test_neither_does_a_plan_in_tables(tmp_path):
    plotted = f"{plan('saa')} --plot {tmp_path / 'plan.svg'}"
    assert imported(*map(plan, COUNTED), plotted) == "['rich']"


def test_neither_do_help_and_version():
    commands = [*STATIC_COMMANDS, *(f"ledger {name}" for name in LEDGER), *(f"keys {name}" for name in KEYS)]
    for command in ("train", "plan"):
        commands += [command, *(f"{command} {method}" for method in methods_of(command))]
    assert imported("--help", "--version", *(f"{command} --help" for command in commands)) == "[]"


def test_a_run_imports_nothing_that_only_other_commands_use():
    code = f"""
import sys
import dpensemble.cli.predict, dpensemble.cli.train, dpensemble.persistence
dpensemble.persistence._skops_io()
print([name for name in {UNUSED} if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


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
    assert {*methods_of("plan")} == {*designs.PLANNED, "bagging", "label-moments"}
