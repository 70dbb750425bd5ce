"""Addresses of tables in databases, which hold no passwords."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from dpensemble.clusters.vetting import is_here
from dpensemble.errors import InvalidParameterError

_EXAMPLE = "postgresql://USER@HOST/DATABASE"
_ENCRYPTS = ("require", "verify-ca", "verify-full")
# Settings of libpq that hold no secret. The address is part of a run's records.
_SETTINGS = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "service",
    "connect_timeout",
    "application_name",
    "target_session_attrs",
)


def file_and_table(text: str, scheme: str, parameter: str = "private") -> tuple[Path, str]:
    """Return file and table of ``scheme:FILE:TABLE``, the value of a parameter."""
    file, _, table = text.removeprefix(scheme).rpartition(":")
    if not file or not table or file.startswith("//"):
        raise InvalidParameterError(
            f"{parameter} must name a file and a table of {scheme[:-1]}: write {scheme}FILE:TABLE, without // before "
            "the file.",
            parameter=parameter,
        )
    return Path(file), table


@dataclass(frozen=True)
class PostgreSQLAddress:
    """An address for libpq, and a table.

    Attributes
    ----------
    uri : str
        Address without the table. Rows that cross a network are encrypted.
    table : str
        Name of the table, with its schema if one was given.
    """

    uri: str
    table: str

    @property
    def shown(self) -> str:
        """The address as errors show it."""
        return self.uri.partition("?")[0]

    @classmethod
    def of(
        cls, text: str, environment: Mapping[str, str] = os.environ, parameter: str = "private"
    ) -> PostgreSQLAddress:
        """Read ``postgresql://USER@HOST:PORT/DATABASE?table=TABLE``, with settings of libpq after ``&``.

        Raises
        ------
        InvalidParameterError
            If the address holds a password, names no table, or asks for a connection to another machine without
            encryption. Errors never repeat an address before it is known to hold no password.
        """
        uri, table = _vetted(text, environment, parameter, _SETTINGS, f"{_EXAMPLE}?table=TABLE")
        if not table:
            raise _malformed(parameter, f"{_EXAMPLE}?table=TABLE")
        return cls(uri, table)


def vetted_address(text: str, environment: Mapping[str, str], parameter: str, more: tuple[str, ...] = ()) -> str:
    """Return the address of a database for libpq, under the rules of `PostgreSQLAddress.of`, without a table.

    `more` are settings that the address may hold besides those of a table's address.
    """
    uri, table = _vetted(text, environment, parameter, (*_SETTINGS, *more), _EXAMPLE)
    if table:
        raise _malformed(parameter, _EXAMPLE)
    return uri


def _vetted(
    text: str, environment: Mapping[str, str], parameter: str, allowed: tuple[str, ...], example: str
) -> tuple[str, str]:
    """Return a vetted address for libpq, and the table that the text names, or ""."""
    start, _, query = text.partition("?")
    user, at, place = start.partition("://")[2].rpartition("@")
    try:
        parts, settings = urlsplit(text), dict(parse_qsl(query, strict_parsing=bool(query), keep_blank_values=True))
        host, _ = unquote(place.partition("/")[0]), parts.port
    except ValueError:
        raise _malformed(parameter, example) from None
    if ":" in user or {"password", "sslpassword"} & settings.keys():
        raise InvalidParameterError(
            f"{parameter} must not hold a password, because other users can see it in the list of processes: leave "
            "it out, and set PGPASSWORD or write ~/.pgpass.",
            parameter=parameter,
        )
    table = settings.pop("table", "")
    # One host and one user. A second @ or a ? may be a part of a password, and libpq splits hosts at commas.
    odd = "/" in user or "@" in user + query or (at and not user) or "#" in text
    several = any("," in named for named in (host, settings.get("host", ""), settings.get("hostaddr", "")))
    if not text.startswith(f"{parts.scheme}://") or odd or several:
        raise _malformed(parameter, example)
    for name in settings:
        if name not in allowed:
            raise InvalidParameterError(
                f"{parameter} must not set {name}: use {', '.join(allowed)} only, and write other settings of "
                "libpq into a service file.",
                parameter=parameter,
            )
    mode = settings.get("sslmode", environment.get("PGSSLMODE"))
    if not _stays_here(host, settings, environment) and mode not in _ENCRYPTS:
        if mode is not None:
            raise InvalidParameterError(
                f"sslmode={mode!r} would let rows cross a network in the clear: write "
                "sslmode=verify-full, or sslmode=require.",
                parameter=parameter,
            )
        settings["sslmode"] = "require"
    kept = urlencode(settings, quote_via=quote)
    return f"{start}?{kept}" if kept else start, table


def _malformed(parameter: str, example: str) -> InvalidParameterError:
    return InvalidParameterError(f"{parameter} must be an address such as {example}: correct it.", parameter=parameter)


def _stays_here(host: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether a connection surely stays on this machine. A service may name any host."""
    if "service" in settings or "PGSERVICE" in environment:
        return False
    named = settings.get("host") or host or environment.get("PGHOST", "")
    numbers = settings.get("hostaddr") or environment.get("PGHOSTADDR", "")
    return all(_is_local(one) for one in (*named.split(","), *numbers.split(",")) if one)


def _is_local(host: str) -> bool:
    """Return whether a host is a socket in a folder or an address of this machine."""
    return host.startswith(("/", "@")) or is_here(f"tcp://{host}")
