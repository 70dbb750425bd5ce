"""Addresses of tables in databases, which hold no passwords."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from dpensemble.clusters.vetting import is_here
from dpensemble.errors import InvalidParameterError

_ENCRYPTS = ("require", "verify-ca", "verify-full")


def file_and_table(text: str, scheme: str) -> tuple[Path, str]:
    """Return file and table of ``scheme:FILE:TABLE``."""
    file, _, table = text.removeprefix(scheme).rpartition(":")
    if not file or not table or file.startswith("//"):
        raise InvalidParameterError(
            f"private must name a file and a table of {scheme[:-1]}: write {scheme}FILE:TABLE.", parameter="private"
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
    def of(cls, text: str, environment: Mapping[str, str] = os.environ) -> PostgreSQLAddress:
        """Read ``postgresql://USER@HOST:PORT/DATABASE?table=TABLE``, with settings of libpq after ``&``.

        Raises
        ------
        InvalidParameterError
            If the address holds a password, names no table, or asks for a connection to another machine without
            encryption. Errors never repeat an address before it is known to hold no password.
        """
        try:
            parts = urlsplit(text)
            settings = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query), keep_blank_values=True))
            has_password = parts.password is not None
        except ValueError:
            raise _malformed() from None
        if has_password or "password" in settings or "sslpassword" in settings:
            raise InvalidParameterError(
                "private must not hold a password, because other users can see it in the list of processes: leave it "
                "out, and set PGPASSWORD or write ~/.pgpass.",
                parameter="private",
            )
        table = settings.pop("table", "")
        if not table or not text.startswith((f"{parts.scheme}://",)) or parts.fragment:
            raise _malformed()
        mode = settings.get("sslmode", environment.get("PGSSLMODE"))
        if not _stays_here(parts.netloc, settings, environment) and mode not in _ENCRYPTS:
            if mode is not None:
                raise InvalidParameterError(
                    f"sslmode={mode!r} would let private rows cross a network in the clear: write "
                    "sslmode=verify-full, or sslmode=require.",
                    parameter="private",
                )
            settings["sslmode"] = "require"
        start, query = text.partition("?")[0], urlencode(settings)
        return cls(f"{start}?{query}" if query else start, table)


def _malformed() -> InvalidParameterError:
    return InvalidParameterError(
        "private must be an address such as postgresql://USER@HOST/DATABASE?table=TABLE: correct it.",
        parameter="private",
    )


def _stays_here(netloc: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether a connection surely stays on this machine. A service may name any host."""
    if "service" in settings or "PGSERVICE" in environment:
        return False
    named = settings.get("host") or netloc.rpartition("@")[2] or environment.get("PGHOST", "")
    numbers = settings.get("hostaddr") or environment.get("PGHOSTADDR", "")
    return all(_is_local(host) for host in (*named.split(","), *numbers.split(",")) if host)


def _is_local(host: str) -> bool:
    """Return whether a host is a socket in a folder or an address of this machine."""
    return host.startswith(("/", "@", "%2F", "%2f")) or is_here(f"tcp://{host}")
