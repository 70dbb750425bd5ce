"""Arrow streams: the release of `fit`, to the last bit, from any source that can be read again."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart
from dpensemble.errors import DataError, InvalidParameterError


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y"], 300), "who": np.arange(300) // 2})
    table["y"] = (table["a"] > 0).astype(int)
    return table[100:].reset_index(drop=True), table[:100][["a", "b"]]


def released(table, public, read=None):
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=2)
    if read is None:
        return (
            model.fit(table[["a", "b"]], table["y"], X_public=public, units=table["who"]).moments_[-1].values.tolist()
        )
    return model.fit_blocks(read, X_public=public, units=read.units).moments_[-1].values.tolist()


@pytest.mark.usefixtures("few_synthetic_rows")
def test_streams_release_what_a_table_releases(world):
    table, public = world
    arrow = pa.Table.from_pandas(table)
    for source in (arrow, lambda: arrow.to_reader(max_chunksize=33)):
        assert released(table, public, ArrowBlocks(source, "y", unit="who", rows=50)) == released(table, public)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_what_cannot_be_read_again_is_refused(world):
    table, _ = world
    with pytest.raises(InvalidParameterError, match="read only once"):
        ArrowBlocks(pa.Table.from_pandas(table).to_reader(), "y")
    with pytest.raises(InvalidParameterError, match="no Arrow stream"):
        ArrowBlocks([1, 2], "y")
    with pytest.raises(DataError, match="not one column"):
        ArrowBlocks(pa.Table.from_pandas(table), "z")


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize("first_executions", [2, 3])
def test_records_are_not_taken_for_those_of_other_units(world, first_executions):
    table, public = world
    arrow, others = pa.Table.from_pandas(table), pa.Table.from_pandas(table.iloc[::-1])
    executions = iter([arrow] * first_executions)
    read = ArrowBlocks(lambda: next(executions, others).to_reader(), "y", unit="who")
    with pytest.raises(DataError, match="order the query") as refusal:
        released(table, public, read)
    assert not any(character.isdigit() for character in str(refusal.value))


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_part_takes_rows_in_any_order(world):
    table, public = world
    arrow, others = pa.Table.from_pandas(table), pa.Table.from_pandas(table.iloc[::-1])
    executions = iter([arrow, others, arrow])
    part = ArrowPart(lambda: next(executions, others).to_reader(max_chunksize=33), "y", unit="who")
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=2)
    assert model.fit_blocks(part, X_public=public).moments_[-1].values.tolist() == released(table, public)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_part_whose_rows_change_is_refused(world):
    table, public = world
    arrow = pa.Table.from_pandas(table)
    executions = iter([arrow] * 3)
    part = ArrowPart(lambda: next(executions, arrow.slice(1)).to_reader(), "y", unit="who")
    model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=2)
    with pytest.raises(DataError, match="changed between two passes"):
        model.fit_blocks(part, X_public=public)


@pytest.mark.usefixtures("few_synthetic_rows")
def test_duckdb_and_polars(world):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table, public = world
    connection = duckdb.connect()
    connection.register("records", table)
    query = "select a, b, who, y from records"
    for source in (
        lambda: connection.sql(query).to_arrow_reader(64),
        polars.from_pandas(table),
        lambda: polars.from_pandas(table).lazy().collect(),
    ):
        assert released(table, public, ArrowBlocks(source, "y", unit="who")) == released(table, public)
