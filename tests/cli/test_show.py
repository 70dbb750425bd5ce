"""The summary of a run in the terminal."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpensemble.cli import main
from dpensemble.cli.runs import print_run
from dpensemble.report import RunRecord
from dpensemble.report.page import render

GUARANTEE = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "basis": "worst-case",
    "relation": "replace-one",
    "unit": "record",
    "accounting": "exact",
    "assumptions": [],
    "for_release": True,
    "fixed_number": True,
}
SOFT = RunRecord(
    method="label-moments",
    guarantee=GUARANTEE,
    budget={"epsilon": 1.0, "delta": 1e-5},
    labels=16281,
    asked=16281,
    label_accuracy=0.8574,
    student={"accuracy": 0.8552, "auroc": 0.9082, "auprc": 0.7809, "brier": 0.09963},
    baseline=None,
    worst_case_spend=[],
    data={
        "private_units": 16281,
        "public_rows": 16281,
        "most_common_label": 0.76,
        "kinds_of_columns": "age (number)",
        "test_is_public": True,
    },
    settings={
        "title": "Label moments",
        "law": "GaussianSum(sigma=6.8)",
        "gated": False,
        "n_teachers": None,
        "noise_chosen": "from the budget",
        "noise_in_words": "Gaussian noise of 6.8 sensitivities on a sum of vectors",
        "rounds": 3,
    },
    versions={},
    seconds={},
    releases=[{"description": "noisy sum", "table": None, "noise": None}] * 3,
)
VOTED = replace(
    SOFT,
    method="pate",
    labels=90,
    asked=100,
    student={"accuracy": 0.8, "auroc": 0.9, "auprc": 0.7},
    settings={name: value for name, value in SOFT.settings.items() if name != "rounds"} | {"n_teachers": 100},
    releases=[{"description": "labels", "table": None, "noise": None}],
)


@pytest.fixture
def shown(capsys):
    def show(record):
        print_run(record, Path("report.html"), Path("student.skops"))
        return capsys.readouterr().out

    return show


def test_a_run_without_votes_says_what_was_released(shown):
    text = shown(SOFT)
    assert (
        "Released: 3 noisy sums; every record adds one vector of bounded length to each, and only the noisy sums leave."
        in text
    )
    assert "Public rows that the model labelled: 16,281, 85.7% of them right\n" in text
    assert "Noise: Gaussian noise of 6.8 sensitivities on a sum of vectors (from the budget)" in text
    assert "got a label" not in text
    assert "teacher" not in text
    assert "Hint" not in text


def test_bad_records_are_stated_whether_or_not_there_are_any(capsys):
    sentence = (
        "A record with a blank or undeclared label, or an entry that cannot be read, adds nothing but counts as a"
    )
    known = replace(SOFT, data=SOFT.data | {"readable_share": 0.9812, "readable_share_error": 0.03})
    public = replace(SOFT, data=SOFT.data | {"data_is_public": True})
    for record, zeroes, start in (
        (SOFT, True, ""),
        (known, True, "About 98.1% (95% interval by noise: 92.2% to 100.0%) of the records could be read. "),
        (known, False, None),
        (public, True, None),
    ):
        print_run(record, Path("report.html"), Path("student.skops"), zeroes=zeroes)
        text = capsys.readouterr().out
        assert (f"Bad records: {start}" in text, sentence in text) == ((start is not None,) * 2)


def test_one_round_of_units_without_known_truth(shown):
    record = replace(
        SOFT,
        guarantee=GUARANTEE | {"unit": "unit"},
        settings=SOFT.settings | {"rounds": 1},
        label_accuracy=None,
        releases=SOFT.releases[:1],
    )
    text = shown(record)
    assert "1 noisy sum; every person adds one vector of bounded length to it, and only the noisy sum leaves." in text
    assert "the model labelled: 16,281\n" in text


def test_a_sum_that_compares_public_rows_is_named(shown):
    assert "compares public rows" not in shown(SOFT)
    text = shown(replace(SOFT, settings=SOFT.settings | {"compares_rows": True}))
    assert "only the noisy sums leave. One more sum compares public rows with the private records." in text


def test_a_vote_says_how_many_rows_got_a_label(shown):
    text = shown(VOTED)
    assert "Public rows that got a label: 90 of 16,281 public rows after asking about 100, 85.7% of them right" in text
    assert "Released" not in text


def test_the_brier_score_has_a_column_where_there_is_one(shown):
    text = shown(SOFT)
    assert "Brier score" in text
    assert "0.100" in text
    assert "0 is best" in text
    assert "Brier" not in shown(VOTED)
    mixed = shown(replace(VOTED, baseline=SOFT.student))
    assert "Brier score" in mixed
    assert next(line for line in mixed.splitlines() if "student (" in line).split()[-2] == "-"


def test_whatever_was_released_is_shown_in_order(shown):
    table = {"title": "How common wards are", "rows": [["north", 0.25, 0.01]]}
    releases = [
        {"description": "the number of wards", "table": table, "noise": 26.4},
        {"description": "a new sum", "table": None, "noise": 6.9},
    ]
    record = replace(SOFT, releases=releases, settings=SOFT.settings | {"rounds": 2})
    text = shown(record)
    assert (
        "The sums in order, each with the standard deviation of its noise as a multiple of the most that one record "
        "can change the sum: the number of wards (26.4); a new sum (6.9).\n" in text
    )
    assert "Noise: Gaussian, 6.9 to 26.4 sensitivities on each sum" in text
    assert "How common wards are: north 0.250 ± 0.010" in text
    assert "in order" not in shown(SOFT)
    page = render(record)
    assert '<th scope="row">the number of wards</th><td>26.4</td>' in page
    assert "later rounds have no more" not in page
    assert "later rounds have no more" in render(SOFT)
    assert "<h3>How common wards are</h3>" in page
    assert "<td>0.250</td><td>0.010</td>" in page


def test_files_lie_beside_the_student_wherever_the_page_is_written(capsys):
    decision = {"positive_class": "yes", "threshold": 1 / 21, "why": "Why.", "per_1000": []}
    for more, option in (({}, ""), ({"decision": decision}, " --threshold 0.04762")):
        record = replace(SOFT, data=SOFT.data | {"certificate": "certificate.json"} | more)
        print_run(record, Path("page.html"), Path("run") / "student.skops")
        lines = capsys.readouterr().out.splitlines()
        assert (
            f"Student: run/student.skops; 'dpensemble predict run FILE{option}' classifies the rows of a file" in lines
        )
        assert any(line.startswith("Certificate: run/certificate.json;") for line in lines)


def test_a_terminal_shows_no_control_characters_of_names(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    name = '"\x1b[2Ja"'
    rows = [f"{value:.3f},{int(value > 0)}" for value in rng.normal(size=300)]
    (tmp_path / "private.csv").write_text("\n".join([f"{name},y", *rows]))
    (tmp_path / "public.csv").write_text("\n".join([name, *(row.split(",")[0] for row in rows[::-1])]))
    line = "train label-moments --private private.csv --public public.csv --target y --classes 0,1 --epsilon 9"
    assert main([*line.split(), "--delta", "1e-3", "--quiet", "--out", "run"]) == 0
    shown = capsys.readouterr()
    assert "Columns: ?[2Ja" in shown.out
    assert "\x1b" not in shown.out + shown.err
