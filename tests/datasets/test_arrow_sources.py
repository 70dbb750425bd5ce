"""Addresses of databases: files and tables, no passwords, and encryption on the way to other machines."""

from pathlib import Path

import pytest

from dpensemble.datasets.arrow_sources import _file_and_table, _PostgreSQLAddress
from dpensemble.errors import InvalidParameterError

ELSEWHERE = "192.0.2.7"


def test_a_file_may_hold_colons():
    assert _file_and_table("duckdb:C:/data/a.duckdb:main.visits", "duckdb:") == (
        Path("C:/data/a.duckdb"),
        "main.visits",
    )


@pytest.mark.parametrize("text", ["duckdb:a.duckdb", "duckdb::visits", "duckdb:a.duckdb:", "duckdb://ann:hunter2@a:b"])
def test_a_file_and_a_table_are_needed(text):
    with pytest.raises(InvalidParameterError, match="write duckdb:FILE:TABLE") as refusal:
        _file_and_table(text, "duckdb:")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "environment", "uri"),
    [
        # Sockets and addresses of this machine need no encryption.
        ("postgresql:///clinic?table=a.t", {}, "postgresql:///clinic"),
        ("postgresql://ann@127.0.0.1:5433/clinic?table=a.t", {}, "postgresql://ann@127.0.0.1:5433/clinic"),
        ("postgresql://ann@%2Frun%2Fpg/clinic?table=a.t", {}, "postgresql://ann@%2Frun%2Fpg/clinic"),
        # Everything else does, also where the environment names the host.
        (f"postgresql://{ELSEWHERE}/clinic?table=a.t", {}, f"postgresql://{ELSEWHERE}/clinic?sslmode=require"),
        ("postgresql:///c?table=a.t", {"PGHOST": ELSEWHERE}, "postgresql:///c?sslmode=require"),
        ("postgresql://127.0.0.1/c?table=a.t", {"PGHOSTADDR": ELSEWHERE}, "postgresql://127.0.0.1/c?sslmode=require"),
        (f"postgresql:///c?table=a.t&host={ELSEWHERE}", {}, f"postgresql:///c?host={ELSEWHERE}&sslmode=require"),
        (
            "postgresql:///c?table=a.t&application_name=a%20b&host=%2Frun",
            {},
            "postgresql:///c?application_name=a%20b&host=%2Frun",
        ),
        ("postgresql:///c?table=a.t", {"PGSERVICE": "clinic"}, "postgresql:///c?sslmode=require"),
        # What encrypts already is left as it is.
        (f"postgresql://{ELSEWHERE}/c?table=a.t", {"PGSSLMODE": "verify-full"}, f"postgresql://{ELSEWHERE}/c"),
        (
            f"postgresql://{ELSEWHERE}/c?sslmode=verify-ca&table=a.t",
            {},
            f"postgresql://{ELSEWHERE}/c?sslmode=verify-ca",
        ),
    ],
)
def test_rows_are_encrypted_on_their_way_here(text, environment, uri):
    address = _PostgreSQLAddress.of(text, environment)
    assert (address.uri, address.table) == (uri, "a.t")


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        (f"postgresql://{ELSEWHERE}/c?table=t&sslmode=disable", {}),
        (f"postgresql://{ELSEWHERE}/c?table=t", {"PGSSLMODE": "prefer"}),
    ],
)
def test_a_connection_in_the_clear_is_refused(text, environment):
    with pytest.raises(InvalidParameterError, match="cross a network in the clear"):
        _PostgreSQLAddress.of(text, environment)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:hunter2@host/c?table=t",
        "postgresql://ann:@host/c?table=t",
        "postgresql://ann@host/c?table=t&password=hunter2",
        "postgresql://ann@host/c?table=t&sslpassword=hunter2",
        "postgresql://ann@host/c?hunter2",
        "postgresql:ann:hunter2@host/c?table=t",
        "postgresql://ann:hunter2@[host/c?table=t",
        "postgresql://ann@host/c#hunter2",
        # urlsplit ends the user at /, and libpq does not. A ? ends both.
        "postgresql://ann:hunter2/w0rd@localhost/c?table=t",
        "postgresql://ann:hunter2?w0rd@localhost/c?table=t",
        "postgresql://ann:hunter2@1@localhost/c?table=t",
        "postgresql://hunter2/x@localhost/c?table=t",
        "postgresql://localhost:hunter2/c?table=t",
        "postgresql://@hunter2/c?table=t",
        # Several hosts, also behind an escaped comma.
        f"postgresql://127.0.0.1,{ELSEWHERE}/c?table=t",
        "postgresql://%2Ftmp%2Cevil.example/c?table=t",
        "postgresql://u@evil.example,@localhost/c?table=t",
        "postgresql:///c?table=t&host=/tmp,evil.example",
    ],
)
def test_passwords_and_mistakes_are_refused_without_repeating_them(text):
    with pytest.raises(InvalidParameterError, match="private must") as refusal:
        _PostgreSQLAddress.of(text, {})
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("name", ["scram_client_key", "oauth_client_secret", "passfile", "options"])
def test_settings_that_may_hold_a_secret_are_refused(name):
    with pytest.raises(InvalidParameterError, match=f"must not set {name}") as refusal:
        _PostgreSQLAddress.of(f"postgresql://ann@localhost/c?table=t&{name}=hunter2", {})
    assert "hunter2" not in str(refusal.value)
