"""Sums over Spark Connect, on a real server of this host."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dpensemble.datasets.partitions import ParquetOnSpark, SparkParts, _require_encryption
from dpensemble.errors import DataError

from ..deadline import GUARD, until

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server(java, tmp_path_factory):
    """Yield address, process and folder of a server with encryption of its disks."""
    pyspark = pytest.importorskip("pyspark")
    for package in ("grpc", "grpc_status", "google.rpc"):
        pytest.importorskip(package, reason=f"Spark Connect needs {package}: pip install 'pyspark[connect]'")
    place, home, port = tmp_path_factory.mktemp("connect"), Path(pyspark.__file__).parent, free_port()
    if not list((home / "jars").glob("spark-connect*")):
        pytest.skip("pyspark is installed without the server of Spark Connect")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": place,
        "spark.eventLog.enabled": "true",
        "spark.io.encryption.enabled": "true",
        "spark.local.dir": place,
        "spark.sql.warehouse.dir": place / "warehouse",
        "spark.ui.enabled": "false",
    }
    command = [home / "bin" / "spark-submit", "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    own = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    with (place / "log").open("w") as log:
        process = subprocess.Popen([*map(str, command), "spark-internal"], env=own, cwd=place, stdout=log, stderr=log)
    try:
        wait_for(port, process)
        yield f"sc://127.0.0.1:{port}", place
    finally:
        process.terminate()
        process.wait()


def wait_for(port, process):
    def listens():
        try:
            socket.create_connection(("127.0.0.1", port), GUARD).close()
        except OSError:
            assert process.poll() is None, "the server ended"
            return False
        return True

    until(listens)


@pytest.fixture(scope="module")
def session(server):
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=server[0])
    yield session
    session.client.close()


def test_a_server_releases_what_one_process_releases(records, server, session):
    parts = SparkParts(session.read.parquet(str(records.folder)), "y", unit="who")
    assert records.values(parts) == records.expected
    assert records.values(ParquetOnSpark(session, records.folder, "y", unit="who")) == records.expected
    assert records.left_in(server[1]) == []


def test_rows_that_change_are_refused(records, session):
    def losing(batches):
        import random

        for batch in batches:
            yield batch.slice(random.SystemRandom().randrange(50))

    frame = session.read.parquet(str(records.folder))
    with pytest.raises(DataError, match="changed between two passes"):
        records.fitted(SparkParts(frame.mapInArrow(losing, frame.schema), "y", unit="who"))


def test_a_session_cannot_pretend_other_settings(session):
    session.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    session.conf.set("spark.io.encryption.enabled", "false")
    session.conf.set("spark.master", "spark://10.0.0.5:7077")
    try:
        assert session.conf.get("spark.io.encryption.enabled") == "false"
        # The server encrypts its disks, and is on this machine.
        _require_encryption(session, has_units=True)
    finally:
        for name in ("spark.io.encryption.enabled", "spark.master"):
            session.conf.unset(name)
