"""Which texts are dates in a format, and which only look like one."""

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets import dates

PARTS = ["1", "01", "12", "13", "31", "24", "1999", "2024", "٣", "²", "007", "Jan", "MAR", "März", "Sept.", "\u017fep"]
MARKS = ["-", "/", ".", " ", "", "\u00a0", ", ", "T", "Z", "+01:00", "x"]
FORMATS = [*dates._FORMATS, *dates._MORE_FORMATS]
DAYS = pd.date_range("1971-01-01", "2028-01-01", periods=60)


def test_every_date_has_the_shape_of_its_format():
    """So a column is read by the same format as if each format were tried in full."""
    draw = np.random.default_rng(0)
    texts = ["".join(draw.choice([*PARTS, *MARKS], draw.integers(1, 8))) for _ in range(700)]
    texts += [draw.choice(MARKS[:6]).join(draw.choice(PARTS, 3)) for _ in range(700)]
    texts += [f"{day.day}{mark}{day.month:02}{mark}{day.year}" for day in DAYS for mark in MARKS[:5]]
    days = dates._Days.of(pd.Series(texts, dtype=object))
    for how in FORMATS:
        assert not (days.are_dates(how) & ~days.have_shape_of(how)).any(), how
        assert days.have_shape_of(how).mean() < 0.5


@pytest.mark.parametrize("how", FORMATS)
def test_dates_in_a_format_are_found_by_it(how):
    texts = pd.Series(DAYS.strftime(how), dtype=object)
    assert dates._Days.of(texts).have_shape_of(how).all()
    assert how in [*dates._are_dates(texts, dates._FORMATS), *dates._are_dates(texts, dates._MORE_FORMATS)]


@pytest.mark.parametrize("how", ["%d %b %Y", "%d-%b-%Y"])
def test_a_long_s_is_no_letter_of_a_month(how):
    """One record with it made all others unreadable."""
    usual = f"{pd.Timestamp(2024, 9, 3):{how}}"
    entries = pd.Series([usual, usual.replace("S", "\u017f"), usual], dtype=object)
    assert dates.unreadable_dates(entries, how).tolist() == [False, True, False]
    assert np.isnan(dates.date_parts(entries, how)["year"][1])
