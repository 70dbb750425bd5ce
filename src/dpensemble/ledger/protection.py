"""Triggers that refuse changed rows, existing keys, negative numbers, and entries that do not follow the newest one.

They stop mistakes, and users who may only insert rows. The chain, the witness and checkpoints detect changes by
somebody who may drop triggers.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

_KEPT = "rows of a ledger are never changed"
_KNOWN = "a ledger has a row with this key"
_NEGATIVE = "numbers of a ledger are whole and not negative"
_APART = "an entry of a ledger follows the newest one"


def checks(columns: Iterable[sa.Column[int]]) -> list[sa.CheckConstraint]:
    """Return constraints that forbid negative numbers in a new table."""
    return [sa.CheckConstraint(f"{column.name} >= 0") for column in columns]


def statements(table: sa.Table, dialect: str) -> dict[str, list[str]]:
    """Return the statements that create each trigger of a table, by the trigger's name."""
    return _sqlite(table) if dialect == "sqlite" else _postgresql(table)


def first_names(table: sa.Table, dialect: str) -> set[str]:
    """Return the names of the triggers in ledgers of the first version."""
    events = ("UPDATE", "DELETE") if dialect == "sqlite" else ("kept",)
    return {f"{table.name}_{event}" for event in events}


def installed(connection: sa.Connection) -> set[str]:
    """Return the names of all enabled triggers of the database."""
    if connection.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        query = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    return {name for (name,) in connection.exec_driver_sql(query)}


def _sqlite(table: sa.Table) -> dict[str, list[str]]:
    name = table.name
    statements_of = {
        f"{name}_{event}": [f"CREATE TRIGGER {name}_{event} BEFORE {event} ON {name} BEGIN {_aborted(_KEPT)} END"]
        for event in ("UPDATE", "DELETE")
    }
    rules = [f"{_aborted(_KNOWN)[:-1]} WHERE {_exists(table)};"]
    for column in _numbers(table):
        rules.append(f"{_aborted(_NEGATIVE)[:-1]} WHERE typeof(NEW.{column}) <> 'integer' OR NEW.{column} < 0;")
    if _is_chain(table):
        rules.append(f"{_aborted(_APART)[:-1]} WHERE {_is_apart(table)};")
    statements_of[f"{name}_INSERT"] = [
        f"CREATE TRIGGER {name}_INSERT BEFORE INSERT ON {name} BEGIN {' '.join(rules)} END"
    ]
    return statements_of


def _aborted(why: str) -> str:
    return f"SELECT RAISE(ABORT, '{why}');"


def _postgresql(table: sa.Table) -> dict[str, list[str]]:
    name = table.name
    rules = [(_KNOWN, _exists(table)), *((_NEGATIVE, f"NEW.{column} < 0") for column in _numbers(table))]
    if _is_chain(table):
        rules.append((_APART, _is_apart(table)))
    body = " ".join(f"IF {condition} THEN RAISE EXCEPTION '{why}'; END IF;" for why, condition in rules)
    return {
        f"{name}_kept": [
            "CREATE OR REPLACE FUNCTION dpensemble_kept() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_KEPT}'; END $$",
            f"CREATE OR REPLACE TRIGGER {name}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
            "FOR EACH STATEMENT EXECUTE FUNCTION dpensemble_kept()",
        ],
        f"{name}_added": [
            f"CREATE OR REPLACE FUNCTION {name}_added() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {body} RETURN NEW; END $$",
            f"CREATE OR REPLACE TRIGGER {name}_added BEFORE INSERT ON {name} "
            f"FOR EACH ROW EXECUTE FUNCTION {name}_added()",
        ],
    }


def _numbers(table: sa.Table) -> list[str]:
    return [column.name for column in table.columns if isinstance(column.type, sa.Integer)]


def _exists(table: sa.Table) -> str:
    """Return the condition that a new row has the primary key, or another unique key, of an existing row."""
    uniques = [one.columns for one in table.constraints if isinstance(one, sa.UniqueConstraint)]
    keys = [[column.name for column in columns] for columns in (table.primary_key.columns, *uniques)]
    same = sorted(" AND ".join(f"{name} = NEW.{name}" for name in key) for key in keys)
    return " OR ".join(f"EXISTS (SELECT 1 FROM {table.name} WHERE {one})" for one in same)  # noqa: S608 - names of our own


def _is_chain(table: sa.Table) -> bool:
    return "previous" in table.columns


def _is_apart(table: sa.Table) -> str:
    """Return the condition that a new entry does not follow the newest one."""
    newest = f"FROM {table.name} ORDER BY number DESC LIMIT 1"
    return (
        f"NEW.number <> COALESCE((SELECT number {newest}), 0) + 1 "
        f"OR NEW.previous <> COALESCE((SELECT hash {newest}), NEW.previous)"
    )
