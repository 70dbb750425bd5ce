"""`python -m reproductions` on the command line."""

import json
from functools import partial

import pytest

from dpensemble.cli import main as command_line
from reproductions import TABLES, data

main = partial(command_line, app="reproductions.command")


def test_a_simulation_is_run_shown_and_resumed(capsys, tmp_path):
    arguments = ["darrm-figure-2", "--out", str(tmp_path)]
    assert main(arguments) == 0
    out, errors = capsys.readouterr()
    assert "darrm-figure-2: Of 1 published figure 1 agrees" in out
    assert "4 parts to run, about 1 s on one core." in errors
    assert "published" in (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "<table>" in (tmp_path / "results.html").read_text(encoding="utf-8")
    assert main([*arguments, "--json"]) == 0
    out, errors = capsys.readouterr()
    assert "Nothing is left to run" in errors
    (result,) = json.loads(out)
    assert result == json.loads((tmp_path / "results" / "darrm-figure-2.json").read_text())
    errors_by_law = {
        entry["column"]: entry["reproduced"]
        for entry in result["entries"]
        if entry["panel"] == "Expected error" and entry["row"] == "m=3"
    }
    assert errors_by_law["optimised"] < errors_by_law["Sub"] < errors_by_law["constant"]


def test_the_list_names_every_table(capsys):
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{table.name} " in shown for table in TABLES)
    assert main(["--list", "--json"]) == 0
    assert [entry["table"] for entry in json.loads(capsys.readouterr().out)] == [table.name for table in TABLES]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["magic"], "table='magic' is unknown: use all, or some of dpbag-1,"),
        ([], "no table was named: use all, or some of"),
        (["bagging-5"], "bagging-5 needs a network that learned ImageNet, which is not installed: run pip install"),
        (["dpbag-5", "--repeats", "0"], "repeats=0 is not an integer from 1"),
        (["dpbag-5", "--seed", "-1"], "seed=-1 is not an integer from 0"),
        (["dpbag-5", "--out", __file__], "is a file: give another folder"),
        (["dpbag-5", "--out", f"{__file__}/within"], f"since {__file__} is a file: give another folder"),
        (["dpbag-5", "--jobs", "0"], "jobs=0 is not a number of workers: use 1 or more, or -1 for all cores"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, list) else "",
)
def test_bad_input_is_refused_in_one_sentence(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    # As without the optional packages, which are installed on some machines.
    monkeypatch.setattr(data, "find_spec", lambda name: object() if name == "torch" else None)
    assert main(arguments) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert message in errors
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_is_one_screen(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80


def test_a_file_that_is_no_result_is_named_before_the_run(capsys, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.json").write_text("[]")
    assert main(["darrm-figure-2", "--out", str(tmp_path)]) == 2
    assert "notes.json is no result of python -m reproductions" in capsys.readouterr().err
    assert not (tmp_path / "cells").exists()
