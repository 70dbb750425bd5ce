"""ONNX models give what students give, in onnxruntime: every kind of student, column and blank, to 1e-6."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from dpensemble import load_classifier
from dpensemble.cli import main
from dpensemble.exports.description import described

# Students with seeded noise, which make every test the same each time.
pytestmark = pytest.mark.filterwarnings("ignore::dpensemble.errors.NotForReleaseWarning")
CLOSE = 1e-6


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
    options: tuple[str, ...] = ("--insecure-release-seed", "0")
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
    assert main([*command, *case.options, "--out", str(folder / "run")]) == 0
    return folder / "run"


SESSIONS = pytest.importorskip("onnxruntime")


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
    from dpensemble.exports.onnx import as_onnx

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


SEEDED = ("--insecure-release-seed", "0")
CASES = {
    "two numbers": Case(layers="Directions(Table)"),
    "blanks": Case(blanks=True, texts=2, layers="Directions(Table)"),
    "filled blanks": Case(blanks=True, texts=2, options=(*SEEDED, "--fill")),
    "declared blanks": Case(declared_blanks=True, blanks=True, texts=2),
    "dates": Case(dates=("%Y-%m-%d", "%d.%m.%Y"), blanks=True),
    "filled dates": Case(dates=("%d/%m/%Y",), blanks=True, options=(*SEEDED, "--fill")),
    "written numbers": Case(written=True, blanks=True),
    "units": Case(units=True, n_private=1400, texts=3),
    "texts only": Case(numbers=0, texts=3, blanks=True),
    "one number": Case(numbers=1, texts=0),
    "three classes": Case(classes=("a", "b", "c"), n_private=4000, layers="Table"),
    "five classes": Case(classes=tuple("vwxyz"), blanks=True),
    "class with quotation marks": Case(classes=("it's", 'a "b"')),
    "declared columns": Case(declared=True, layers="Table"),
    "many columns": Case(numbers=70, texts=4, layers="Directions(Table)"),
    "curved": Case(curved=True, numbers=3, texts=0, n_private=9000, n_public=1500, layers="Kernel Directions(Table)"),
    "curved with blanks": Case(curved=True, numbers=3, texts=0, n_private=9000, n_public=1500, blanks=True),
    "curved, three classes": Case(
        curved=True, numbers=2, texts=0, n_private=9000, n_public=1500, classes=("a", "b", "c")
    ),
    "nearness": Case(
        curved=True, numbers=3, texts=1, n_private=9000, n_public=1500, layers="Directions(Nearness) Directions(Table)"
    ),
    "nearness, dates and blanks": Case(
        curved=True, numbers=4, texts=1, dates=("%d %b %Y",), blanks=True, n_private=9000, n_public=1500
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_student_gives_the_same_on_ten_thousand_rows(name, tmp_path):
    case = CASES[name]
    run = trained(case, tmp_path)
    assert case.layers in ("", layers(run))
    assert compare(run, Rows(case, 10_000, 3, new=True)) <= CLOSE
