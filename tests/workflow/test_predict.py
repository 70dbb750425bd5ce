"""From a messy table to predictions on new rows, in chunks, as `predict` gives them.

Predictions as columns of Spark and Dask are those of one machine, to the last bit.
"""

import json
import os
import pickle
import sqlite3
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpensemble import LabelMomentsClassifier, SubsampleAggregateClassifier, save_classifier
from dpensemble.cli import main
from dpensemble.datasets import arrow_sources, load_adult, read_table
from dpensemble.datasets.arrow_sources import _ArrowFile
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.workflow import ReadOptions, TableFiles, file_tables, predict, train
from dpensemble.workflow.outputs import write_outcome
from dpensemble.workflow.predict import dask_predictions, load_student, predictions, spark_predictions

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")


def messy(n, seed):
    """Rows with blanks, dates, text, an id, and several rows a person."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n).astype(float)
    table = pd.DataFrame(
        {
            "patient_id": [f"P{seed}{i // 3}" for i in range(n)],
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "ward": rng.choice(np.array(["A", "B", None], dtype=object), n),
            "admitted": (pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")).strftime(
                "%d.%m.%Y"
            ),
            "remark": [f"note {i} of {seed}" for i in range(n)],
        }
    )
    table["sick"] = np.where(age + rng.normal(0, 8, n) > 55, "yes", "no")
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and runs of a method that takes tables and of one that votes."""
    place = tmp_path_factory.mktemp("messy")
    messy(900, 1).to_csv(place / "private.csv", index=False)
    messy(300, 2).to_csv(place / "public.csv", index=False)
    messy(250, 3).drop(columns="sick").to_csv(place / "new.csv", index=False)
    files = TableFiles(
        private=place / "private.csv",
        public=place / "public.csv",
        target="sick",
        classes=["no", "yes"],
        unit="patient_id",
    )
    tables = file_tables(files, ReadOptions(blanks=True))
    for name, model, fill in (
        ("moments", LabelMomentsClassifier(epsilon=5, delta=1e-4), False),
        ("votes", SubsampleAggregateClassifier(n_teachers=20, epsilon=5, delta=1e-4), True),
    ):
        (place / name).mkdir()
        write_outcome(train(tables, model, fill=fill), place / name)
    return place


@pytest.mark.parametrize("run", ["moments", "votes"])
def test_new_rows_with_blanks_get_labels_that_follow_their_age(folder, run):
    rows = pd.read_csv(folder / "new.csv")
    (found,) = predictions(load_student(folder / run), folder / "new.csv", keep=["patient_id"], probabilities=True)
    assert list(found) == ["row", "patient_id", "label", "probability of no", "probability of yes"]
    assert found["patient_id"].tolist() == rows["patient_id"].tolist()
    assert np.mean((rows["age"] > 55) == (found["label"] == "yes")) > 0.75


@pytest.mark.parametrize("run", ["moments", "votes"])
def test_chunks_are_as_good_as_the_whole(folder, run):
    student = load_student(folder / run / "student.skops")
    (whole,) = predictions(student, folder / "new.csv", probabilities=True)
    parts = list(predictions(student, folder / "new.csv", probabilities=True, at_once=70))
    assert len(parts) == 4
    pd.testing.assert_frame_equal(pd.concat(parts), whole, check_index_type=False)


def address_of(kind, place, postgresql):
    """Return where a kind of source holds the rows of new.csv."""
    rows = pd.read_csv(place / "new.csv")
    if kind == "arrow":
        # Batches of other sizes than the chunks that are classified.
        batches = pa.Table.from_pandas(rows).to_batches(max_chunksize=33)
        with pa.ipc.new_file(str(place / "new.arrow"), batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return str(place / "new.arrow")
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        (place / "new.duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(place / "new.duckdb")) as connection:
            connection.execute("create table arrivals as select * from rows")
        return f"duckdb:{place / 'new.duckdb'}:arrivals"
    if kind == "sqlite":
        pytest.importorskip("adbc_driver_sqlite")
        connection = sqlite3.connect(place / "new.db")
        rows.to_sql("arrivals", connection, index=False, if_exists="replace")
        connection.close()
        return f"sqlite:{place / 'new.db'}:arrivals"
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    address = postgresql().address
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("arrivals", pa.Table.from_pandas(rows))
        connection.commit()
    return f"{address}?table=arrivals"


@pytest.mark.parametrize("run", ["moments", "votes"])
@pytest.mark.parametrize("kind", ["arrow", "duckdb", "sqlite", "postgresql"])
def test_a_database_or_an_arrow_file_gets_the_labels_of_a_csv_file(folder, run, kind, request):
    student = load_student(folder / run)
    address = address_of(kind, folder, lambda: request.getfixturevalue("postgresql"))
    wanted = {"keep": ["patient_id", "ward"], "probabilities": True}
    (expected,) = predictions(student, folder / "new.csv", **wanted)
    parts = list(predictions(student, address, at_once=70, **wanted))
    assert [len(part) for part in parts] == [70, 70, 70, 40]
    # Older versions of pandas keep two kinds of blanks.
    found, expected = (table.fillna({"ward": "blank"}) for table in (pd.concat(parts), expected))
    pd.testing.assert_frame_equal(found, expected, check_index_type=False)


def test_a_source_without_the_rows_is_refused(folder, tmp_path, capsys):
    def refused(address, *more):
        assert main(["predict", str(folder / "moments"), str(address), *more]) == 2
        return capsys.readouterr().err

    table = pa.table({"age": [30.0], "ward": ["A"], "admitted": ["1.1.2023"]})
    for rows, name in ((table.select(["age"]), "few.arrow"), (table.slice(0, 0), "empty.arrow")):
        with pa.ipc.new_file(str(tmp_path / name), rows.schema) as writer:
            writer.write_table(rows)
    assert "lacks the columns ['ward', 'admitted']" in refused(tmp_path / "few.arrow")
    assert "has no rows" in refused(tmp_path / "empty.arrow")
    assert "holds the rows to classify" in refused(tmp_path / "few.arrow", "--out", str(tmp_path / "few.arrow"))
    assert "there is no such file" in refused(tmp_path / "none.arrow")
    assert "rows must name a file and a table of sqlite" in refused("sqlite:clinic.db")
    shown = refused("postgresql://ann:hunter2@host/clinic?table=new")
    assert "rows must not hold a password" in shown
    assert "hunter2" not in shown
    assert "call predict of the student in Python" in refused("snowflake://ann@account")
    assert "call spark_predictions in Python" in refused("spark:visits")


def test_a_stream_that_breaks_does_not_quote_its_rows(folder, tmp_path, monkeypatch):
    class Broken(_ArrowFile):
        def stream(self, columns):
            yield pa.record_batch({"age": [30.0]})
            raise ValueError("the row of Ann")

    monkeypatch.setitem(arrow_sources._FILES, ".arrow", lambda _: Broken("new.arrow", ["age", "ward", "admitted"], ()))
    with pytest.raises(DataError, match=r"new.arrow cannot be read to its end \(ValueError\)"):
        list(predictions(load_student(folder / "moments"), "new.arrow"))


@pytest.mark.parametrize(
    ("rows", "out"),
    [
        ("sqlite:{}/new.db:new", "new.db"),
        ("sqlite:{}/new.db:new", "new.db-wal"),
        ("duckdb:{}/new.db:new", "new.db.wal"),
        ("sqlite:{}/link.db:new", "new.db-journal"),
        ("{}/parts", "parts/a.parquet"),
        ("{}/parts", "parts/new/b.csv"),
    ],
)
def test_rows_are_not_overwritten(folder, tmp_path, capsys, rows, out):
    (tmp_path / "parts" / "new").mkdir(parents=True)
    (tmp_path / "link.db").symlink_to(tmp_path / "new.db")
    place = tmp_path / out
    place.write_bytes(b"rows")
    assert main(["predict", str(folder / "moments"), rows.format(tmp_path), "--out", str(place)]) == 2
    assert "holds the rows to classify" in capsys.readouterr().err
    assert place.read_bytes() == b"rows"


def test_settings_of_csv_are_refused_for_other_rows(folder, tmp_path):
    for settings in ({"sep": ";"}, {"decimal": ","}, {"multiline_text": True}):
        with pytest.raises(InvalidParameterError, match="is for CSV files"):
            list(predictions(load_student(folder / "moments"), "new.arrow", **settings))


def test_a_column_with_other_capitals_is_named(folder, tmp_path):
    table = pa.Table.from_pandas(pd.read_csv(folder / "new.csv").rename(columns={"age": "AGE"}))
    with pa.ipc.new_file(str(tmp_path / "capitals.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"capitals.arrow lacks .*'age' has other capitals"):
        list(predictions(load_student(folder / "moments"), tmp_path / "capitals.arrow"))


def test_an_error_ends_the_connection(folder, monkeypatch):
    ended = []

    class Rows(_ArrowFile):
        def stream(self, columns):
            try:
                yield pa.record_batch({"age": ["no number"], "ward": ["A"], "admitted": ["1.1.2023"]})
            finally:
                ended.append(True)

    names = ["age", "ward", "admitted"]
    monkeypatch.setitem(arrow_sources._FILES, ".arrow", lambda _: Rows("new.arrow", names, ()))
    with pytest.raises(DataError, match="not numbers") as error:
        list(predictions(load_student(folder / "moments"), "new.arrow", at_once=1))
    # The error still holds the frames of its traceback.
    assert (ended, error.traceback[-1] is not None) == ([True], True)


def test_on_the_command_line(folder, tmp_path, capsys):
    rows = folder / "new.csv"
    assert main(["predict", str(folder / "votes"), str(rows), "--keep", "patient_id,age", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert set(first[0]) == {"row", "patient_id", "age", "label"}
    assert None in [one["age"] for one in first]
    out = tmp_path / "out.csv"
    assert main(["predict", str(folder / "votes"), str(rows), "--proba", "--out", str(out)]) == 0
    assert list(pd.read_csv(out)) == ["row", "label", "probability of no", "probability of yes"]
    pd.read_csv(rows).to_csv(tmp_path / "new.csv", sep=";", decimal=",", index=False)
    assert main(["predict", str(folder / "votes"), str(tmp_path / "new.csv"), "--decimal", ","]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"{one['row']},{one['label']}" for one in first]


def test_nothing_is_written_where_a_later_chunk_is_bad(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dpensemble.workflow.predict.ROWS_AT_ONCE", 50)
    table = pd.read_csv(folder / "new.csv", dtype=str)
    table.loc[240, "age"] = "old"
    table.to_csv(tmp_path / "bad.csv", index=False)
    for more in ([], ["--out", str(tmp_path / "out.csv")], ["--json"]):
        assert main(["predict", str(folder / "votes"), str(tmp_path / "bad.csv"), *more]) == 2
        out, errors = capsys.readouterr()
        assert (out, errors.count("\n")) == ("", 1)
        assert "first in row 240, counting from 0" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_each_row_is_explained(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dpensemble.workflow.predict._ROWS_AT_ONCE", 40)
    rows, out, plot = str(folder / "new.csv"), tmp_path / "out.csv", tmp_path / "row.svg"
    options = ["--keep", "patient_id", "--proba", "--explain", "--json", "--out", str(out)]
    assert (
        main(["predict", str(folder / "moments"), rows, *options, "--explain-plot", str(plot), "--explain-row", "97"])
        == 0
    )
    found, written = json.loads(capsys.readouterr().out), pd.read_csv(out)
    names = ["age", "ward", "admitted"]
    assert list(written)[5:] == ["explained class", "logit", "base", *(f"contribution of {name}" for name in names)]
    parts = written[[f"contribution of {name}" for name in names]].sum(axis=1)
    np.testing.assert_allclose(written["base"] + parts, written["logit"], atol=1e-9)
    yes = written["probability of yes"]
    np.testing.assert_allclose(np.log(yes / (1 - yes)), written["logit"], atol=1e-3)
    assert set(found[97]) == {"row", "patient_id", "label", "probability of no", "probability of yes", "explanation"}
    reasons = found[97]["explanation"]
    assert set(reasons) == {"class", "logit", "base", "reference", "attribution", "contributions"}
    assert {part["column"] for part in reasons["contributions"]} == set(names)
    assert reasons["logit"] == pytest.approx(written["logit"][97], abs=1e-9)
    assert f"{reasons['contributions'][0]['contribution']:+.2f}".replace("-", "−") in plot.read_text(encoding="utf-8")
    assert main(["predict", str(folder / "moments"), rows, "--explain-plot", str(plot)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "row,label"
    assert main(["predict", str(folder / "moments"), rows, "--explain"]) == 0
    assert (
        capsys.readouterr().out.splitlines()[0].startswith("row,label,explained class,logit,base,contribution of age")
    )


@pytest.mark.parametrize(
    ("run", "more", "text"),
    [
        ("votes", ["--explain"], "explain cannot divide the predictions of a LogisticRegression among columns"),
        ("moments", ["--explain-plot", "row.png"], "must be a file of its own that ends in .svg; got 'row.png'"),
        ("moments", ["--explain-plot", "no/row.svg"], "must be a file in an existing folder"),
        ("moments", ["--explain-plot", "row.svg", "--explain-row", "250"], "is not a row of the table"),
        ("moments", ["--explain-plot", "row.svg", "--explain-row", "-1"], "is not an integer from 0"),
        ("moments", ["--explain", "--keep", "logit"], "keep='logit' is also a column of the result"),
    ],
)
def test_bad_explanations_leave_nothing_behind(folder, tmp_path, capsys, monkeypatch, run, more, text):
    monkeypatch.chdir(tmp_path)
    pd.read_csv(folder / "new.csv").assign(logit=1).to_csv("new.csv", index=False)
    assert main(["predict", str(folder / run), "new.csv", *more]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 1)
    assert text in errors
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_bad_input(folder, tmp_path):
    student = load_student(folder / "votes")
    (tmp_path / "broken.skops").write_bytes(b"PK\3\4 no")
    for path, text in (
        (tmp_path, "holds no student.skops: give the folder of a run"),
        (tmp_path / "none.skops", "there is no such file"),
        (tmp_path / "broken.skops", "it is broken, or not such a file"),
    ):
        with pytest.raises(FileError, match=text):
            load_student(path)
    rows = pd.read_csv(folder / "new.csv")
    rows.rename(columns={"age": " Age"}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError, match=r"lacks the columns \['age'\] .* 'age' has other capitals or spaces"):
        list(predictions(student, tmp_path / "other.csv"))
    with pytest.raises(InvalidParameterError, match="keep='shoe' is not a column"):
        list(predictions(student, folder / "new.csv", keep=["shoe"]))
    rows.assign(label=1).to_csv(tmp_path / "label.csv", index=False)
    with pytest.raises(InvalidParameterError, match="keep='label' is also a column of the result"):
        list(predictions(student, tmp_path / "label.csv", keep=["label"]))
    (tmp_path / "empty.csv").write_text(",".join(rows.columns) + "\n")
    with pytest.raises(DataError, match="has no rows"):
        list(predictions(student, tmp_path / "empty.csv"))


@pytest.mark.parametrize("run", ["moments", "votes"])
def test_entries_that_the_student_has_no_place_for_are_counted(folder, tmp_path, run, capsys):
    table = pd.read_csv(folder / "new.csv", dtype=str)
    table["ward"] = table["ward"].fillna("A")
    table.loc[:6, "admitted"] = "last May"
    table.loc[10:12, "admitted"] = None
    table.loc[20:24, "ward"] = "Intensive"
    table.to_csv(tmp_path / "odd.csv", index=False)
    for more in (["--json"], ["--out", str(tmp_path / "out.csv")]):
        assert main(["predict", str(folder / run), str(tmp_path / "odd.csv"), *more]) == 0
        errors = capsys.readouterr().err
        assert errors.startswith("dpensemble: note: of 250 rows some have a date that cannot be read in 'admitted' (7)")
        assert "new or rare to the student in 'ward' (5), which counts as any other" in errors
        assert "last May" not in errors
        assert "Intensive" not in errors
    assert main(["predict", str(folder / run), str(folder / "new.csv")]) == 0
    assert capsys.readouterr().err == ""


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
