"""A server of PostgreSQL for all tests of exports."""

import pytest

from tests import postgresql


@pytest.fixture(scope="session")
def postgres():
    if postgresql.programs() is None:
        pytest.skip("needs Debian's postgresql")
    pytest.importorskip("psycopg")
    server = postgresql.Server()
    yield server
    server.remove()
