"""`dpensemble plan label-moments`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli.app import run


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=240), "b": rng.choice(list("xy"), size=240)})
    table["outcome"] = np.where(table["a"] > 0, "yes", "no")
    path = tmp_path_factory.mktemp("public") / "public.csv"
    table.to_csv(path, index=False)
    return path


def _plan(*options: str) -> int:
    return run(["plan", "label-moments", *options])


def test_the_default_prints_a_small_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert _plan("--epsilon", "1") == 0
    printed = capsys.readouterr()
    for words in ("500", "2,000", "10,000", "0.3", "AUROC", "Nothing was spent", "would do"):
        assert words in printed.out
    assert printed.err == ""


def test_json_is_all_that_is_printed(public: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--public", str(public), "--target", "outcome", "--records", "120", "--epsilon", "1,2")
    assert _plan(*options, "--unit-size", "2", "--json") == 0
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert printed.err == ""
    assert [(size["records"], size["units"], size["epsilon"]) for size in content["sizes"]] == [
        (120, 60, 1.0),
        (120, 60, 2.0),
    ]
    assert content["columns"] == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--records", "0"), "records"),
        (("--records", "5"), "fewer than 10 columns"),
        (("--records", "many"), "whole number"),
        (("--records", ""), "whole number"),
        (("--epsilon", "1,x"), "epsilon='1,x'"),
        (("--epsilon", "1,"), "epsilon='1,'"),
        (("--epsilon", "-1"), "epsilon"),
        (("--share", "0"), "share"),
        (("--share", "1"), "share"),
        (("--unit-size", "0"), "unit"),
        (("--classes", "yes"), "classes"),
        (("--columns", "0"), "columns"),
        (("--target", "outcome"), "--public"),
        (("--private", "x.csv"), "No such option: --private"),
        (("--rounds", "2"), "No such option: --rounds"),
    ],
)
def test_bad_options_end_with_exit_code_2(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan(*options) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_public_files_that_do_not_fit_are_refused(
    public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only_target = tmp_path / "target.csv"
    only_target.write_text("outcome\n" + "yes\nno\n" * 50)
    declared = tmp_path / "columns.json"
    declared.write_text('{"a": [0, 1]}')
    for options, words in (
        (("--public", str(public), "--target", "outcom"), "outcom"),
        (("--public", str(public), "--drop", "c"), "drop='c'"),
        (("--public", str(public), "--target", "outcome", "--classes", "yes,never"), "'no'"),
        (("--public", str(only_target), "--target", "outcome"), "no columns"),
        (("--public", str(public), "--declared-columns", str(declared)), "without public rows"),
        (("--public", str(tmp_path / "absent.csv")), "absent.csv"),
        (("--public", str(public), "--public-rows", "5"), "n_public"),
    ):
        assert _plan(*options) == 2
        assert words in capsys.readouterr().err


def test_no_file_is_written_and_no_private_table_is_an_option(
    public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _plan("--public", str(public), "--target", "outcome", "--records", "100", "--epsilon", "1,2", "--quiet") == 0
    assert list(tmp_path.iterdir()) == []
    assert run(["plan", "label-moments", "--help"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "--private" not in page
    assert "--ledger" not in page
    assert "the number is private" in page


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("written") / "export.csv"
    lines = ["Auszug, Stand 15.01.2025", "PATID;CRP;PREIS;WERT;y"]
    for i in range(240):
        marker = f"{rng.normal(20, 5):.1f}".replace(".", ",")
        lines.append(f"{100 + i};{marker};${rng.integers(1, 9)},{rng.integers(100, 999)};{rng.normal():.2f};no")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_public_files_are_read_as_a_run_reads_them(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--public", str(written), "--sep", ";", "--drop", "y", "--unit", "PATID")
    options += ("--records", "200", "--epsilon", "1,2", "--json")
    assert _plan(*options, "--column", "PREIS=number:1,234.5") == 0
    assert json.loads(capsys.readouterr().out)["columns"] == 3
    # The error names options, which this command has.
    assert _plan(*options) == 2
    assert "--column PREIS=number:1,234.5" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--unit", "--column", "--blank", "--sep", "--decimal", "--sheet"])
def test_options_about_public_rows_require_public_rows(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    value = {"--column": "a=number", "--decimal": ","}.get(option, "a")
    assert _plan(option, value) == 2
    assert "--public" in capsys.readouterr().err
