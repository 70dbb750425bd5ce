"""Statistics that a run of label moments releases besides its model."""

import itertools
import json

import numpy as np
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.certificates import certificate_of_fit
from dpensemble.cli import main
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.queries import STATISTICS, _ClassShares, partial_sums, statistics_of
from dpensemble.moments.whole import UNIT, WHOLE, WholeBlock

NAMES = ("no", "yes", "unknown")


def one_unit(targets):
    """Return the exact sum of one unit with these records."""
    weights = np.full(len(targets), 1 / len(targets))
    blocks = [WholeBlock(np.full((len(targets), 2), float(UNIT)), np.array(targets), weights)]
    return partial_sums(_ClassShares(NAMES), blocks).total.astype(float)


def test_no_two_units_differ_by_more_than_the_sensitivity():
    units = [one for size in (1, 2, 3) for one in itertools.product(range(3), repeat=size)]
    sums = [one_unit(one) for one in units]
    largest = max(np.linalg.norm(u - v) for u in sums for v in sums)
    # A unit of class a against one of class b needs all of it.
    assert _ClassShares.replacing * (1 - 1e-5) <= largest <= _ClassShares.replacing
    assert max(np.linalg.norm(u) for u in sums) <= _ClassShares.removing == WHOLE


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    return X, np.array(["no", "yes"])[(X[:, 0] > 0.5).astype(int)], rng.normal(size=(300, 3))


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_shares_are_released_charged_and_certified(rows, relation):
    X, y, public = rows
    model = LabelMomentsClassifier(
        classes=["no", "yes"], statistics="class-shares", relation=relation, insecure_release_seed=0
    ).fit(X, y, X_public=public)
    (table,) = [one.table for one in model.result_.releases if one.description == "the share of each class"]
    assert [row[0] for row in table.rows] == ["no", "yes"]
    for name, share, error in table.rows:
        assert abs(share - np.mean(y == name)) < 5 * error < 0.2
    assert len(model.charges_) == len(model.result_.releases)
    assert sum(1 / one["sigma"] ** 2 for one in model.charges_) == pytest.approx(
        model.design_.meter().mu ** 2, rel=1e-9
    )
    assert model.guarantee_.epsilon <= 1.0
    assert len(certificate_of_fit(model)["parts"][0]["body"]["rounds"]) == len(model.charges_)


def test_a_run_without_statistics_releases_what_it_did(rows):
    X, y, public = rows
    settings = {"classes": ["no", "yes"], "insecure_release_seed": 0}
    plain = LabelMomentsClassifier(**settings).fit(X, y, X_public=public)
    assert all(one.table is None for one in plain.result_.releases)
    assert sum(plain.design_.shares) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("x", "unknown"),
        ("class-shares,class-shares", "twice"),
        (",", "unknown"),
        (["class-shares", "x"], "unknown"),
        (7, "not a list of names"),
        ([7], "not a list of names"),
    ],
)
def test_unknown_and_repeated_names_are_refused(names, text):
    with pytest.raises(InvalidParameterError, match=text):
        LabelMomentsClassifier(statistics=names).design(n_classes=2)


def test_names_may_have_spaces():
    assert statistics_of(" class-shares ") == tuple(STATISTICS)
    assert statistics_of(["class-shares"]) == statistics_of(("class-shares",)) == ("class-shares",)
    assert statistics_of(None) == statistics_of("") == statistics_of([]) == ()


def test_page_terminal_and_json_show_the_shares(tmp_path, monkeypatch, capsys, rows):
    import pandas as pd

    X, y, public = rows
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv("private.csv", index=False)
    pd.DataFrame(public, columns=list("abc")).to_csv("public.csv", index=False)
    line = "train label-moments --private private.csv --public public.csv --target y --classes no,yes --out run --quiet"
    assert main([*line.split(), "--statistics", "class-shares"]) == 0
    assert "Share of each class: no 0." in capsys.readouterr().out
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<h3>Share of each class</h3>" in page
    # The noise of one sum among the settings would contradict the list of all.
    assert ">Sigma<" not in page
    card = json.loads((tmp_path / "run" / "card.json").read_text(encoding="utf-8"))
    assert card["privacy"]["released"][0]["table"]["title"] == "Share of each class"
    words = (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    assert "## Released sums, and their noise in sensitivities" in words
    assert "## Share of each class" in words
    assert " ± 0." in words
    releases = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["releases"]
    assert [one["table"]["title"] for one in releases if one["table"]] == ["Share of each class"]
