"""Every law that a help page names can be planned, by its name alone and as a law of each method that offers it."""

import json
import re

import pytest

from dpensemble.cli import main
from dpensemble.cli.options import LAWS, described_method
from dpensemble.laws import SparseNoisyMax

METHODS = ("saa", "pate", "bagged-pate")
# Settings of laws that have no usual ones.
NEEDED = {"randomized-response": ["--law-epsilon", "0.2"]}


def named_in_help(command, capsys):
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    return re.search(r"stands for 'pate --law NAME': ([a-z, -]+)\.", text)[1].split(", ")


@pytest.mark.parametrize("command", ["plan", "train"])
def test_help_names_the_laws_that_the_command_takes(command, capsys):
    assert set(named_in_help(command, capsys)) == set(LAWS)
    # An aggregator answers by this law. No method votes by it.
    assert SparseNoisyMax.name not in LAWS


@pytest.mark.parametrize("law", sorted(LAWS))
def test_a_law_of_help_is_planned_by_its_name(law, capsys):
    arguments = ["plan", law, "--teachers", "60", "--epsilon", "4", "--labels", "5", "--json", *NEEDED.get(law, [])]
    if law in NEEDED:
        # Its noise is given, so that labels are what is found.
        del arguments[6:8]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["method"], found["law_name"]) == ("pate", law)
    assert found["labels"] >= 1


@pytest.mark.parametrize("method", METHODS)
def test_methods_offer_laws_that_the_command_takes(method):
    assert set(described_method(method).laws) <= set(LAWS)
