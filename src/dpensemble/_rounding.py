"""Rounding for display that never makes a bound look better than it is."""

from decimal import ROUND_CEILING, Decimal


def round_up(value: float, digits: int) -> float:
    """Return the smallest number with `digits` significant digits that is not below a positive `value`."""
    # Uses the decimal as it was typed, not its binary neighbour, so that 0.1 stays 0.1.
    exact = Decimal(repr(float(value)))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING))
