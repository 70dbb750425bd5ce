"""Predictions as columns of Spark and Dask: those of one machine, to the last bit."""

import os
import pickle
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpensemble import LabelMomentsClassifier, save_classifier
from dpensemble.datasets import load_adult, read_table
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.workflow import predict
from dpensemble.workflow.predict import dask_predictions, load_student, predictions, spark_predictions

CHANCES = ["probability_of_0", "probability_of_1"]


class Frame:
    """A DataFrame of Spark in this process, whose executors get pickled work."""

    def __init__(self, table, batch=70):
        self.table, self.batch = table, batch
        self.columns = table.schema.names
        self.schema = Schema()

    def mapInArrow(self, work, schema):  # noqa: N802
        copied = pickle.loads(pickle.dumps(work))  # noqa: S301  made here
        rows = pa.Table.from_batches(copied(iter(self.table.to_batches(max_chunksize=self.batch))))
        self.added = schema.added
        assert [*schema.added] == rows.schema.names[len(self.columns) :]
        return rows


class Schema:
    def __init__(self):
        self.added = {}

    def add(self, name, kind):
        self.added[name] = kind
        return self


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Return a folder with a student and rows, some of them odd, the student, and what one machine predicts."""
    folder = tmp_path_factory.mktemp("columns")
    adult = load_adult()
    labels = (adult.y == adult.classes[1]).astype(int)
    model = LabelMomentsClassifier(classes=[0, 1], rounds=1)
    model.fit(adult.X[:3000], labels[:3000], X_public=adult.X[3000:3300])
    save_classifier(model.student_, folder / "student.skops")
    rows = adult.X[4000:4250].reset_index(drop=True)
    rows.loc[3, "age"], rows.loc[4, "workclass"], rows.loc[5, "education"] = pd.NA, None, "unheard of"
    rows = rows[rows.columns[::-1]].assign(id=np.arange(len(rows)))
    rows.to_parquet(folder / "rows.parquet", index=False, row_group_size=90)
    table = pd.concat(predictions(load_student(folder / "student.skops"), folder / "rows.parquet", probabilities=True))
    expected = table[["label", "probability of 0", "probability of 1"]].to_numpy()
    return folder, model.student_, expected


def require_same(table, expected):
    table = table.sort_values("id")
    assert table[["label", *CHANCES]].to_numpy().tolist() == expected.tolist()
    assert table["label"].dtype.kind == "i"


@pytest.mark.parametrize("batch", [1000, 70])
def test_batches_get_the_columns_of_one_machine(world, batch):
    folder, student, expected = world
    frame = Frame(pq.read_table(folder / "rows.parquet"), batch)
    for one in (student, folder / "student.skops"):
        require_same(spark_predictions(one, frame, probabilities=True).to_pandas(), expected)
    assert spark_predictions(student, frame, label="risk").schema.names[-1] == "risk"


def test_a_batch_without_rows_has_the_same_types(world):
    folder, student, _ = world
    table = pq.read_table(folder / "rows.parquet")
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    predicted = predict._Predicted.of(student, table.schema.names, "label", True)
    some, none = (
        next(predict._with_columns(predicted, None, iter([batch])))
        for batch in (table.to_batches(max_chunksize=50)[0], empty)
    )
    assert none.schema.types == some.schema.types


def test_texts_and_floats_are_labels_too(world):
    folder, _, _ = world
    rows = pq.read_table(folder / "rows.parquet").select(["age", "sex"])
    private = rows.to_pandas().dropna()
    for classes, kind in ((["no", "yes"], "string"), ([1.0, 2.0], "double")):
        model = LabelMomentsClassifier(classes=classes, delta=1e-3, rounds=1)
        model.fit(private, np.array(classes)[private["age"].to_numpy() % 2], X_public=private[:50].copy())
        frame = Frame(rows)
        labels = spark_predictions(model.student_, frame)["label"].to_pylist()
        assert set(frame.added.values()) == {kind}
        assert labels == model.student_.predict(rows.to_pandas()).tolist()


def test_what_cannot_be_predicted_is_refused_before_any_job(world):
    folder, student, _ = world
    table = pq.read_table(folder / "rows.parquet")
    with pytest.raises(DataError, match=r"the table lacks the columns \['age'\]"):
        spark_predictions(student, Frame(table.drop_columns(["age"])))
    with pytest.raises(DataError, match="has other capitals or spaces"):
        spark_predictions(student, Frame(table.rename_columns({"age": "Age"})))
    with pytest.raises(InvalidParameterError, match="label='id' would add a column 'id'"):
        spark_predictions(student, Frame(table), label="id")
    taken = table.append_column("probability_of_0", table["age"])
    with pytest.raises(InvalidParameterError, match="'probability_of_0'"):
        spark_predictions(student, Frame(taken), probabilities=True)


def test_executors_with_other_versions_are_refused(world, monkeypatch):
    folder, student, _ = world
    frame = Frame(pq.read_table(folder / "rows.parquet"))
    monkeypatch.setattr(predict, "versions", lambda: {"python": "3.99"})
    with pytest.raises(DataError, match="so that predictions could differ"):
        spark_predictions(student, frame)
    assert spark_predictions(student, frame, other_versions=True).num_rows == 250


# Spark leaves sockets open.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.nightly
def test_spark_gives_the_columns_of_one_machine(world, monkeypatch):
    pyspark = pytest.importorskip("pyspark.sql")
    if not (os.environ.get("JAVA_HOME") or any(os.access(f"{p}/java", os.X_OK) for p in os.environ["PATH"].split(":"))):
        pytest.skip("Java is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    folder, student, expected = world
    builder = pyspark.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        frame = session.read.parquet(str(folder / "rows.parquet")).repartition(2)
        predicted = spark_predictions(student, frame, probabilities=True)
        assert predicted.columns[-3:] == ["label", *CHANCES]
        # The schema of the frame is as it was.
        assert "label" not in frame.columns
        # New columns are used like any others.
        some = predicted.where("label >= 0")
        require_same(pd.DataFrame(some.collect(), columns=some.columns), expected)
    finally:
        session.stop()


# Dask uses what pandas will remove.
@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_columns_of_one_machine(world):
    dataframe = pytest.importorskip("dask.dataframe")
    folder, student, expected = world
    frame = dataframe.from_pandas(read_table(folder / "rows.parquet"), npartitions=4)
    predicted = dask_predictions(student, frame, probabilities=True)
    assert list(predicted.columns[-3:]) == ["label", *CHANCES]
    require_same(predicted.compute(scheduler="synchronous"), expected)
    from_files = dataframe.read_parquet(folder / "rows.parquet")
    require_same(
        dask_predictions(folder / "student.skops", from_files, probabilities=True).compute(scheduler="synchronous"),
        expected,
    )
    # An empty partition has the same columns.
    none = dask_predictions(student, frame[frame["id"] < 0])
    assert (len(none.compute(scheduler="synchronous")), none["label"].dtype.kind) == (0, "i")
    with pytest.raises(DataError, match="lacks the columns"):
        dask_predictions(student, frame.drop(columns=["age"]))
