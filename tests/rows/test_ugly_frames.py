"""Tables in Python: one private record is replaced by any objects, and all others are read to the same bits."""

import datetime
import decimal
import functools
import uuid
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.errors import DPEnsembleError
from dpensemble.rows.arguments import AS_GIVEN, PreparedRows, checked_tables, class_ids_or_bad, in_public_columns

N_PUBLIC, N_RECORDS, CLASSES = 60, 12, ["no", "yes"]
Y = np.array(CLASSES * (N_RECORDS // 2), dtype=object)


class EqualToAll:
    """An object that is equal to every other one, and has the hash of a category."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("g1")


ODD = [
    *(None, np.nan, pd.NA, pd.NaT, np.inf, -np.inf, 1e308, -0.0, 5e-324, 2**53 + 1, 2**64, 10**400, -1, True, False),
    *(np.bool_(True), 1 + 0j, 1j, b"g1", b"\xff", decimal.Decimal("1.5"), decimal.Decimal("sNaN"), EqualToAll()),
    *(datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1), datetime.time(1), datetime.timedelta(1)),
    *(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), pd.Timestamp("1700-01-01"), pd.Timedelta(1)),
    *(np.datetime64("NaT"), np.datetime64("2024"), [1, 2], [], {}, {"a": 1}, (1,), set(), range(3), object(), type),
    *(np.array([1, 2]), np.array(5.0), np.float16(1.5), np.int8(3), np.longdouble(1) / 3, uuid.UUID(int=1), len),
    *(pd.Series([1]), pd.DataFrame(), pd.Interval(0, 1), pd.Period("2024"), "", "g1", "33", "33.0", "$5", "5 €"),
    *("12,5", "1.234", "1,234", "50%", "(5)", "<5", "٣", "½", "nan", "NaT", "true", "True", "\ud800", "\x00"),
    *(
        "a" * 70000,
        "9" * 5000,
        "2024-02-30",
        "31.02.2024",
        "01.03.24",
        "0x1f",
        "1_0",
        "1e400",
        "a@b.org",
        "+49 1234567",
    ),
]
DECLARED = [
    None,
    {},
    {"money": "money", "share": "percent", "code": "category", "seen": "date:%d.%m.%Y", "limit": "number"},
    {"email": "category", "Name": "text", "patient_id": "id", "big": "number", "remark": "category"},
    AS_GIVEN,
]


def table(n_rows, seed):
    x = np.random.default_rng(seed).integers(10, 80, n_rows)
    days = [f"2024-0{v % 9 + 1}-1{v % 9}" for v in x]
    return pd.DataFrame(
        {
            "number": x + 0.25,
            "whole": x,
            "big": 2**53 + x,
            "flag": x % 2 == 0,
            "money": [f"${v * 1001:,.2f}" for v in x],
            "share": [f"{v}.5 %" if v % 2 else f"{v}.5" for v in x],
            "comma": [f"{v},5" for v in x],
            "group": [f"g{v % 3}" for v in x],
            "code": [f"0{v % 4}12" for v in x],
            "seen": [f"{v % 28 + 1:02}.03.20{v}" for v in x],
            "moment": [f"{day} 10:00" for day in days],
            "day": pd.to_datetime(days),
            "email": [f"p{row}@ex{v}.org" for row, v in enumerate(x)],
            "Name": [f"Anna Berg{chr(97 + row % 26)} {chr(65 + v % 26)}o" for row, v in enumerate(x)],
            "patient_id": [f"P{row}{v}" for row, v in enumerate(x)],
            "phone": [f"+49 {v}{row:05}" for row, v in enumerate(x)],
            "Unnamed: 0": np.arange(n_rows),
            "limit": [f"<{v}" if v < 20 else f"{v}.5" for v in x],
            "category": pd.Categorical([f"c{v % 4}" for v in x]),
            "remark": [f"text {row} of {v}" for row, v in enumerate(x)],
        }
    )


PUBLIC, PRIVATE = table(N_PUBLIC, 1), table(N_RECORDS, 2)


@functools.cache
def prepared(number, on_bad_record):
    model = LabelMomentsClassifier(classes=CLASSES, columns=DECLARED[number], on_bad_record=on_bad_record)
    return model, PreparedRows(model, PUBLIC)


def bits(column):
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=float, na_value=np.nan).tobytes()
    return [None if pd.isna(entry) else str(entry) for entry in column.tolist()]


def others_read(X, y, number, on_bad_record, place):
    """Return what is read of all records but one, or None for a refusal, and its words."""
    model, rows = prepared(number, on_bad_record)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y, public = checked_tables(model, rows.private(X), y, rows.X_public)
            keep_bad = on_bad_record == "zero"
            X = in_public_columns("X", X, public, declared=False, keep_bad=keep_bad, encoded=True)
    except DPEnsembleError as error:
        return None, str(error)
    ids = class_ids_or_bad(np.array(CLASSES), y)
    return [(name, bits(part.drop(index=place))) for name, part in X.items()], np.delete(ids, place).tolist()


@functools.cache
def usual(*where):
    return others_read(PRIVATE, Y, *where)


def with_odd(draw, place, texts):
    """Return the private table and labels with any objects in one record. Columns may have another type then."""
    X, y = PRIVATE.copy(), Y.copy()
    for column in draw.choice(
        X.shape[1], draw.integers(1, X.shape[1] + 1) if draw.random() < 0.5 else 1, replace=False
    ):
        own = X.iloc[:, column].astype(object).to_numpy(copy=True)
        own[place] = texts[draw.integers(len(texts))]
        X.isetitem(column, pd.Series(own, dtype=object))
    if draw.random() < 0.5:
        # As pandas stores the same entries, unless that would round others, or make complex numbers of them.
        for column in range(X.shape[1]):
            with suppress(UnicodeEncodeError, OverflowError):
                stored = X.iloc[:, column].infer_objects()
                if stored.dtype.kind in "biufOmM" and X.columns[column] != "big":
                    X.isetitem(column, stored)
    if draw.random() < 0.3:
        y[place] = texts[draw.integers(len(texts))]
    return X, y


@pytest.mark.parametrize("n_mutations", [1, 10])
@pytest.mark.parametrize("number", range(len(DECLARED)))
def test_one_record_of_any_objects_changes_no_other(number, n_mutations):
    draw = np.random.default_rng([number, n_mutations])
    for _ in range(n_mutations):
        place = int(draw.integers(N_RECORDS))
        X, y = with_odd(draw, place, ODD)
        assert others_read(X, y, number, "zero", place) == usual(number, "zero", place), X.iloc[place].tolist()


@pytest.mark.parametrize("n_mutations", [1, 20])
def test_a_refusal_of_a_bad_record_quotes_nothing(n_mutations):
    draw = np.random.default_rng(n_mutations)
    for _ in range(n_mutations):
        place, number, mark = (
            int(draw.integers(N_RECORDS)),
            int(draw.integers(len(DECLARED))),
            f"zq{draw.integers(10**6)}",
        )
        X, y = with_odd(draw, place, [f"{one}{mark}" if isinstance(one, str) else one for one in ODD])
        read = others_read(X, y, number, "raise", place)
        if read[0] is None:
            assert mark not in read[1]
        else:
            assert read == usual(number, "raise", place)
