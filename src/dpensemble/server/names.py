"""Names of data sets, people, groups and grants, and which names look alike."""

import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from dpensemble.errors import InvalidParameterError, LedgerError

#: The account that every record of a data set shares.
EVERYONE = "everyone"
_LONGEST = 200
# Only earlier versions accepted names with such letters.
_FOREIGN = str.maketrans(
    "асеорхуіјѕһԁԛԝӏАВСЕНІЈКМОРЅТХУӀαινορυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧßıłøđ",
    "aceopxyijshdqwlABCEHIJKMOPSTXYlaivopuxABEZHIKMNOPTYXBilod",
)
_DRAWN_ALIKE = str.maketrans("0I1|", "olll")


def check_name(parameter: str, name: object) -> str:
    """Return a name if it is a printable text that is not too long."""
    if isinstance(name, str) and 0 < len(name) <= _LONGEST and name.isprintable() and name == name.strip():
        return name
    raise InvalidParameterError(
        f"{parameter}={name!r:.60} is not a printable text of 1 to {_LONGEST} characters without blanks around it.",
        parameter=parameter,
    )


def require_new_name(parameter: str, name: str, others: Iterable[str]) -> None:
    """Raise for a new name that people could confuse with another one, which has a separate budget.

    Names that are in a ledger already stay valid, however they look.
    """
    if not name.isascii():
        raise InvalidParameterError(
            f"{parameter}={name!a:.60} is new and contains more than ASCII, although letters of other scripts look "
            "alike: use the letters a to z, digits, blanks and punctuation.",
            parameter=parameter,
        )
    other = look_alike(name, others)
    if other is not None:
        raise LedgerError(
            f"{parameter}={name!r:.60} looks like {other!a:.60}, which exists and has a separate budget: use "
            "that name, or one that cannot be confused with it."
        )


def look_alike(name: str, others: Iterable[str]) -> str | None:
    """Return the first of other names that differs only in case, normal form or look-alike letters, or None."""
    own = _looks(name)
    return next((one for one in others if one != name and not own.isdisjoint(_looks(one))), None)


def now() -> str:
    """Return date and time, for people. Nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _looks(name: str) -> set[str]:
    """Return the appearance of a name, in letters of either case alike and as they are drawn."""
    parts = unicodedata.normalize("NFKD", name).translate(_FOREIGN)
    plain = "".join(one for one in parts if not unicodedata.combining(one))
    # Blanks of several kinds or widths, and invisible characters.
    words = " ".join("".join(one for one in plain if one.isprintable()).split())
    return {words.casefold(), words.translate(_DRAWN_ALIKE).casefold().replace("rn", "m")}
