from hypothesis import given
from hypothesis import strategies as st

from dpensemble._wording import round_up


@given(st.floats(1e-300, 1e300), st.integers(2, 8))
def test_never_below_and_within_one_unit_of_the_last_digit(value, digits):
    shown = round_up(value, digits)
    assert value <= shown <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
    assert float(f"{shown:.{digits - 1}e}") == shown


def test_what_people_typed_stays():
    assert [round_up(x, 4) for x in (1.0, 0.1, 1e-5, 2.5e-7)] == [1.0, 0.1, 1e-5, 2.5e-7]
