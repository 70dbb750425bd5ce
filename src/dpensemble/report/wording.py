"""Numbers, settings and dates as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dpensemble._checks import plural
from dpensemble.report.record import RunRecord

_LONGEST_LABEL = 17
#: Standard deviations to either side that a 95 % interval of a normal law covers.
BAND = 1.96
MEASURES = {
    "accuracy": "Accuracy",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier score",
    "area_of_binned_curve": "Area of a curve over bins, not the AUROC of the student",
}
# The general rule would mislead for these names.
_HEADINGS = {
    "compares_rows": "One more sum, to compare public rows by",
    "public_rows_unlike": "Public rows differ from private ones",
    "readable_share": "Share of private records that could be read, as a released sum shows",
    "answers": "Share of each label among the public rows",
}
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


def readable(share: float, error: float) -> str:
    """Write the estimated share of readable records with its 95 % interval by the noise, both within 0 and 1."""
    # Around the share within 0 and 1, the interval holds the true share at least as often.
    value = min(max(share, 0.0), 1.0)
    low, high = max(value - BAND * error, 0.0), min(value + BAND * error, 1.0)
    return f"About {percent(value)} (95% interval by noise: {percent(low)} to {percent(high)})"


def measure(value: float | None) -> str:
    """Write an accuracy or an area with three decimals."""
    return "not available" if value is None or not math.isfinite(value) else f"{value:.3f}"


def counted(number_of: int, noun: str) -> str:
    """Write how many there are of what a noun names."""
    return f"{number_of:,} {noun if number_of == 1 else plural(noun)}"


def either(names: Sequence[str]) -> str:
    """Write names as alternatives."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)


def percent(share: float) -> str:
    """Write a share in per cent, with one decimal."""
    return f"{100 * share:.1f}%"


def setting(name: str, value: object) -> str:
    """Write one setting or fact of any type. A seed has no commas."""
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "yes", False: "no"}[value]
    if isinstance(value, int) and "seed" in name:
        return str(value)
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {setting(str(key), item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(setting(name, item) for item in value)
    return str(value)


def noise(record: RunRecord) -> str:
    """Describe the noise of a run, and how it was chosen."""
    settings, rows = record.settings, record.data.get("public_rows", 0)
    chosen = settings["noise_chosen"]
    if noises := [each for _, each in record.described_sums]:
        least, most = (number(bound, 4) for bound in (min(noises), max(noises)))
        return f"Gaussian, {least if least == most else f'{least} to {most}'} sensitivities on each sum ({chosen})"
    if chosen == "none":
        return "none on the votes"
    queries = min(rows, settings.get("max_labels") or rows)
    how = f"fitted to {'the ' if queries == rows else ''}{queries:,} public rows" if chosen == "fitted" else chosen
    return f"{settings['noise_in_words']} ({how})"


def positive_class(classes: Sequence[str], positive: str | None) -> str:
    """Describe which class the areas under curves refer to."""
    if positive is None:
        return f"AUROC and AUPRC are means over {len(classes)} classes, each against the rest."
    return f"AUROC and AUPRC treat {positive!r} as positive; the student's probability is that of this class."


def sums(rounds: int) -> str:
    """Write how many sums a run without votes released."""
    return f"{rounds:,} noisy sum{'' if rounds == 1 else 's'}"


def heading(name: str) -> str:
    """Turn the name of a field into words. A name that begins with ``n_`` is a number of things."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    words = re.sub(r"^n_", "number_of_", name).replace("_", " ")
    return words[:1].upper() + words[1:]


def date(created: str) -> str:
    """Write an ISO 8601 date and time in words. A text that is not a date stays unchanged."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def shorten(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Cut a label that would not fit into a drawing."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def legible(text: str) -> str:
    """Return a page or drawing in which characters that XML does not allow, such as NUL, are replaced by a sign."""
    return _NOT_IN_XML.sub("\ufffd", text)
