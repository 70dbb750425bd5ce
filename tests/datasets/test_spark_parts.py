"""What Spark must encrypt, without Spark. `tests/clusters` has the sums."""

import sys

import pandas as pd
import pytest

from dpensemble.datasets.partitions import ParquetOnSpark, SparkParts, spark_session
from dpensemble.errors import DataError, InvalidParameterError


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
