"""Real databases that run exported SQL."""

import sqlite3

from dpensemble.exports.dialects import DIALECTS


def created(dialect, table, rows):
    """Return statements that create a table for rows of objects, and one that inserts a row."""
    rules = DIALECTS[dialect]
    kinds = [
        rules.real if all(value is None or isinstance(value, float | int) for value in rows[name]) else rules.text
        for name in rows
    ]
    columns = ", ".join(f"{rules.identifier(name)} {kind}" for name, kind in zip(rows, kinds, strict=True))
    mark = "%s" if dialect == "postgresql" else "?"
    values = ", ".join([mark] * rows.shape[1])
    return (
        f"CREATE TABLE {rules.identifier(table)} ({columns})",
        f"INSERT INTO {rules.identifier(table)} VALUES ({values})",
    )


def answers(dialect, sql, table, rows, server=None):
    """Return the rows of a statement on a table, as dicts."""
    create, insert = created(dialect, table, rows)
    records = [tuple(row) for row in rows.itertuples(index=False)]
    if dialect == "sqlite":
        connection = sqlite3.connect(":memory:")
        connection.execute(create)
        connection.executemany(insert, records)
        cursor = connection.execute(sql)
    elif dialect == "duckdb":
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        connection.execute(create)
        frame = rows.infer_objects()  # noqa: F841
        connection.execute(insert.partition(" VALUES")[0] + " SELECT * FROM frame")
        cursor = connection.execute(sql)
    else:
        import psycopg

        connection = psycopg.connect(server.address, autocommit=True)
        connection.execute("SET jit = off")
        connection.execute(create)
        with connection.cursor() as cursor:
            cursor.executemany(insert, records)
        cursor = connection.execute(sql)
    names = [column[0] for column in cursor.description]
    found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if dialect == "postgresql":
        connection.execute(create.partition(" (")[0].replace("CREATE", "DROP"))
    connection.close()
    return found
