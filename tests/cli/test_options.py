"""The command line's manifest: up to date, complete, and enough to start from a zip file.

Every law that a help page names can be planned, by its name alone and as a law of each method that offers it.
"""

import inspect
import json
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dpensemble
from dpensemble import methods
from dpensemble.cli import main, options
from dpensemble.cli.options import LAWS, METHODS, _parameter_in_manifest, described_law, described_method, one_line
from dpensemble.laws import LawChoice, SparseNoisyMax
from dpensemble.workflow.learners import LEARNERS

ROOT = Path(__file__).parents[2]
WRITER = runpy.run_path(str(ROOT / "scripts" / "write_manifest.py"))


class Base:
    """Vote plainly.

    More of it.

    Parameters
    ----------
    teacher, student : classifier, optional
        Base learners. Two of them.
    kind : {"first", "second"}, default="first"
        Which. It matters.
    """

    name = "base"

    def __init__(self, teacher=None, student=None, *, kind: str = "first"):
        pass

    def fit(self, X, y, *, budgets=None, **others):
        pass


class Child(Base):
    """Vote by turns.

    Parameters
    ----------
    kind
        As for `PATEClassifier`, by turns.
    epsilon
        As for `PATEClassifier`.
    """

    def __init__(self, teacher=None, *, kind: str = "second", epsilon: float | None = None):
        pass

    def fit_blocks(self, read):
        pass


def test_the_file_is_up_to_date():
    assert options.MANIFEST.read_text(encoding="utf-8") == WRITER["text"](), "run python scripts/write_manifest.py"


def test_a_class_is_described_by_its_signature_and_docstring():
    described = WRITER["_described"](Base)
    assert (described["name"], described["words"], described["in_blocks"]) == ("base", "Vote plainly", False)
    assert described["fit"] == ["self", "X", "y", "budgets"]
    parameters = {one["name"]: _parameter_in_manifest(one) for one in described["parameters"]}
    assert list(parameters) == ["teacher", "student", "kind"]
    assert parameters["student"].help == "Base learners"
    assert parameters["teacher"].scalar is None
    assert (parameters["kind"].scalar, parameters["kind"].choices) == (str, ("first", "second"))


def test_texts_come_from_the_base_or_from_the_class_that_they_name():
    described = WRITER["_described"](Child)
    assert described["in_blocks"]
    parameters = {one["name"]: _parameter_in_manifest(one) for one in described["parameters"]}
    assert parameters["teacher"].help == "Base learners"
    assert (parameters["kind"].choices, parameters["kind"].default) == (("first", "second"), "second")
    assert parameters["epsilon"].help == described_method("pate").parameters["epsilon"].help


@pytest.mark.parametrize("name", METHODS)
def test_what_is_read_is_what_python_has(name):
    read = described_method(name).parameters
    real = inspect.signature(getattr(methods, METHODS[name])).parameters
    assert list(read) == list(real)
    assert {key: entry.default for key, entry in read.items()} == {key: p.default for key, p in real.items()}
    assert all(entry.help for entry in read.values())
    assert not any(entry.help.startswith("As for") for entry in read.values())


@pytest.mark.parametrize("name", LAWS)
def test_every_law_that_help_offers_can_be_chosen_and_planned(name, capsys):
    assert all(field.help and field.scalar for field in described_law(name).parameters.values())
    assert LawChoice.of(name).kind.__name__ == LAWS[name]
    # Its only setting is a privacy loss, which has no usual value.
    settings = ["--law-epsilon", "0.5"] if name == "randomized-response" else []
    assert main(["plan", name, "--teachers", "20", "--epsilon", "8", "--json", *settings]) == 0
    assert f'"{name}"' in capsys.readouterr().out


def test_the_names_of_learners():
    assert options._learners() == list(LEARNERS)


def test_lines_are_cut_where_a_clause_ends():
    assert one_line("Teachers, up to 2,001 where answers are noisy", 30) == "Teachers, up to 2,001 ..."
    assert one_line("short", 30) == "short"


def test_the_command_line_starts_from_a_zip_file(tmp_path):
    package, archive = Path(dpensemble.__file__).parent, tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*"):
            if path.suffix in (".py", ".json"):
                file.write(path, path.relative_to(package.parent))
    code = "import sys; from dpensemble.cli import main; sys.exit(main(['train', 'pate', '--help']))"
    shown = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--law-sigma" in shown.stdout or "--teachers" in shown.stdout


METHODS_WITH_LAWS = ("saa", "pate", "bagged-pate")
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


@pytest.mark.parametrize("method", METHODS_WITH_LAWS)
def test_methods_offer_laws_that_the_command_takes(method):
    assert set(described_method(method).laws) <= set(LAWS)
