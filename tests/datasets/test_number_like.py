"""Columns of public texts that are mostly numbers or dates, or look like them."""

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets import load_adult
from dpensemble.datasets.public_facts import number_like, warn_of_columns
from dpensemble.errors import ColumnWarning

V = np.random.default_rng(0).integers(10, 80, 120).tolist()
ODD = {
    "one ?": ["?" if i == 7 else str(x) for i, x in enumerate(V)],
    "error": ["#DIV/0!" if i == 7 else str(x) for i, x in enumerate(V)],
    "SAS": ["." if i % 20 == 0 else f"{x}.5" for i, x in enumerate(V)],
    "censored": [f"<{x}" if x < 20 else str(x) for x in V],
    "some units": [str(x) if i % 3 else f"{x} mg" for i, x in enumerate(V)],
    "mixed types": [float(x) if i else "unknown" for i, x in enumerate(V)],
}
DRESSED = {
    "percent": [f"{x}.5%" for x in V],
    "dollars": [f"${x * 1001:,.2f}" for x in V],
    "euros": [f"1.{x}4,50 €" for x in V],
    "francs": [f"CHF {x}.20" for x in V],
    "kg": [f"{x} kg" for x in V],
    "mmHg": [f"{x} mm Hg" for x in V],
    "cells": [f"{x}.1 10^9/L" for x in V],
    "Swiss": [f"{x}'001.0" for x in V],
    "French": [f"{x}\u202f001" for x in V],
    "thin": [f"{x}\u2009001" for x in V],
    "accountants": [f"({x}.00)" for x in V],
    "minus": [f"\u2212{x}" for x in V],
    "above": [f">{x}" for x in V],
}
DATES = {
    "short years": [f"{x % 28 + 1:02}.03.{x}" for x in V],
    "short names": [f"{x % 28 + 1:02}-Mar-{x}" for x in V],
    "unknown dates": ["unknown" if i % 9 == 0 else f"2024-03-{x % 28 + 1:02}" for i, x in enumerate(V)],
}
CATEGORIES = {
    "rooms": [f"{x}{'ABCDEF'[x % 6]}" for x in V],
    "codes": [f"E{x}.1" for x in V],
    "zips": [f"0{x}123" if x % 2 else f"1{x}123" for x in V],
    "ranges": [f"{x // 10 * 10}-{x // 10 * 10 + 9}" for x in V],
    "grades": [f"{x % 12 + 1}th" for x in V],
    "phones": [f"555-{x}00" for x in V],
    "doses": [f"{x % 3 * 10} mg" for x in V],
    "streets": [f"{x} Main Street" for x in V],
    "words": [["a", "b", "c 1"][x % 3] for x in V],
    "dates": [f"2024-03-{x % 28 + 1:02}" for x in V],
    "times": [f"{x % 24:02}:{x}" for x in V],
}


@pytest.mark.parametrize("kind", [*ODD, *DRESSED, *DATES])
def test_numbers_among_texts_are_doubtful(kind):
    like = number_like("score", pd.Series((ODD | DRESSED | DATES)[kind], dtype=object))
    assert like.is_doubtful
    assert like.text.startswith("column 'score' is not read as " + ("dates" if kind in DATES else "numbers"))
    assert ("none" in like.text) == (kind in ODD or kind == "unknown dates")


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_and_codes_are_not_remarkable(kind):
    assert number_like("score", pd.Series(CATEGORIES[kind])) is None


def test_few_numbers_are_a_remark():
    few = number_like("children", pd.Series(["0", "1", "2", "3+"] * 10))
    assert not few.is_doubtful
    assert "25 % of its public entries are none: '3+'" in few.text
    assert not number_like("stored", pd.Series(list(map(str, V)))).is_doubtful


def test_entries_are_cut_and_tamed():
    like = number_like("score", pd.Series([*map(str, V), "\x1b[31m\n" + "x" * 90, "?", "?", "-", "-", "-"]))
    assert "'-', '?', '\N{REPLACEMENT CHARACTER}[31m " in like.text
    assert "\x1b" not in like.text
    assert "x" * 30 not in like.text


def test_decimal_commas_name_the_option():
    assert '--decimal ","' in number_like("fee", pd.Series(DRESSED["euros"])).cure
    assert "--decimal" not in number_like("fee", pd.Series(DRESSED["dollars"])).cure


def test_warnings_are_one_for_each_column_and_capped():
    with pytest.warns(ColumnWarning) as caught:
        warn_of_columns(pd.DataFrame({f"c{i}": ODD["one ?"] for i in range(8)}), has_unit=True)
    texts = [str(one.message) for one in caught]
    assert len(texts) == 6
    assert all(f"'c{i}'" in text and text.endswith("out of X and X_public.") for i, text in enumerate(texts[:5]))
    assert texts[5].startswith("and 3 more columns")


def test_adult_gives_no_warning():
    warn_of_columns(load_adult().X, has_unit=False)
