"""Ugly tables end in a result or in one sentence. `scripts/ugly_tables.py` tries a thousand."""

import runpy
from pathlib import Path

import pytest

UGLY = runpy.run_path(str(Path(__file__).parent.parent / "scripts" / "ugly_tables.py"))


# Warnings are lines on the screen there, as they are for people.
@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_ugly_tables(capsys):
    outcomes = UGLY["run"](10, 0)
    assert outcomes["WRONG"] == 0, capsys.readouterr().out
    assert outcomes["trained"] >= 1
    assert outcomes["refused"] >= 1


@pytest.mark.parametrize(
    ("code", "told", "files", "verdict"),
    [
        (2, "dpensemble: no.\n", [], "refused"),
        (1, "dpensemble: unexpected ValueError.\n", [], "WRONG"),
        (2, "Traceback (most recent call last)\n", [], "WRONG"),
        (2, "dpensemble: no.\n", [".dpensemble-out"], "WRONG"),
        (2, "dpensemble: no.\n", ["out/run.json"], "WRONG"),
        (0, "", ["out/run.json"], "WRONG"),
        (0, "", ["out/report.html"], "trained"),
    ],
)
def test_what_counts_as_wrong(tmp_path, code, told, files, verdict):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert UGLY["judged"](code, told, tmp_path) == verdict
