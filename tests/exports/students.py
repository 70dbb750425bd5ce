"""Students of every kind that has an export, made in a moment from public rows and drawn coefficients."""

import json

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from dpensemble.datasets import TablePreparation
from dpensemble.moments import DirectionsMap, MomentsModel, TableMap
from dpensemble.moments.maps.curved import CurvedMap, beside
from dpensemble.moments.maps.directions import ColumnDirectionsMap
from dpensemble.moments.maps.grid import SnappedMap, observed_grid
from dpensemble.persistence import save_classifier
from dpensemble.student import marked, with_names

KINDS = ("directions", "column directions", "table", "snapped")
CURVED = ("landmarks", "nearness")
GUARANTEE = ["Differential privacy with epsilon = 1 and delta = 1e-05.", 'It\'s a "test".']


def mixed_rows(n_rows, seed, *, new=False):
    """Return rows with numbers, written numbers, codes, hostile texts, dates and blanks. New rows have new entries."""
    rng = np.random.default_rng(seed)
    wards = ["a", "A", "it's", 'say "no"', "back\\slash", "ü--", "null", "x;DROP TABLE rows", ""]
    days = pd.Timestamp("2019-12-28") + pd.to_timedelta(rng.integers(0, 1500, n_rows), unit="D")
    age = rng.normal(50, 20, n_rows).round(1)
    table = pd.DataFrame(
        {
            "age": np.where(rng.random(n_rows) < 0.1, np.nan, age),
            "dose": rng.lognormal(1, 2, n_rows),
            "few": rng.integers(0, 3, n_rows).astype(float),
            "code": rng.integers(1, 9, n_rows).astype(str),
            "ward": rng.choice(wards[:-1], n_rows),
            "seen": days.strftime("%d.%m.%Y"),
        }
    )
    table.loc[rng.random(n_rows) < 0.1, ["ward", "seen"]] = np.nan
    if new:
        table.loc[rng.random(n_rows) < 0.2, "ward"] = "never seen"
        table.loc[rng.random(n_rows) < 0.1, "age"] = 1e9
        table.loc[rng.random(n_rows) < 0.1, "dose"] = -1e9
        table.loc[rng.random(n_rows) < 0.1, "age"] = 99.0
        table.loc[rng.random(n_rows) < 0.1, "seen"] = "31.02.2020"
    return table


def measured_rows(n_rows, seed, *, texts):
    """Return rows with numbers in groups, and perhaps a text, with blanks."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(0, 5, (6, 3))
    numbers = middles[rng.integers(0, 6, n_rows)] + rng.normal(0, 0.3, (n_rows, 3))
    numbers[rng.random(numbers.shape) < 0.05] = np.nan
    table = pd.DataFrame(numbers, columns=["x", "y", "z"])
    return table.assign(ward=rng.choice(["a", "b"], n_rows)) if texts else table


def made(kind, seed=0, *, classes=("no", "yes"), n_public=300, n_rows=200, fill=None, for_release=True):
    """Return a student with drawn coefficients, and rows to classify."""
    rng = np.random.default_rng(seed)
    preparation, steps = None, []
    if kind in CURVED:
        public = measured_rows(1200, seed, texts=kind == "nearness")
        rows = measured_rows(n_rows, seed, texts=kind == "nearness").sample(frac=1, random_state=1, ignore_index=True)
        rows.iloc[:50, 0] *= 3
        base = DirectionsMap(TableMap(knots=(2, 3)), n_directions=8)
        if kind == "landmarks":
            feature_map = CurvedMap(base, n_landmarks=20).fit(public).decoder_
        else:
            feature_map = beside(base.fit(public), public, 20, 6)
        assert type(feature_map).__name__ in ("CurvedDecoder", "BesideMap")
    else:
        public, rows = mixed_rows(n_public, seed), mixed_rows(n_rows, seed + 1, new=True)
        preparation = TablePreparation(fill, columns={"code": "category"}, blank={"age": [99]}).fit(public)
        prepared, steps = preparation.transform(public), [("table", preparation)]
        feature_map = {
            "directions": lambda: DirectionsMap(TableMap(), n_directions=20).fit(prepared),
            "column directions": lambda: ColumnDirectionsMap(TableMap()).fit(prepared),
            "table": lambda: TableMap().fit(prepared),
            "snapped": lambda: SnappedMap(TableMap(knots=(2, 3, 5), fewest=1), observed_grid(prepared).columns).fit(
                observed_grid(prepared).rows(observed_grid(prepared).cells(prepared))
            ),
        }[kind]()
    n_columns = 1 if len(classes) == 2 else len(classes)
    size = 3.0 if kind in ("table", "snapped") else 6.0
    model = MomentsModel.of(rng.normal(0, size, (len(feature_map.blocks_), n_columns)), np.array(sorted(classes)))
    student = with_names(Pipeline([*steps, ("encoder", feature_map), ("student", model)]), list(public.columns))
    return marked(student, for_release=for_release), rows


def saved(student, folder, *, in_words=GUARANTEE):
    """Write a run's student and card, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_classifier(student, folder / "student.skops")
    card = {"privacy": {"in_words": list(in_words)}, "model": {"title": "A test", "created": "2026-11-29"}}
    (folder / "card.json").write_text(json.dumps(card))
    return folder


def as_typed(rows):
    """Return rows as exports read them: dates as 2025-12-31, blanks as None."""
    typed = rows.copy()
    if "seen" in typed:
        typed["seen"] = [day if pd.isna(day) else f"{day[6:]}-{day[3:5]}-{day[:2]}" for day in typed["seen"]]
    return typed.astype(object).where(typed.notna(), None)
