"""What Spark must encrypt, parts on Spark, and the bar of a job by a tracker that plays one, all without Spark.

`tests/clusters` has the sums and real jobs.
"""

import sys
from threading import Event
from types import SimpleNamespace

import pandas as pd
import pytest

from dpensemble import show_progress
from dpensemble._work import passes_counted
from dpensemble.datasets import partitions
from dpensemble.datasets.partitions import (
    ParquetOnSpark,
    SparkParts,
    _partitions_shown,
    _require_encryption,
    spark_session,
)
from dpensemble.errors import DataError, InvalidParameterError

from ..deadline import GUARD

ALL = dict.fromkeys(("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"), "true")


class Classic:
    """A session in this process, whose context started with some settings."""

    def __init__(self, started, session=None):
        self.conf, self.sparkContext = session or {}, self
        self.getConf = lambda: started


class Client:
    """A client of a server of Spark Connect."""

    released = False

    def __init__(self, host, **parameters):
        self.host, self.parameters, self._builder, self._session_id = host, parameters, self, "named in the address"

    def getDefault(self, name, default):  # noqa: N802
        return self.parameters.get(name, default)

    def release_session(self):
        Client.released = self._session_id != "named in the address"

    def close(self):
        pass


class Connect:
    """A session of Spark Connect. A new one has the settings of the server."""

    server: dict[str, str] | None = {}  # noqa: RUF012

    def __init__(self, *, connection, session=None):
        self.client = Client(connection.host, **connection.parameters)
        self.conf = self.server if session is None else session


@pytest.mark.parametrize("missing", ALL)
@pytest.mark.parametrize("master", ["spark://10.0.0.5:7077", "local-cluster[2,1,1024]", "yarn", ""])
def test_clusters_encrypt_everything(missing, master):
    settings = ALL | {"spark.master": master}
    _require_encryption(Classic(settings), has_units=True)
    with pytest.raises(InvalidParameterError, match=missing):
        _require_encryption(Classic(settings | {missing: "false"}), has_units=False)
    # Those of the session came too late.
    del settings[missing]
    with pytest.raises(InvalidParameterError, match="start Spark again"):
        _require_encryption(Classic(settings, session=ALL), has_units=False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_this_machine_encrypts_disks_where_there_are_units(master):
    _require_encryption(Classic({"spark.master": master}), has_units=False)
    with pytest.raises(InvalidParameterError, match=r"spark\.io\.encryption\.enabled"):
        _require_encryption(Classic({"spark.master": master}), has_units=True)
    _require_encryption(Classic({"spark.master": master, "spark.io.encryption.enabled": "true"}), has_units=True)


def test_settings_of_the_server_count_and_not_those_of_a_session(monkeypatch):
    here = Client("127.0.0.1")
    monkeypatch.setattr(Connect, "server", {"spark.master": "spark://10.0.0.5:7077"})
    fooled = Connect(connection=here, session=ALL | {"spark.master": "local[2]"})
    with pytest.raises(InvalidParameterError, match="start Spark again"):
        _require_encryption(fooled, has_units=False)
    assert Client.released
    monkeypatch.setattr(Connect, "server", {"spark.master": "spark://10.0.0.5:7077"} | ALL)
    _require_encryption(Connect(connection=here, session={}), has_units=True)


@pytest.mark.parametrize("more", [{}, {"use_ssl": "false"}, {"token": "use_ssl=true"}])
def test_servers_on_other_machines_need_an_encrypted_channel(more, monkeypatch):
    monkeypatch.setattr(Connect, "server", {"spark.master": "local[2]"} | ALL)
    with pytest.raises(InvalidParameterError, match=r"'192\.0\.2\.9'.* in the clear"):
        _require_encryption(Connect(connection=Client("192.0.2.9", **more)), has_units=False)
    _require_encryption(Connect(connection=Client("192.0.2.9", **more | {"use_ssl": "TRUE"})), has_units=True)


def test_what_cannot_be_seen_is_refused(monkeypatch):
    session = Connect(connection=Client("localhost"))
    monkeypatch.setattr(Connect, "server", None)
    with pytest.raises(InvalidParameterError, match=r"could not be read \(AttributeError\)"):
        _require_encryption(session, has_units=False)
    del session.client._builder
    with pytest.raises(InvalidParameterError, match="shows its address"):
        _require_encryption(session, has_units=False)


class Frame:
    """A DataFrame of a session on this machine."""

    columns = ("x", "y", "who")
    dtypes = (("x", "double"), ("y", "int"), ("who", "bigint"))

    def __init__(self, **settings):
        self.sparkSession = self.sparkContext = self
        self._settings = {"spark.master": "local[2]"} | settings

    def getConf(self):  # noqa: N802
        return self

    def get(self, name, default):
        return self._settings.get(name, default)

    def select(self, *columns):
        return pd.DataFrame(columns=columns)


def test_units_reach_no_file_of_this_machine(tmp_path):
    written = tmp_path / "table.parquet"
    pd.DataFrame({"x": [1.0], "y": [0], "who": [1]}).to_parquet(written)
    # Hashes of 40,000 units make a task that Spark writes to a file.
    with pytest.raises(InvalidParameterError, match=r"spark\.io\.encryption\.enabled must be true"):
        SparkParts(Frame(), "y", unit="who")
    with pytest.raises(InvalidParameterError, match=r"spark\.io\.encryption\.enabled must be true"):
        ParquetOnSpark(Frame(), written, "y", unit="who")
    SparkParts(Frame(), "y")
    ParquetOnSpark(Frame(), written, "y")
    SparkParts(Frame(**{"spark.io.encryption.enabled": "true"}), "y", unit="who")


def test_units_of_a_type_with_several_forms_are_refused_by_the_schema():
    with pytest.raises(DataError, match="unit='x' has the type double"):
        SparkParts(Frame(**{"spark.io.encryption.enabled": "true"}), "y", unit="x")


@pytest.mark.parametrize("address", ["sc://192.0.2.9:15002", "sc://192.0.2.9:15002/;use_ssl=false;user_id=use_ssl"])
def test_sums_cross_no_network_in_the_clear(address):
    with pytest.raises(InvalidParameterError, match="in the clear"), spark_session(address):
        pass


def test_a_token_is_refused_without_repeating_it():
    address = "sc://192.0.2.9:15002/;use_ssl=true;token=hunter2"
    with pytest.raises(InvalidParameterError, match="must not hold a token") as refusal, spark_session(address):
        pass
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("address", ["sc://127.0.0.1:1", "sc://192.0.2.9:15002/;use_ssl=true"])
def test_encrypted_and_own_servers_are_tried(address, monkeypatch):
    # Without pyspark, nothing is reached.
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(InvalidParameterError, match="needs pyspark"), spark_session(address):
        pass


class Tracker:
    """A job of two stages. The second one has three tasks, and ends one at each look."""

    def __init__(self):
        self.done, self.over = 0, Event()

    def statusTracker(self):  # noqa: N802
        return self

    def getActiveStageIds(self):  # noqa: N802
        return [] if self.over.is_set() else [4, 7]

    def getStageInfo(self, stage):  # noqa: N802
        assert stage == 7
        self.done = min(3, self.done + 1)
        if self.done == 3:
            self.over.set()
        return SimpleNamespace(numTasks=3, numCompletedTasks=self.done)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(partitions, "_SECONDS", 0.001)


def test_tasks_of_the_last_stage_are_counted(capsys):
    tracker, counted = Tracker(), passes_counted(public=True)
    session = SimpleNamespace(sparkContext=tracker)
    with show_progress(), counted, _partitions_shown(SimpleNamespace(sparkSession=session)):
        assert tracker.over.wait(GUARD)
    assert "Checking records: 3 of 3 parts" in capsys.readouterr().err


def test_nothing_is_asked_without_bars_and_connect_shows_none(capsys):
    with _partitions_shown(None), show_progress(), _partitions_shown(SimpleNamespace()):
        pass
    assert capsys.readouterr().err == ""


class Broken(Tracker):
    def getStageInfo(self, stage):  # noqa: N802
        self.over.set()
        raise OSError(stage)


def test_an_error_of_the_tracker_does_not_end_the_job():
    tracker = Broken()
    with show_progress(), _partitions_shown(SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=tracker))):
        assert tracker.over.wait(GUARD)
