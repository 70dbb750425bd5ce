"""The tables of a ledger. Rows are added and never changed."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from dpensemble.ledger import protection

METADATA = sa.MetaData()


def _table(name: str, *columns: Any) -> sa.Table:
    return sa.Table(f"dpensemble_{name}", METADATA, *columns)


_key, _text, _count = sa.String(200), sa.Text, sa.BigInteger
entries = _table(
    "entries",
    sa.Column("number", _count, primary_key=True, autoincrement=False),
    sa.Column("kind", _key, nullable=False),
    sa.Column("body", _text, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False, unique=True),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
)
accounts = _table(
    "accounts",
    sa.Column("data_set", _key, primary_key=True),
    sa.Column("whom", _key, primary_key=True),
    sa.Column("terms", _text, nullable=False),
)
charges = _table(
    "charges",
    sa.Column("number", _count, primary_key=True),
    sa.Column("data_set", _key, primary_key=True),
    sa.Column("whom", _key, primary_key=True),
    sa.Column("loss", _count, nullable=False),
    sa.Column("delta", _count, nullable=False),
)
grants = _table(
    "grants",
    sa.Column("data_set", _key, primary_key=True),
    sa.Column("name", _key, primary_key=True),
    sa.Column("settings", _text, nullable=False),
    sa.Column("answers", _count, nullable=False),
)
requests = _table(
    "requests",
    sa.Column("data_set", _key, primary_key=True),
    sa.Column("grant_name", _key, primary_key=True),
    sa.Column("request", _key, primary_key=True),
    sa.Column("votes", sa.String(64), nullable=False),
    sa.Column("total", _count, nullable=False),
    sa.Index("dpensemble_requests_total", "data_set", "grant_name", "total"),
    sa.UniqueConstraint("data_set", "grant_name", "total"),
)
answers = _table(
    "answers",
    sa.Column("data_set", _key, primary_key=True),
    sa.Column("grant_name", _key, primary_key=True),
    sa.Column("request", _key, primary_key=True),
    sa.Column("told", _text, nullable=False),
)
for _made in METADATA.tables.values():
    for _check in protection.checks(column for column in _made.columns if isinstance(column.type, sa.Integer)):
        _made.append_constraint(_check)
