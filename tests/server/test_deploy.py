"""The shipped compose file: the service's role can charge, and can do nothing else to the ledger."""

import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from dpensemble.server import Ledger

from .conftest import votes

DEPLOY = Path(__file__).parents[2] / "deploy"


def addresses():
    """Return every address of a ledger that the shipped files name."""
    texts = [(DEPLOY / name).read_text() for name in ("compose.yaml", "config/service.toml")]
    return {one for text in texts for one in re.findall(r"postgresql://[^\s\"']+", text)}


def test_nothing_connects_as_the_superuser_or_over_a_network():
    compose = (DEPLOY / "compose.yaml").read_text()
    superuser = re.search(r"POSTGRES_USER: *(\S+)", compose)[1]
    assert addresses() == {
        f"postgresql://{user}@/dpensemble?host=/var/run/postgresql" for user in ("dpensemble", "dpensemble_owner")
    }
    assert superuser not in {re.search("//(.*)@", one)[1] for one in addresses()}
    assert "listen_addresses=" in compose
    assert "--auth-local=scram-sha-256" in compose


@pytest.fixture
def deployed(postgresql):
    """Run the shipped statements on a server, and return a function from a role to its address."""
    text = (DEPLOY / "database" / "roles.sql").read_text()
    script = postgresql.folder / "roles.sql"
    # The password is read by the server's user, who cannot enter the folder of this test.
    script.write_text(re.sub(r"`cat /run/secrets/\w+`", "'a password'", text))
    postgresql.run_sql(script)
    yield lambda role: f"postgresql://{role}@/postgres?host={postgresql.folder}&port={postgresql.port}"
    postgresql.clear()
    undo = postgresql.folder / "undo.sql"
    undo.write_text("DROP OWNED BY dpensemble, dpensemble_owner; DROP ROLE dpensemble, dpensemble_owner;")
    postgresql.run_sql(undo)


def test_the_services_role_charges_and_changes_nothing(deployed):
    owner = Ledger.create(deployed("dpensemble_owner"))
    owner.open_account("patients", epsilon=3, delta=1e-5)
    service = Ledger(deployed("dpensemble"))
    assert service.check() == []
    votes(service.account("patients").grant("g")).answer(counts=[50, 50], key="1")
    assert owner.verify().requests == 1
    address = deployed("dpensemble").replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(address, poolclass=NullPool)
    for statement in (
        "DROP TRIGGER dpensemble_entries_kept ON dpensemble_entries",
        "ALTER TABLE dpensemble_entries DISABLE TRIGGER ALL",
        "DELETE FROM dpensemble_entries",
        "UPDATE dpensemble_charges SET loss = 0",
        "TRUNCATE dpensemble_charges",
        "DROP TABLE dpensemble_charges",
        "CREATE TABLE mine (x int)",
        "SET ROLE dpensemble_owner",
        "SET session_replication_role = replica",
        "CREATE OR REPLACE FUNCTION dpensemble_kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    ):
        with engine.connect() as raw, pytest.raises(sa.exc.DatabaseError, match=r"denied|must be owner"):
            raw.exec_driver_sql(statement)
    with engine.connect() as raw:
        assert not raw.exec_driver_sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").scalar_one()
