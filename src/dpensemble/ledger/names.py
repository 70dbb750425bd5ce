"""Names of data sets, people, groups and grants."""

from datetime import UTC, datetime

from dpensemble.errors import InvalidParameterError

#: The account that every record of a data set shares.
EVERYONE = "everyone"
_LONGEST = 200


def check_name(parameter: str, name: object) -> str:
    """Return a name if it is a printable text that is not too long."""
    if isinstance(name, str) and 0 < len(name) <= _LONGEST and name.isprintable() and name == name.strip():
        return name
    raise InvalidParameterError(
        f"{parameter}={name!r:.60} is not a printable text of 1 to {_LONGEST} characters without blanks around it.",
        parameter=parameter,
    )


def now() -> str:
    """Return date and time, for people; nothing rests on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
