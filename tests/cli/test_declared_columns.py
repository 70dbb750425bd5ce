"""Training where no rows are public: what a terminal shows, what is written, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

from dpensemble.cli import main

ASKED = "train --private private.csv --declared-columns columns.json --target y --classes no,yes --seed 0"
ODD = "Zaphod"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=900), "code": rng.choice([7, 8], size=900), "who": np.arange(900) // 3})
    table["y"] = np.where(table["x"] + (table["code"] == 7) > 0.5, "yes", "no")
    table.loc[3, "x"] = np.nan
    table[:700].to_csv(tmp_path / "private.csv", index=False)
    table[700:].drop(columns="who").to_csv(tmp_path / "test.csv", index=False)
    table[700:].drop(columns=["who", "y"]).to_parquet(tmp_path / "new.parquet")
    (tmp_path / "columns.json").write_text('{"x": [-3, 3], "code": ["7", "8"]}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_report_and_predict(folder, capsys):
    assert main(f"{ASKED} --unit who --epsilon 3 --delta 1e-3 --test test.csv --out run".split()) == 0
    shown = capsys.readouterr().out
    assert "labelled" not in shown
    record = json.loads((folder / "run" / "run.json").read_text())
    noise = {one["description"]: one["noise"] for one in record["releases"]}
    for description in ("how common each value of a column is", "which values go together"):
        assert f"{description} ({noise[description]:.4g})" in shown
    assert record["settings"]["synthetic_rows"] is True
    assert (record["labels"], record["data"]["public_rows"]) == (0, 0)
    assert record["student"]["accuracy"] > 0.75
    assert record["guarantee"]["unit"] == "unit"
    page = (folder / "run" / "report.html").read_text()
    assert "synthetic rows that were drawn from what was released" in page
    assert "public rows without labels" not in page
    assert "dpensemble verify certificate.json" in page
    assert main(["verify", "run/certificate.json"]) == 0
    assert main(["predict", "run", "new.parquet", "--out", "labels.csv"]) == 0
    assert set(pd.read_csv("labels.csv")["label"]) == {"no", "yes"}
    assert main(["report", "run", "--out", "again.html"]) == 0


@pytest.mark.parametrize(
    ("columns", "more", "words"),
    [
        ("no json", "", "is not JSON"),
        ("[1, 2]", "", "declares nothing"),
        ("{}", "", "declares nothing"),
        ('{"x": [3, -3]}', "", "must be a range"),
        ('{"x": [0, 1], "x": [0, 2]}', "", "names 'x' twice"),
        ('{"x": [0, NaN]}', "", "must be a range"),
        ('{"x": [-3, 3], "code": ["7"], "y": ["no"]}', "--unit who", "'y', which is not a feature"),
        ('{"x": [-3, 3]}', "--drop x", "no feature"),
        ('{"x": [-3, 3]}', "--unit who", "has columns that --declared-columns lacks: 'code'"),
        (
            '{"x": [-3, 3], "code": ["7"], "z": ["a"]}',
            "--unit who",
            "lacks the columns z, which",
        ),
        ('{"x": [-3, 3], "code": ["7"]}', "--unit who --public test.csv", "give one of them"),
        ('{"x": [-3, 3], "code": ["7"]}', "--unit who --baseline", "baseline=True requires public rows"),
        ('{"x": [-3, 3], "code": ["7"]}', "--unit who --method pate", "No such option: --declared-columns"),
    ],
)
def test_what_cannot_be_declared_is_refused(folder, capsys, columns, more, words):
    (folder / "columns.json").write_text(columns)
    assert main(f"{ASKED} {more} --out run".split()) == 2
    errors = capsys.readouterr().err
    assert words in errors.replace("\n", " ")
    assert not (folder / "run").exists()


def test_neither_public_rows_nor_a_declaration(folder, capsys):
    line = "train --private private.csv --target y --classes no,yes --out run"
    assert main(line.split()) == 2
    assert "--declared-columns" in capsys.readouterr().err
    (folder / "columns.json").unlink()
    assert main(f"{ASKED} --unit who --out run".split()) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_private_entries_are_not_quoted(folder, capsys):
    table = pd.read_csv("private.csv").astype({"x": object})
    table.loc[5, "x"] = ODD
    table.to_csv("private.csv", index=False)
    assert main(f"{ASKED} --unit who --on-bad-record raise --out run".split()) == 2
    errors = capsys.readouterr().err
    assert ODD not in errors
    assert "numbers in --declared-columns" in errors.replace("\n", " ")


@pytest.mark.parametrize("classes", ["no,yes", "yes,no"])
def test_effects_on_the_page_are_those_of_the_model(folder, classes):
    """For every order of declared classes, a large x means yes."""
    line = "train label-moments --private private.csv --declared-columns columns.json --target y --seed 0 --epsilon 5"
    assert main([*line.split(), "--delta", "1e-3", "--classes", classes, "--unit", "who", "--out", "run"]) == 0
    record = json.loads((folder / "run" / "run.json").read_text())
    (effect,) = [one for one in record["effects"] if one["column"] == "x"]
    rising = effect["points"][-1][1][0] - effect["points"][0][1][0]
    second = record["data"]["classes"][1]
    assert (rising > 0) is (second == "yes")


def test_a_folder_with_integer_codes_is_read_as_a_file_is(folder):
    """Codes that are declared as categories are integers in Parquet."""
    table = pd.read_csv("private.csv")
    table.to_parquet("private.parquet")
    (folder / "parts").mkdir()
    table[:300].to_parquet("parts/1.parquet")
    table[300:].to_parquet("parts/2.parquet")
    line = "train --declared-columns columns.json --target y --classes no,yes --unit who --epsilon 1 --delta 1e-3"
    coefficients = []
    for name in ("private.parquet", "parts"):
        assert main([*line.split(), "--insecure-release-seed", "1", "--private", name, "--out", f"run-{name}"]) == 0
        coefficients.append(json.loads((folder / f"run-{name}" / "run.json").read_text())["effects"])
    assert coefficients[0] == coefficients[1]
