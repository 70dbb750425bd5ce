"""Exports give the student's probabilities in the real engines, and what cannot be exported is refused."""

import csv
import io
import json
import shutil
import subprocess
import sys
import tokenize
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline

from dpensemble.cli import main
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.exports.card import _bounds, _grid_of, card_sums, score_card, with_error
from dpensemble.exports.description import Column, described, features_of_numbers
from dpensemble.exports.dialects import DIALECTS
from dpensemble.exports.script import as_script
from dpensemble.exports.sql import _kinds, as_sql
from dpensemble.guarantee import Guarantee
from dpensemble.moments import MomentsModel, TableMap
from dpensemble.student import marked, with_names

from .engines import answers, created
from .students import CURVED, GUARANTEE, KINDS, as_typed, made, saved

EARLIER = Path(__file__).parents[1] / "compatibility" / "earlier_files"

pytestmark = pytest.mark.filterwarnings("ignore::dpensemble.errors.NotForReleaseWarning")


def chances(found, classes):
    return np.array([[row[f"probability of {name}"] for name in classes] for row in found], dtype=float)


def engine(dialect, request):
    if dialect == "duckdb":
        pytest.importorskip("duckdb")
    return request.getfixturevalue("postgresql") if dialect == "postgresql" else None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", [*KINDS, *CURVED])
def test_sql_gives_the_probabilities_of_the_student(kind, dialect, request, tmp_path):
    server = engine(dialect, request)
    classes = ("no", "it's") if kind in ("directions", "snapped", "nearness") else ("a", 'b"', "c")
    student, rows = made(kind, 5, classes=classes, fill="median" if kind == "column directions" else None)
    exported = described(saved(student, tmp_path))
    if kind in CURVED and dialect == "sqlite":
        with pytest.raises(InvalidParameterError, match=r"curved.*--dialect duckdb"):
            as_sql(exported, dialect)
        return
    typed = as_typed(rows).assign(id=range(len(rows)))
    sql = as_sql(exported, dialect, table="t", keep=["id"])
    found = sorted(answers(dialect, sql, "t", typed, server), key=lambda row: row["id"])
    np.testing.assert_allclose(chances(found, exported.classes), student.predict_proba(rows), rtol=0, atol=1e-9)
    assert [row["label"] for row in found] == student.predict(rows).tolist()
    assert {row["guarantee"] for row in found} == {" ".join(GUARANTEE)}
    assert {row["for_release"] for row in found} == {"true"}


@pytest.mark.parametrize("kind", [*KINDS, *CURVED])
def test_the_python_file_gives_the_probabilities_of_the_student(kind, tmp_path):
    student, rows = made(kind, 6, classes=("a", "b", "c") if kind == "landmarks" else ("no", "yes"), fill="nan")
    exported, names = described(saved(student, tmp_path)), {"__name__": "scorer"}
    exec(as_script(exported), names)
    found = [names["classify"](row) for row in as_typed(rows).to_dict("records")]
    np.testing.assert_allclose(chances(found, exported.classes), student.predict_proba(rows), rtol=0, atol=1e-9)
    assert [row["label"] for row in found] == student.predict(rows).tolist()


def test_the_python_file_classifies_a_csv_file_without_any_package(tmp_path):
    student, rows = made("table", 1, for_release=False)
    file = tmp_path / "scorer.py"
    file.write_text(as_script(described(saved(student, tmp_path))), encoding="utf-8")
    as_typed(rows).to_csv(tmp_path / "rows.csv", index=False)
    command = [sys.executable, "-I", "-S", str(file), str(tmp_path / "rows.csv")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = list(csv.DictReader(io.StringIO(printed)))
    np.testing.assert_allclose(chances(found, ["no", "yes"]), student.predict_proba(rows), rtol=0, atol=1e-9)
    assert all(row["for_release"].startswith("NOT FOR RELEASE") for row in found)


def test_the_statement_lists_its_columns_by_what_they_hold(tmp_path):
    student, _ = made("table", 1)
    exported = described(saved(student, tmp_path))
    facts = {name: Column(name=name, source=name, is_number=False) for name in ("ward\nDROP", "sex")}
    facts |= {
        name: Column(name=name, source="seen", is_number=name == "year", part=name) for name in ("year", "weekday")
    }
    columns = (*facts.values(), Column(name="age", source="age", is_number=True))
    changed = replace(exported, table=replace(exported.table, columns=columns))
    lines = as_sql(exported).splitlines()
    assert [line for line in lines if line.startswith("-- Numbers: ")]
    assert _kinds(changed) == {"Texts": ["ward\nDROP", "sex"], "Dates": ["seen"], "Numbers": ["age"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("70.5", "70,5 kg"), "is not a number"),
        (("70.5", "70.5,1"), "more cells than the header"),
        ((",", ";"), "there is no column"),
    ],
)
def test_the_python_file_names_the_line_that_it_cannot_read(change, message, tmp_path):
    student, rows = made("table", 1)
    (tmp_path / "scorer.py").write_text(as_script(described(saved(student, tmp_path))), encoding="utf-8")
    file, table = tmp_path / "rows.csv", as_typed(rows)[:2].astype(object)
    number = next(name for name in table if isinstance(table[name].iloc[0], float))
    table.loc[table.index[1], number] = 70.5
    table = table[[*table.columns.drop(number), number]]
    written = table.to_csv(index=False)
    assert change[0] in written
    text = change[1] if "kg" not in change[1] else '"70,5 kg"'
    file.write_text(written.replace(change[0], text), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(tmp_path / "scorer.py"), str(file)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert message in done.stderr
    assert f"rows.csv: line {2 if change[0] == ',' else 3}: " in done.stderr


def test_the_python_file_names_a_file_that_does_not_exist(tmp_path):
    student, _ = made("table", 1)
    (tmp_path / "scorer.py").write_text(as_script(described(saved(student, tmp_path))), encoding="utf-8")
    command = [sys.executable, "-I", "-S", str(tmp_path / "scorer.py"), str(tmp_path / "none.csv")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def hostile(count, seed):
    """Return texts of quotation marks, backslashes, keywords, comments and letters of all sizes."""
    rng = np.random.default_rng(seed)
    parts = [
        "'",
        '"',
        "\\",
        "--",
        "/*",
        "*/",
        ";",
        "select",
        "NULL",
        "ü",
        "漢",
        "🙂",
        " ",
        "\t",
        "\n",
        "`",
        "[",
        "]",
        "$$",
    ]
    parts += ["E'", "%s", "?", ":x", "{0}", "x", "Y", "\\'", "\u200b"]
    texts = {"".join(rng.choice(parts, rng.integers(1, 7))) for _ in range(3 * count)}
    return [text for text in sorted(texts) if len(text.encode()) <= 60][:count]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hostile_names_and_entries_reach_the_engine_unchanged(dialect, request):
    server, rules = engine(dialect, request), DIALECTS[dialect]
    names = [f"{number}{name}" for number, name in enumerate(hostile(150, 0))]
    entries = hostile(150, 1)
    assert len(names) == len(entries) == 150
    rows = pd.DataFrame([entries], columns=names)
    tests = [
        f"t.{rules.identifier(name)} = {rules.literal(entry)} AS {rules.identifier(name)}"
        for name, entry in zip(names, entries, strict=True)
    ]
    table = "ta\"b'l\\e"
    (found,) = answers(dialect, f"SELECT {', '.join(tests)} FROM {rules.identifier(table)} AS t", table, rows, server)
    assert list(found) == names
    assert all(found.values())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_that_a_database_cannot_have_are_refused(dialect):
    rules = DIALECTS[dialect]
    for name in ("a\0b", "", "\ud800"):
        with pytest.raises(InvalidParameterError):
            rules.identifier(name)
    with pytest.raises(InvalidParameterError):
        rules.literal("a\0b")
    if dialect == "postgresql":
        assert rules.identifier("ü" * 31)
        with pytest.raises(InvalidParameterError, match="64 bytes"):
            rules.identifier("ü" * 32)
    assert created(dialect, "t", pd.DataFrame({"a": ["x"]}))


def test_names_that_differ_only_in_capitals_are_one_name_in_sqlite(tmp_path):
    student, _ = made("table", classes=("yes", "YES"))
    with pytest.raises(InvalidParameterError, match="capitals"):
        as_sql(described(saved(student, tmp_path)))
    assert as_sql(described(tmp_path), "postgresql")


def test_large_scores_do_not_overflow(tmp_path):
    student, rows = made("table", 2, classes=("a", "b", "c"))
    student.steps[-1][1].coefficients_ *= 1e4
    exported = described(saved(student, tmp_path))
    typed = as_typed(rows).assign(id=range(len(rows)))
    found = answers("sqlite", as_sql(exported, table="t", keep=["id"]), "t", typed)
    np.testing.assert_allclose(chances(found, exported.classes), student.predict_proba(rows), rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
@pytest.mark.parametrize("kind", ["snapped", "table"])
def test_a_score_card_is_as_near_to_the_student_as_it_states(kind, classes, tmp_path):
    student, rows = made(kind, 3, classes=classes)
    student.steps[-1][1].coefficients_ /= 4
    card = score_card(described(saved(student, tmp_path)))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    stated = with_error(card, student, tmp_path / "rows.csv")
    assert 0 < stated.observed <= card.bound < 0.5
    # Rounding to ten points each would break the bound.
    sums = card_sums(card, student.steps[0][1].transform(rows))
    rough = np.abs(card.probability(np.rint(sums / 40) * 40) - student.predict_proba(rows)).max()
    assert rough > stated.observed


@pytest.mark.parametrize("seed", range(4))
def test_the_bounds_of_a_range_hold_for_all_its_numbers_and_are_near(seed):
    rng = np.random.default_rng(seed)
    knots = tuple(np.sort(rng.normal(size=size)) for size in (1, 2, 3, 5))
    column = Column(name="x", source="x", is_number=True, knots=knots, length=0.7)
    own = rng.normal(size=(column.n_features, 2))
    numbers, limits = _grid_of(column)
    least, most = _bounds(column, own, numbers, limits)
    assert len(least) == len(numbers) == len(limits) - 1 == 10 * 24 + 1
    apart = 0.0
    for low, high, lower, upper in zip(limits[:-1], limits[1:], least, most, strict=True):
        inside = np.linspace(max(low, -9), min(high, 9), 2001)
        scores = features_of_numbers(column, inside) @ own
        assert (scores >= lower - 1e-12).all()
        assert (scores <= upper + 1e-12).all()
        apart = max(apart, (scores.min(axis=0) - lower).max(), (upper - scores.max(axis=0)).max())
    assert 0 < apart < 0.02


def test_entries_called_as_the_card_calls_blanks_stay_apart(tmp_path):
    rows = pd.DataFrame({"a": ["blank", "any other", "x", "y"] * 30})
    feature_map = TableMap(fewest=1).fit(rows)
    model = MomentsModel.of(np.arange(len(feature_map.blocks_), dtype=float)[:, None], np.array(["no", "yes"]))
    student = marked(with_names(Pipeline([("encoder", feature_map), ("student", model)]), ["a"]), for_release=True)
    card = score_card(described(saved(student, tmp_path)))
    ((_, lines),) = card.parts
    entries = [entry for line in lines for entry in line.entries]
    assert sorted(entries) == ['"any other"', '"blank"', "any other", "blank", "x", "y"]
    new = pd.DataFrame({"a": ["blank", "any other", None, "z"]})
    apart = np.abs(card.probability(card_sums(card, new)) - student.predict_proba(new)).max()
    assert apart <= card.bound


@pytest.mark.parametrize("kind", ["directions", "landmarks"])
def test_a_curved_student_has_no_score_card(kind, tmp_path):
    with pytest.raises(InvalidParameterError, match="--format sql, --format onnx"):
        score_card(described(saved(made(kind)[0], tmp_path)))


def test_every_file_has_the_guarantee_and_the_mark(tmp_path, capsys):
    run = saved(made("snapped", for_release=False)[0], tmp_path / "run")
    for options in (["sql"], ["sql", "--dialect", "postgresql"], ["python"], ["scorecard"]):
        assert main(["export", str(run), "--format", *options]) == 0
        printed = capsys.readouterr()
        assert "NOT FOR RELEASE" in printed.out
        assert "epsilon = 1 and delta = 1e-05" in printed.out
        assert "NOT FOR RELEASE" in printed.err
    assert main(["export", str(run), "--format", "scorecard", "--out", str(tmp_path / "card.csv")]) == 0
    assert "NOT FOR RELEASE" in (tmp_path / "card.csv").read_text()


def test_json_states_what_was_written(tmp_path, capsys):
    run = saved(made("table")[0], tmp_path / "run")
    assert main(["export", str(run), "--format", "python", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["classes"] == ["no", "yes"]
    assert answer["for_release"] is True
    assert "def classify" in answer["content"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--format", "pdf"], "use one of sql, onnx, scorecard, python"),
        (["--format", "sql", "--dialect", "oracle"], "use one of sqlite, postgresql, duckdb"),
        (["--format", "python", "--table", "t"], "is for --format sql"),
        (["--format", "sql", "--rows", "x.csv"], "is for --format scorecard"),
        (["--format", "sql", "--keep", "label"], "is also a column of the result"),
        (["--format", "sql", "--out", "taken.sql"], "give --overwrite"),
        (["--format", "sql", "--out", "none/x.sql"], "existing folder"),
    ],
)
def test_bad_input_is_one_sentence(options, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("taken.sql").write_text("mine")
    run = saved(made("table")[0], tmp_path / "run")
    assert main(["export", str(run), *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert Path("taken.sql").read_text() == "mine"


def test_a_file_is_replaced_on_request(tmp_path, capsys):
    run, out = saved(made("table")[0], tmp_path / "run"), tmp_path / "x.sql"
    out.write_text("old")
    assert main(["export", str(run), "--format", "sql", "--out", str(out), "--overwrite"]) == 0
    assert out.read_text().startswith("-- ")
    assert capsys.readouterr().out == ""


def test_a_run_until_spent_is_refused(tmp_path):
    guarantee = Guarantee(
        epsilon=1,
        delta=1e-5,
        basis="data-dependent",
        relation="replace-one",
        unit="record",
        accounting="x",
        fixed_number=False,
    )
    run = saved(made("table")[0], tmp_path, in_words=guarantee.sentences())
    with pytest.raises(FileError, match="may not be shared"):
        described(run)


def test_a_student_without_a_run_states_no_guarantee(tmp_path):
    run = saved(made("table")[0], tmp_path)
    (run / "card.json").unlink()
    assert "not stated" in described(run / "student.skops").guarantee[0]


@pytest.mark.parametrize("name", ["card.json", "run.json"])
def test_an_old_student_of_a_seeded_run_has_the_mark(name, tmp_path):
    """Students of earlier versions do not state whether they are for release, but the files of their runs do."""
    run = saved(made("table", for_release=None)[0], tmp_path)
    assert described(run).for_release is None
    if name == "card.json":
        card = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps(card | {"for_release": False}))
    else:
        shutil.copy(record_of(tmp_path / "other", for_release=False), run / name)
    student = described(run)
    assert student.for_release is False
    assert "NOT FOR RELEASE" in as_sql(student)
    assert "NOT FOR RELEASE" in as_script(student)


def record_of(folder, **guarantee):
    """Write the record of an earlier run, with other entries of its guarantee, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    record = json.loads((EARLIER / "moments-run" / "run.json").read_text())
    record["guarantee"] |= guarantee
    (folder / "run.json").write_text(json.dumps(record))
    return folder / "run.json"


def test_a_run_until_spent_is_refused_by_its_record_whatever_its_card_states(tmp_path):
    run = saved(made("table")[0], tmp_path)
    record_of(run)
    assert described(run).guarantee == tuple(GUARANTEE)
    record_of(run, basis="data-dependent", fixed_number=False)
    for path in (run, run / "student.skops"):
        with pytest.raises(FileError, match="may not be shared"):
            described(path)


@pytest.mark.parametrize("title", ["coding: unicode_escape", "coding=utf-7 +AAo-exit(1)+AAo-#"])
def test_no_title_decides_how_python_reads_the_file(title, tmp_path):
    """Python reads such words in the first two comments as the encoding, and then texts may end their quotes."""
    run = saved(made("table")[0], tmp_path)
    card = json.loads((run / "card.json").read_text())
    (run / "card.json").write_text(json.dumps(card | {"model": {"title": title}}))
    script = as_script(described(run)).encode()
    assert tokenize.detect_encoding(io.BytesIO(script).readline)[0] == "utf-8"
    assert title in script.decode()


STUDENTS = sorted(Path(__file__).parents[1].joinpath("compatibility").glob("students-*.zip"))


def test_students_of_earlier_versions_are_exported_or_refused_in_a_sentence(tmp_path):
    exported, refusals = 0, []
    for archive in STUDENTS:
        with zipfile.ZipFile(archive) as files:
            files.extractall(tmp_path / archive.stem)
    for file in sorted(tmp_path.rglob("*.skops")):
        try:
            as_script(described(file))
            exported += 1
        except (InvalidParameterError, FileError) as error:
            refusals.append(str(error))
    assert exported
    assert refusals
    assert all("train" in sentence for sentence in refusals)
