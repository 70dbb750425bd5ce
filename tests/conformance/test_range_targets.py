"""Runs whose target is a number: one record's target is replaced by anything, and others see the same run.

Sums move by at most the sensitivity that is charged, in memory and in blocks, and no other target is read differently.
"""

import contextlib
import io
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsRegressor
from dpensemble.cli import main
from dpensemble.datasets.formats import entry_rules
from dpensemble.errors import HiddenError
from dpensemble.moments.residuals import NumberRange
from dpensemble.releases import SumReleaser
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.tables import file_tables

N, PLACE, LOW, HIGH = 60, 23, -50.0, 2000.0
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame({"a": RNG.normal(size=N + 40).round(3), "c": RNG.choice(["x", "y"], N + 40)})
TABLE["price"] = (500 + 200 * TABLE["a"] + 30 * RNG.normal(size=N + 40)).round(2)
#: What the target of one record may be. None leaves the record as it is.
TARGETS = {
    "as it is": None,
    "missing": "",
    "a text": "n/a?",
    "infinite": "inf",
    "minus infinite": "-1e999",
    "too large for a double": "9" * 400,
    "below the range": "-51",
    "above the range": "2e9",
    "the smallest": "-50",
    "the largest": "2000.0",
    "money": "$1,200.50",
    "a decimal comma": "12,5",
    "a date": "2024-02-29",
    "a complex number": "1j",
    "a truth value": "TRUE",
}
RULES = {
    "plain": [],
    "money": ["price=money:$1,234.5"],
    "decimal commas": ["price=number:1.234,5"],
}


class _Enough(Exception):  # noqa: N818
    pass


def as_written(number, rule):
    """Return a number as people write it under a rule."""
    if rule == "money":
        return f"${number:,.2f}"
    return f"{number:.2f}".replace(".", ",") if rule == "decimal commas" else str(number)


@pytest.fixture
def files(tmp_path):
    """Return a function that writes tables with one odd target, and returns what the workflow reads."""

    def files(target, rule="plain", kind="csv"):
        table = TABLE[:N].astype({"price": object})
        table["price"] = [as_written(number, rule) for number in table["price"]]
        if target is not None:
            table.loc[PLACE, "price"] = target
        if kind == "csv":
            table.to_csv(tmp_path / "private.csv", index=False)
        else:
            table.to_parquet(tmp_path / "private.parquet")
        TABLE[N:].drop(columns="price").to_csv(tmp_path / "public.csv", index=False)
        return TableFiles(
            private=tmp_path / f"private.{kind}", public=tmp_path / "public.csv", target="price",
            number=NumberRange.of(LOW, HIGH), entries=entry_rules(RULES[rule], None, None),
        )  # fmt: skip

    return files


def sums_of(tables, relation):
    """Return the first sums of a run before their noise, with the sensitivity of each: counts and means."""
    seen, n_sums = [], 2 if relation == "replace-one" else 3
    real = SumReleaser.charge_and_draw

    def watched(self, query, total, share, *, weight=1.0):
        seen.append((total.astype(float), query.sensitivity(self.relation)))
        # Later sums depend on what was released.
        if len(seen) == n_sums:
            raise _Enough
        return real(self, query, total, share, weight=weight)

    model = LabelMomentsRegressor(
        LOW, HIGH, epsilon=5, delta=1e-3, relation=relation, on_bad_record="zero", insecure_release_seed=1
    )
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), contextlib.suppress(HiddenError):
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "charge_and_draw", watched)
        if tables.stream is None:
            model.fit(tables.X_private, tables.y_private.to_numpy(), X_public=tables.X_public)
        else:
            model.fit_blocks(tables.stream.read, X_public=tables.X_public)
    assert len(seen) == n_sums
    return seen


def read(files, blocks=False):
    return file_tables(files, ReadOptions(blanks=True, takes_blocks=True, in_blocks=blocks, on_bad_record="zero"))


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("rule", RULES)
def test_one_target_moves_sums_by_at_most_what_is_charged(files, rule, relation):
    usual = read(files(None, rule))
    before = sums_of(usual, relation)
    others = np.delete(np.arange(N), PLACE)
    for name, target in TARGETS.items():
        tables = read(files(target, rule))
        # No target changes how another is read.
        assert tables.y_private[others].tolist() == TABLE["price"][others].tolist(), name
        now = sums_of(tables, relation)
        for (one, charged), (other, same) in zip(before, now, strict=True):
            # Replacing a unit under the other relation removes one and adds one.
            most = charged if relation == "replace-one" else 2 * charged
            assert (charged, np.linalg.norm(one - other) <= most * (1 + 1e-12)) == (same, True), name
        # The mean of features and both histograms have a cell or nothing for each record.
        assert np.isfinite(np.concatenate([total.ravel() for total, _ in now])).all()


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_give_the_sums_of_memory(files, target):
    in_memory = sums_of(read(files(TARGETS[target])), "replace-one")
    blocks = sums_of(read(files(TARGETS[target], kind="parquet"), blocks=True), "replace-one")
    for (one, _), (other, _) in zip(in_memory, blocks, strict=True):
        np.testing.assert_array_equal(one, other)


def test_targets_are_read_as_their_rule_states(files):
    expected = {"plain": (np.nan, np.nan), "money": (1200.5, np.nan), "decimal commas": (np.nan, 12.5)}
    for rule, (of_money, of_comma) in expected.items():
        found = [read(files(TARGETS[one], rule)).y_private[PLACE] for one in ("money", "a decimal comma")]
        np.testing.assert_equal(found, [of_money, of_comma])


@pytest.fixture
def shown(files, tmp_path):
    """Return what `train` shows for a target: exit code, files, errors, and the headings of a shared file."""

    def shown(target, *options, kind="csv"):
        given = files(target, kind=kind)
        line = (
            f"train --private {given.private} --public {given.public} --target price --range {LOW},{HIGH} --epsilon 5"
        )
        line += f" --delta 1e-3 --insecure-release-seed 1 --overwrite --out {tmp_path / 'out'}"
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*line.split(), *options])
        names = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "out").rglob("*"))
        card = (tmp_path / "out" / "card.md").read_text(encoding="utf-8") if code == 0 else ""
        return code, names, re.sub(r"[-+.,\d]+(e-?\d+)?", "#", err.getvalue()), re.findall("^#.*", card, re.MULTILINE)

    return shown


@pytest.mark.parametrize("target", ["missing", "a text", "infinite", "above the range", "the largest"])
def test_train_shows_the_same_whatever_one_target_is(shown, target):
    usual = shown(None)
    assert usual[0] == 0
    assert shown(TARGETS[target]) == usual


@pytest.mark.parametrize("options", [("--in-blocks",), ("--jobs", "2"), ("--relation", "add-or-remove-one")])
def test_every_route_shows_the_same_whatever_one_target_is(shown, options):
    kind = "csv" if "--relation" in options else "parquet"
    usual = shown(None, *options, kind=kind)
    assert usual[0] == 0
    names = ["missing", "a text", "infinite", "below the range", "the smallest"]
    assert [name for name in names if shown(TARGETS[name], *options, kind=kind) != usual] == []


def test_refused_targets_are_named_by_row_and_never_quoted(shown):
    assert shown(TARGETS["above the range"], "--on-bad-record", "raise")[0] == 0
    error = shown("zq17 kg", "--on-bad-record", "raise")
    assert (error[0], "zq" in error[2], "row #" in error[2]) == (2, False, True)
