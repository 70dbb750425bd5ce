"""What pages and cards show of a number."""

import pytest

from dpensemble.report.numbers import amount


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (95258.9, "95,300"), (1234567.0, "1,230,000"), (0.012345, "0.0123"), (-3.0, "−3"), (12.5, "12.5")),
        *((999.6, "1,000"), (1e-9, "0.000000001"), (float("inf"), "inf")),
    ],
)
def test_amounts_have_three_digits(value, text):
    assert amount(value) == text
