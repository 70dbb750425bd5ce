"""Numbers are written as people write them."""

import math

import pytest

from dpensemble.report.wording import number


def test_numbers_for_people():
    assert [number(value) for value in (1234, 0.853, 1e-5, float("nan"))] == [
        "1,234",
        "0.853",
        "1e-05",
        "not available",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(16281, "16,281"), (0.853, "0.853"), (1e-5, "1e-05"), (1234.5, "1,234.5"), (1000.0, "1,000"),
     (1e20, "1e+20"), (-math.inf, "-unlimited"), (math.inf, "unlimited"), (0, "0"), (True, "1")],
)  # fmt: skip
def test_number(value, text):
    assert number(value) == text
