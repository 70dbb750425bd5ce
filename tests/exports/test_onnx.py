"""ONNX models give what students give, in onnxruntime: every kind of student, column and blank, to 1e-6."""

import json
import re
import sys
import zipfile
from dataclasses import dataclass, replace
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble import load_classifier
from dpensemble.cli import main
from dpensemble.datasets.preparation import blanked
from dpensemble.errors import InvalidParameterError
from dpensemble.exports.description import Column, Description, Piece, Table, described
from dpensemble.exports.onnx import OUTPUTS, _Date, _Graph, as_onnx

# Students with seeded noise, which make every test the same each time.
pytestmark = pytest.mark.filterwarnings("ignore::dpensemble.errors.NotForReleaseWarning")
CLOSE = 1e-6
pytest.importorskip("onnx")
SESSIONS = pytest.importorskip("onnxruntime")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A student to train: how many columns of each kind, and how they are read."""

    n_private: int = 900
    n_public: int = 320
    classes: tuple[str, ...] = ("no", "yes")
    numbers: int = 2
    texts: int = 1
    #: Formats of columns of dates.
    dates: tuple[str, ...] = ()
    #: Declared columns instead of public rows.
    declared: bool = False
    #: Whether numbers lie on a curve, so that landmarks stand for rows.
    curved: bool = False
    #: Whether some entries are blank, and whether 99 and "?" are declared as blanks.
    blanks: bool = False
    declared_blanks: bool = False
    written: bool = False
    units: bool = False
    layers: str = ""


class Rows:
    """Rows of a case: as the student's files have them, and as the inputs of a model."""

    def __init__(self, case, n_rows, seed, *, new=False):
        rng = np.random.default_rng(seed)
        self.case, self.files, self.inputs = case, {}, {}
        along = rng.uniform(-3, 3, size=n_rows)
        for place in range(case.numbers):
            values = np.sin((place + 1) * along) if case.curved else along * (place % 2) + rng.normal(size=n_rows)
            values = np.round(values + 0.05 * rng.normal(size=n_rows), 3) * (1.5 if new else 1.0)
            if case.declared_blanks:
                values[rng.random(n_rows) < 0.05] = 99.0
            self._add(f"number {place}", values, rng, np.nan)
        for place in range(case.texts):
            names = np.array(
                [*("abcdefgh"[: 3 + place]), 'it\'s "ü"; ', *(["new", "New one"] if new else [])], dtype=object
            )
            texts = names[rng.integers(len(names), size=n_rows)]
            if case.declared_blanks:
                texts[rng.random(n_rows) < 0.05] = "?"
            self._add(f"text {place}", texts, rng, "")
        for place, form in enumerate(case.dates):
            self._add_dates(f"date {place}", form, rng, n_rows, new=new)
        if case.written:
            values = np.round(rng.uniform(0, 5000, size=n_rows), 2)
            self._add("written", values, rng, np.nan)
            self.files["written"] = np.array(
                [
                    "" if np.isnan(x) else f"{x:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")
                    for x in self.inputs["written"]
                ],
                dtype=object,
            )
        score = along + (0 if not case.texts else np.char.equal(self.inputs["text 0"].astype(str), "a") * 2)
        ranks = np.argsort(np.argsort(score)) * len(case.classes) // n_rows
        self.labels = np.array(case.classes, dtype=object)[ranks]

    def _add(self, name, values, rng, blank):
        if self.case.blanks:
            values[rng.random(len(values)) < 0.1] = blank
        self.inputs[name] = values
        self.files[name] = np.where(pd.isna(values), "", values.astype(object)) if values.dtype == float else values

    def _add_dates(self, name, form, rng, n_rows, *, new):
        days = pd.Timestamp("1990-02-20") + pd.to_timedelta(
            rng.integers(9000 * (2 if new else 1), size=n_rows), unit="D"
        )
        iso, written = (days.strftime(one).to_numpy(dtype=object) for one in ("%Y-%m-%d", form))
        if self.case.blanks:
            odd = rng.random(n_rows) < 0.1
            iso[odd] = written[odd] = ""
        if new:
            # No dates, and times that are ignored.
            wrong = rng.random(n_rows) < 0.1
            iso[wrong], written[wrong] = "2023-02-29", "unknown"
            timed = (rng.random(n_rows) < 0.1) & (iso != "")
            iso[timed] += np.where(rng.random(timed.sum()) < 0.5, "T12:30:00", " 12:30")
        self.inputs[name], self.files[name] = iso, written

    def write(self, path, *, target):
        table = pd.DataFrame(self.files)
        if target:
            table["y"] = self.labels
            if self.case.units:
                table["person"] = np.arange(len(table)) // 2
        table.to_csv(path, index=False)
        return path

    def frame(self):
        """Return the table that the student reads."""
        columns = {}
        for name, values in self.files.items():
            as_numbers = self.inputs[name].dtype == float and name != "written"
            columns[name] = self.inputs[name] if as_numbers else np.where(values == "", None, values)
        return pd.DataFrame(columns)


def trained(case, folder):
    """Train a student and return the folder of its run."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = Rows(case, case.n_private, 1)
    command = ["train", "label-moments", "--private", str(rows.write(folder / "private.csv", target=True))]
    public = Rows(case, case.n_public, 2)
    if case.declared:
        declared = {
            name: [-4.0, 4.0] if values.dtype == float else sorted({"a", "b", "c"})
            for name, values in public.inputs.items()
        }
        (folder / "declared.json").write_text(json.dumps(declared))
        command += ["--declared-columns", str(folder / "declared.json")]
    else:
        command += ["--public", str(public.write(folder / "public.csv", target=False))]
    command += ["--target", "y", "--classes", ",".join(case.classes), "--delta", "1e-4", "--seed", "0", "--quiet"]
    command += ["--unit", "person"] if case.units else []
    if case.declared_blanks:
        command += ["--blank", "?,99"]
    assert main([*command, "--insecure-release-seed", "0", "--out", str(folder / "run")]) == 0
    return folder / "run"


def session(content):
    options = SESSIONS.SessionOptions()
    options.intra_op_num_threads = 1
    return SESSIONS.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def predicted(model, rows, size=1000):
    """Return labels, probabilities and guarantees of rows, in batches."""
    n_rows = len(next(iter(rows.values())))
    names = [one.name for one in model.get_inputs()]
    batches = [
        model.run(None, {name: rows[name][start : start + size, None] for name in names})
        for start in range(0, n_rows, size)
    ]
    return [np.concatenate(part) for part in zip(*batches, strict=True)]


def compare(run, rows):
    """Compare a model with its student on rows, and return the largest difference."""
    student = load_classifier(run / "student.skops")
    labels, chances, guarantees = predicted(session(as_onnx(described(run))), rows.inputs)
    expected = student.predict_proba(rows.frame())
    assert np.ptp(expected[:, 0]) > 0.1, "the student must distinguish rows"
    difference = float(np.abs(chances - expected).max())
    assert difference <= CLOSE
    near = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] < 2 * CLOSE
    assert (near | (labels == student.predict(rows.frame()).astype(str))).all()
    assert len(set(guarantees.tolist())) == 1
    return difference


def layers(run):
    """Return the names of a student's layers."""
    return " ".join(
        type(one.layer).__name__ + (f"({type(one.layer.base).__name__})" if hasattr(one.layer, "base") else "")
        for one in described(run).pieces
    )


CASES = {
    "two numbers": Case(layers="Directions(Table)"),
    "blanks": Case(blanks=True, texts=2, layers="Directions(Table)"),
    "four classes": Case(blanks=True, texts=2, classes=("1", "2", "3", "10"), units=True),
    "declared blanks": Case(declared_blanks=True, blanks=True, texts=2),
    "dates": Case(dates=("%Y-%m-%d", "%d.%m.%Y"), blanks=True),
    "dates only": Case(dates=("%d/%m/%Y", "%B %d, %Y"), numbers=0, texts=0),
    "written numbers": Case(written=True, blanks=True),
    "units": Case(units=True, n_private=1400, texts=3),
    "texts only": Case(numbers=0, texts=3, blanks=True),
    "one number": Case(numbers=1, texts=0),
    "three classes": Case(classes=("a", "b", "c"), n_private=4000, layers="Table"),
    "five classes": Case(classes=tuple("vwxyz"), blanks=True),
    "class with quotation marks": Case(classes=("it's", 'a "b"')),
    "declared columns": Case(declared=True, layers="Table"),
    "many columns": Case(numbers=70, texts=4, layers="Directions(Table)"),
    "curved": Case(curved=True, numbers=3, texts=0, n_private=5200, n_public=1200, layers="Kernel Directions(Table)"),
    "curved with blanks": Case(curved=True, numbers=3, texts=0, n_private=5200, n_public=1200, blanks=True),
    "curved, three classes": Case(
        curved=True, numbers=2, texts=0, n_private=5200, n_public=1200, classes=("a", "b", "c")
    ),
    "nearness": Case(
        curved=True, numbers=3, texts=1, n_private=5200, n_public=1200, layers="Directions(Nearness) Directions(Table)"
    ),
    "nearness, dates and blanks": Case(
        curved=True, numbers=4, texts=1, dates=("%d %b %Y",), blanks=True, n_private=5200, n_public=1200
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_student_gives_the_same_on_ten_thousand_rows(name, tmp_path):
    case = CASES[name]
    run = trained(case, tmp_path)
    assert case.layers in ("", layers(run))
    compare(run, Rows(case, 10_000, 3, new=True))


# Students of label moments on tables, of every kind of map, that earlier versions saved.
ARCHIVES = sorted((Path(__file__).parents[1] / "compatibility").glob("students-*.zip"))
NEWEST = next(place for place in ARCHIVES if place.stem == "students-2026-11-b")
KINDS = [
    "command line, label-moments",
    "label-moments",
    "label-moments, few public rows",
    "label-moments, three classes",
    "label-moments, directions",
    "label-moments, curved",
]
LATER = ["label-moments, directions of columns", "label-moments, mixed columns"]
STUDENTS = [(place, name) for place in ARCHIVES for name in KINDS] + [(NEWEST, name) for name in LATER]


def saved(folder, archive, name):
    """Write a saved student to a folder, and return its path and some rows."""
    with zipfile.ZipFile(archive) as opened:
        (folder / "student.skops").write_bytes(opened.read(f"{name}.skops"))
        rows = json.loads(opened.read("expected.json"))["students"][name]["rows"]
    return folder / "student.skops", pd.DataFrame(**rows)


@pytest.fixture
def mixed(tmp_path):
    """Return a saved student of numbers and texts, and rows."""
    return saved(tmp_path, NEWEST, "label-moments, mixed columns")


def around(rows, n_rows=300):
    """Return random rows with entries like those of some rows, with blanks, far numbers and new texts."""
    rng, columns = np.random.default_rng(0), {}
    for name, column in rows.items():
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(float)[rng.integers(len(rows), size=n_rows)]
            values = values * rng.normal(1, 0.5, size=n_rows) + rng.normal(size=n_rows)
            values[:6] = [1e300, -1e300, np.inf, -np.inf, 0.0, -0.0]
            columns[name] = np.where(rng.random(n_rows) < 0.1, np.nan, values)
        else:
            names = np.array([*column.dropna().unique(), "", "new", " a ", "A", "ä\u0308"], dtype=object)
            columns[name] = names[rng.integers(len(names), size=n_rows)]
    return columns


def as_frame(columns):
    return pd.DataFrame(
        {
            name: np.where(values == "", None, values) if values.dtype == object else values
            for name, values in columns.items()
        }
    )


@pytest.mark.parametrize(("archive", "name"), STUDENTS, ids=[f"{place.stem}-{name}" for place, name in STUDENTS])
def test_a_student_of_an_earlier_version_gives_the_same(tmp_path, archive, name):
    path, rows = saved(tmp_path, archive, name)
    columns = around(rows)
    student = load_classifier(path)
    labels, chances, _ = predicted(session(as_onnx(described(path))), columns)
    expected = student.predict_proba(as_frame(columns))
    assert np.abs(chances - expected).max() <= CLOSE
    assert np.ptp(expected) > 0.05
    assert (labels == student.predict(as_frame(columns)).astype(str)).all()


@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_any_number_of_rows_is_taken(mixed, n_rows):
    path, rows = mixed
    columns = {name: values[:n_rows, None] for name, values in around(rows).items()}
    labels, chances, guarantees = session(as_onnx(described(path))).run(None, columns)
    assert labels.shape == guarantees.shape == (n_rows,)
    assert chances.shape == (n_rows, 2)


def test_metadata_describe_the_model(mixed):
    path, rows = mixed
    student = replace(
        described(path),
        classes=("it's", 'a "b"'),
        guarantee=("Epsilon is 1.", "Really."),
        for_release=False,
        title="Äpfel",
        created="2026-11-01",
    )
    model = session(as_onnx(student))
    about = model.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["it's", 'a "b"']
    assert (about["guarantee"], about["title"], about["created"]) == ("Epsilon is 1. Really.", "Äpfel", "2026-11-01")
    assert about["for_release"] == "false"
    assert about["not_for_release"].startswith("NOT FOR RELEASE")
    assert about["dpensemble_version"] == version("dpensemble")
    described_inputs = {one["column"]: one for one in json.loads(about["inputs"])}
    assert list(described_inputs) == student.sources
    for one in model.get_inputs():
        own = described_inputs[one.name]
        assert (own["input"], own["type"]) == (one.name, one.type.removeprefix("tensor(").removesuffix(")"))
        assert own["blank"] == ("NaN" if own["holds"] == "number" else "")
        assert one.shape == ["rows", 1]
    texts = [one for one in described_inputs.values() if one["holds"] == "text"]
    assert texts
    assert all(one["categories"] for one in texts)
    labels, _, guarantees = predicted(model, around(rows))
    assert set(labels) == {"it's", 'a "b"'}
    assert set(guarantees) == {f"{about['not_for_release']} Epsilon is 1. Really."}


def test_a_release_has_no_mark(mixed):
    student = replace(described(mixed[0]), for_release=True)
    assert "not_for_release" not in session(as_onnx(student)).get_modelmeta().custom_metadata_map


HOSTILE = [
    "label",
    "guarantee",
    "probabilities",
    "",
    "a\0b",
    'quo"te',
    "step0",
    "step",
    "ünï",
    "x" * 300,
    "\n",
    "column 4",
]


def test_columns_of_any_name_are_inputs_that_metadata_name(mixed):
    path, rows = mixed
    student, columns = described(path), around(rows)
    names = dict(zip(student.sources, HOSTILE, strict=False))
    assert len(names) == len(student.sources) >= 4
    renamed = [replace(one, source=names[one.source]) for one in student.table.columns]
    table = replace(student.table, columns=tuple(renamed))
    pieces = []
    for piece in student.pieces:
        layer = piece.layer
        # The layer of nearness reads the columns by place.
        pieces.append(replace(piece, layer=replace(layer, base=table) if layer.base is student.table else layer))
    model = session(as_onnx(replace(student, table=table, pieces=tuple(pieces))))
    inputs = {one["column"]: one["input"] for one in json.loads(model.get_modelmeta().custom_metadata_map["inputs"])}
    assert set(inputs) == set(names.values())
    assert len(set(inputs.values())) == len(inputs)
    assert not set(inputs.values()) & {*OUTPUTS, ""}
    renamed_columns = {inputs[names[name]]: values for name, values in columns.items() if name in names}
    expected = predicted(session(as_onnx(student)), columns)[1]
    assert (predicted(model, renamed_columns)[1] == expected).all()


def test_fills_take_the_place_of_blanks(mixed):
    path, rows = mixed
    student, columns = described(path), around(rows)
    fills = {one.source: 1.25 if one.is_number else one.categories[0] for one in student.table.columns}
    filled = {
        name: np.where(np.isnan(values), fills[name], values)
        if values.dtype == float
        else np.where(values == "", fills[name], values)
        for name, values in columns.items()
    }
    table = replace(student.table, columns=tuple(replace(one, fill=fills[one.source]) for one in student.table.columns))
    pieces = tuple(
        replace(one, layer=replace(one.layer, base=table)) if one.layer.base is student.table else one
        for one in student.pieces
    )
    model = session(as_onnx(replace(student, table=table, pieces=pieces)))
    expected = predicted(session(as_onnx(student)), filled)[1]
    assert (predicted(model, columns)[1] == expected).all()
    assert (predicted(session(as_onnx(student)), columns)[1] != expected).any()


def text_student(**settings):
    """Return a description of one column of texts, whose categories a, b, any other and missing differ in chance."""
    column = Column(name="t", source="t", is_number=False, categories=("a", "b"), length=0.6, **settings)
    table = Table(columns=(column,), constant=0.8, n_features=5)
    return Description(
        table=table,
        pieces=(Piece(layer=table, factors=np.ones(5)),),
        coefficients=np.array([[0.0], [1.0], [2.0], [3.0], [0.0]]),
        classes=("no", "yes"),
        guarantee=("Stated.",),
    )


def places(student, texts):
    """Return the place of each text among a, b, any other and missing."""
    chances = predicted(session(as_onnx(student)), {"t": np.array(texts, dtype=object)})[1][:, 1]
    levels = 1 / (1 + np.exp(-0.6 * np.arange(4)))
    found = np.abs(chances[:, None] - levels).argmin(axis=1)
    assert np.abs(chances - levels[found]).max() < 1e-4
    return found.tolist()


def test_texts_have_places():
    assert places(text_student(), ["a", "b", "", "c", " a", "A", "nan"]) == [0, 1, 3, 2, 2, 2, 2]
    assert places(text_student(fill="b"), ["a", "", "c"]) == [0, 1, 2]
    assert places(text_student(known=("a", "any other", "b")), ["a", "b", "", "c"]) == [0, 1, 3, 1]


BLANK_TEXTS = [
    "?",
    " ?",
    "?\t",
    "99",
    "099",
    "99.0",
    " 99.00 ",
    "+99",
    "-99",
    "990",
    "9",
    "99.5",
    "-1.5",
    "-01.50",
    "1.5",
]
BLANK_TEXTS += ["0", "-0", "00.0", "n/a", "n.a", "N/A", "(.*)", "x", "\u00a0?\u2003", "a", "1e999", "..", "99."]


def test_declared_blanks_are_read_as_the_student_reads_them():
    blanks = ("?", "99", "-1.5", "n/a", "(.*)", "0")
    expected = blanked(pd.Series(BLANK_TEXTS, dtype=object), blanks).isna()
    found = [place == 3 for place in places(text_student(blanks=blanks), BLANK_TEXTS)]
    assert found == expected.tolist()
    assert 0 < sum(found) < len(found)


DATES = ["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0001-01-01", "9999-12-31", "0000-01-01", "2024-13-01"]
DATES += [
    "2024-00-10",
    "2024-04-31",
    "2024-04-00",
    "2024-4-1",
    "24-04-01",
    "2024/04/01",
    "",
    "date",
    "2024-01-01T23:59",
]
DATES += [" 2024-01-02", "2024-01-03 ", "2024-01-04 10:00-05:00", "2024-01-05T1-1 T", "2024-01-06x", "-2024-01-01"]
DATES += ["２０２４-01-01", "2024-01-01\n", "2024-01-01 \n"]


def in_python(text):
    """Return year, month and day of the week, or None, by Python's own calendar."""
    match = re.fullmatch(r"\s*([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[ T].*)?", text, re.DOTALL)
    try:
        day = date(*map(int, match.groups())) if match else None
    except ValueError:
        return None
    return day and (float(day.year), float(day.month), day.isoweekday() % 7)


def parts_of_dates(texts):
    """Return what the graph makes of dates, by the steps that every date goes through."""
    import onnx

    graph = _Graph(onnx, ["t"])
    read = _Date.of(graph, "t", ())
    outputs = [("ok", read.is_date, onnx.TensorProto.BOOL), ("day", read.day, onnx.TensorProto.INT64)]
    outputs += [(part, read.numbers[part], onnx.TensorProto.DOUBLE) for part in ("year", "month")]
    for name, value, _ in outputs:
        graph.name_output(name, value)
    value_of = onnx.helper.make_tensor_value_info
    built = onnx.helper.make_graph(
        graph.nodes,
        "dates",
        [value_of("t", onnx.TensorProto.STRING, [None, 1])],
        [value_of(name, kind, [None, 1]) for name, _, kind in outputs],
        graph.constants,
    )
    model = onnx.helper.make_model(built, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    ok, day, year, month = session(model.SerializeToString()).run(None, {"t": np.array(texts, dtype=object)[:, None]})
    return [
        (y, m, d) if good else None
        for good, y, m, d in zip(ok.ravel(), year.ravel(), month.ravel(), day.ravel(), strict=True)
    ]


def test_dates_are_those_of_the_calendar():
    texts = [*DATES, *(str(date.fromordinal(number)) for number in range(1, date.max.toordinal(), 997))]
    expected = [in_python(text) for text in texts]
    assert parts_of_dates(texts) == expected
    assert None in expected


def test_every_text_of_two_centuries_is_read():
    texts = [
        f"{year:04}-{month:02}-{day:02}" for year in range(1896, 2105, 8) for month in range(14) for day in range(33)
    ]
    texts += [f"{year:04}-02-{day:02}" for year in range(1890, 2110) for day in (28, 29, 30)]
    assert parts_of_dates(texts) == [in_python(text) for text in texts]


def test_a_student_that_the_format_cannot_hold_is_refused(mixed, monkeypatch):
    import dpensemble.exports.onnx

    monkeypatch.setattr(dpensemble.exports.onnx, "_MOST_BYTES", 10_000)
    with pytest.raises(InvalidParameterError, match="--format sql"):
        as_onnx(described(mixed[0]))


def run_command(*arguments):
    return main(["export", *map(str, arguments), "--format", "onnx"])


def test_the_command_writes_the_model(mixed, capsys):
    path, out = mixed[0], mixed[0].with_name("model.onnx")
    assert run_command(path, "--out", out, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["out"] == str(out)
    assert answer["columns"] == described(path).sources
    content = out.read_bytes()
    assert session(content).get_modelmeta().producer_name == "dpensemble"
    assert run_command(path, "--out", out) == 2
    assert "--overwrite" in capsys.readouterr().err
    out.write_bytes(b"")
    assert run_command(path, "--out", out, "--overwrite") == 0
    assert out.read_bytes() == content


def test_bad_requests_write_nothing(mixed, capsys, monkeypatch):
    path, out = mixed[0], mixed[0].with_name("model.onnx")
    assert run_command(path) == 2
    assert "--out" in capsys.readouterr().err
    assert run_command(path, "--out", out, "--keep", "id") == 2
    assert "sql" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert run_command(path, "--out", out) == 2
    assert 'pip install "dpensemble[onnx]"' in capsys.readouterr().err
    assert not out.exists()
