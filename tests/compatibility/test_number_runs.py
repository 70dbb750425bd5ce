"""A run and a student of a number that the first version with ``train --range`` wrote must open for good.

Never write the files again.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble import load_classifier
from dpensemble.cli import main

FILES = Path(__file__).parent / "number_files"


@pytest.fixture
def files(tmp_path, monkeypatch):
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def test_an_earlier_student_of_a_number_predicts_the_same(files):
    assert main(["predict", "run", "public.csv", "--coverage", "0.8", "--quantiles", "0.25", "--out", "now.csv"]) == 0
    pd.testing.assert_frame_equal(pd.read_csv("now.csv"), pd.read_csv("predictions.csv"), rtol=1e-9)
    student, rows = load_classifier(files / "run" / "student.skops"), pd.read_csv("public.csv")
    np.testing.assert_allclose(student.predict(rows), pd.read_csv("predictions.csv")["mean"], rtol=1e-9)
    assert student.for_release_ is True
    # What was proven when the run ended stays proven.
    assert np.isfinite(student.predict_interval(rows, 0.6, guaranteed=True)).any()


def test_an_earlier_run_of_a_number_shows_the_same_report(files, capsys):
    assert main(["report", "run", "--json", "--out", "page.html"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("releases")
    assert shown.pop("page") == "page.html"
    expected = json.loads((files / "report.json").read_text(encoding="utf-8"))
    expected.pop("page")
    assert shown == expected
    assert "Predicted and true numbers" in (files / "page.html").read_text(encoding="utf-8")


def test_an_earlier_certificate_of_a_number_is_verified(files, capsys):
    assert main(["verify", "run"]) == 0
    assert "confirmed" in capsys.readouterr().out


def test_an_earlier_student_of_a_number_has_no_explanation(files, capsys):
    assert main(["predict", "run", "public.csv", "--explain"]) == 2
    assert "saved before explanations existed: train again" in capsys.readouterr().err
