"""Numbers and labels as people write them."""

from __future__ import annotations

import math
import re

_LONGEST_LABEL = 17
#: Standard deviations to either side that a 95 % interval of a normal law covers.
BAND = 1.96
# Characters that XML 1.0 does not allow (section 2.2). Names of columns may hold them.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float, digits: int = 6) -> str:
    """Write a number for people."""
    if math.isnan(value):
        return "not available"
    if math.isinf(value):
        return "unlimited" if value > 0 else "-unlimited"
    if abs(value) < 1000:
        return f"{value:.{digits}g}"
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def with_error(value: float, error: float) -> tuple[str, str]:
    """Write a value and its standard deviation, both down to the second digit of the standard deviation."""
    if not 0 < error < math.inf:
        return number(value), number(error)
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:,.{decimals}f}", f"{error:,.{decimals}f}"


def percent(share: float) -> str:
    """Write a share in per cent, with one decimal."""
    return f"{100 * share:.1f}%"


def shorten(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Cut a label that would not fit into a drawing."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def legible(text: str) -> str:
    """Return a page or drawing in which characters that XML does not allow, such as NUL, are replaced by a sign."""
    return _NOT_IN_XML.sub("\ufffd", text)
