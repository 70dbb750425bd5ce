"""Each rule of reading in each kind of file: one record is replaced by anything, and all others stay equal to the bit.

The same record is refused or read, and what others see of a whole run is the same.
"""

import bz2
import csv
import functools
import gzip
import io
import lzma
import re
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpensemble.cli import main
from dpensemble.datasets import CSVFormat, TablePreparation
from dpensemble.datasets.formats import entry_rules
from dpensemble.errors import DPEnsembleError
from dpensemble.workflow import ReadOptions, TableFiles, file_tables
from dpensemble.workflow import tables as tables_module

from ..workbooks import odd_row, sheet_with, write

N_PUBLIC, N_RECORDS, PLACE = 40, 9, 5
_X = np.random.default_rng(3).integers(10, 80, N_PUBLIC + N_RECORDS).tolist()
#: Columns whose format public rows show.
SHOWN = {
    "percent": lambda x: f"{x}.5%",
    "both": lambda x: f"{x}.5 %" if x % 2 else f"{x}.5",
    "money": lambda x: f"${x * 1001:,.2f}",
    "euros": lambda x: f"1.{x}4,50 €",
    "francs": lambda x: f"CHF {x}'001.20",
    "brackets": lambda x: f"({x}.00)" if x % 2 else f"{x}.00",
    "spaces": lambda x: f"\u2212{x}\u202f001" if x % 2 else f"{x}\u202f001",
    "kg": lambda x: f"{x} kg",
    "limits": lambda x: f"<{x}" if x < 20 else f"{x}.5",
    "SAS": lambda x: "." if x % 8 == 0 else f"{x}.25",
    "number": lambda x: f"{x}.25",
    "short years": lambda x: f"{x % 28 + 1:02}.03.{x}",
    "months": lambda x: f"{x % 28 + 1}. März 20{x}",
    "group": lambda x: f"g{x % 3}",
}
#: Columns whose kind is declared.
DECLARED = {
    "size": (lambda x: f"{x % 9 + 1}.{x}0", "number:1.234,5"),
    "share": (lambda x: f"0.{x}", "percent"),
    "paid": (lambda x: f"{x}", "money"),
    "seen": (lambda x: f"0{x % 9 + 1}/0{x % 7 + 1}/2024", "date:%d/%m/%Y"),
    "zip": (lambda x: f"0{x % 4}123", "category"),
    "remark": (lambda x: f"{x % 3} days", "text"),
    "person": (lambda x: f"p{x}", "id"),
    "secret": (lambda x: f"{x}", "drop"),
    "age": (lambda x: "99" if x % 6 == 0 else f"{x}", "number"),
}
NAMES = [*SHOWN, *DECLARED, "y"]
OPTIONS = [word for name, (_, kind) in DECLARED.items() for word in ("--column", f"{name}={kind}")]
OPTIONS += ["--blank", "age=99", "--blank", "unknown", "--below-limit", "half"]
ENTRIES = [
    *("", " ", ".", ".A", "-", "n/a", "nan", "inf", "1e400", "-1e400", "1j", "now", "today", "1,234", "1.234", "1'234"),
    *("12,5", "12.5", "12.5 %", "50%", "12 kg", "12 lb", "$5", "$1,234.50", "5 €", "1.234,50 €", "(5)", "(5", "5-"),
    *("−5", "<5", "≤5", ">5", "1e5", "0x10", "1_000", "1/2", "12.03.24", "12/03/24", "3 mai 2024", "31.02.24", "٣"),
    *("½", "∞", "9" * 400, "%", "kg", "()", "TRUE", "None", "'5", '"5"', "99", "99.0", "unknown", "g1", "g9", "yes"),
    *("0123", "20240229", "2024-02-29", "2024-02-29 10:00:00", "=1+1", "\u202f", "é", "北京", "a,b", "a;b", "a\tb"),
]
PIECES = [*"0123456789.,'()%$€<>-+ eE\"\t;", "kg", "\u202f", "\u2212", "\x00", "\x85", "\u2028", "März", "1e400"]
PACKED = {
    "csv": bytes,
    "csv.gz": gzip.compress,
    "csv.bz2": bz2.compress,
    "csv.xz": lzma.compress,
    "csv.zst": lambda text: pa.compress(text, codec="zstd", asbytes=True),
    "tsv": bytes,
}
KINDS = [*PACKED, "several files", "a pipe", "xlsx", "parquet"]
#: Kinds that differ in how a record is read. The others are packed texts, and have fewer whole runs.
READ = ("csv", "xlsx", "parquet")


def record(x, label):
    return [*(text(x) for text in SHOWN.values()), *(text(x) for text, _ in DECLARED.values()), label]


RECORDS = [record(x, ("no", "yes")[place % 2]) for place, x in enumerate(_X)]


def quoted(cells, sep):
    line = io.StringIO()
    csv.writer(line, delimiter=sep, lineterminator="\n").writerow(cells)
    return line.getvalue()


@functools.cache
def usual_lines(places, sep):
    return [quoted(RECORDS[place % len(RECORDS)], sep) for place in places]


def of_lines(lines, sep=","):
    return (quoted(NAMES, sep) + "".join(lines)).encode("utf-8", "surrogatepass")


def odd_cells(draw):
    """Return a record of which some entries, or all, are anything."""
    cells = list(record(int(draw.integers(10, 80)), "no"))
    for place in draw.choice(len(cells), size=draw.integers(1, len(cells)), replace=False):
        many = draw.random() < 0.6
        cells[place] = str(draw.choice(ENTRIES)) if many else "".join(draw.choice(PIECES, draw.integers(1, 9)))
    return cells


def plain_xml(text):
    return re.sub("[\x00-\x08\x0b-\x1f]", "", text).replace("&", "&amp;").replace("<", "&lt;")


def odd_record(draw, kind):
    """Return a line, the XML of a row, or cells, of any content. A line may be broken."""
    if kind == "parquet":
        return [None if draw.random() < 0.1 else cell for cell in odd_cells(draw)]
    if kind == "xlsx":
        if draw.random() < 0.3:
            return odd_row(draw)
        cells = "".join(
            f"<c><v>{draw.integers(100)}.5</v></c>"
            if draw.random() < 0.2
            else f'<c t="inlineStr"><is><t>{plain_xml(cell)}</t></is></c>'
            for cell in odd_cells(draw)
        )
        return f"<row>{cells}</row>"
    sep = "\t" if kind == "tsv" else ","
    if draw.random() < 0.3:
        line = "".join(draw.choice([*PIECES, sep], draw.integers(1, 40)))
        return (line if line.strip(' \t,"\x85\u2028\u202f') else "7") + "\n"
    line = quoted([re.sub("[\r\n]", " ", cell) for cell in odd_cells(draw)], sep)
    return line if line.strip(' \t,"\n') else "7\n"


def write_private(folder, kind, odd, records=range(N_PUBLIC, N_PUBLIC + N_RECORDS), place=PLACE):
    """Write records with an odd one among them, and return their paths. A pipe has its content in place of a path."""
    if kind in ("xlsx", "parquet"):
        usual = [RECORDS[own % len(RECORDS)] for own in records]
    if kind == "xlsx":
        return [write(folder / "p.xlsx", sheets=[("S", "visible", sheet_with(odd, NAMES, usual, place))])]
    if kind == "parquet":
        cells = [*usual[:place], odd, *usual[place:]]
        pd.DataFrame(cells, columns=NAMES, dtype=object).to_parquet(folder / "p.parquet")
        return [folder / "p.parquet"]
    sep = "\t" if kind == "tsv" else ","
    lines = [*usual_lines(records, sep)]
    lines.insert(place, odd)
    if kind == "several files":
        third = len(lines) // 3
        for part, start in enumerate((0, third, 2 * third)):
            end = start + third if part < 2 else len(lines)
            (folder / f"{part}.csv").write_bytes(of_lines(lines[start:end]))
        return [folder / f"{part}.csv" for part in range(3)]
    content = PACKED.get(kind, bytes)(of_lines(lines, sep))
    if kind == "a pipe":
        return content
    (folder / f"p.{kind}").write_bytes(content)
    return [folder / f"p.{kind}"]


def usual_record(kind):
    cells = record(33, "yes")
    if kind == "parquet":
        return cells
    if kind == "xlsx":
        return "<row>" + "".join(f'<c t="str"><v>{plain_xml(one)}</v></c>' for one in cells) + "</row>"
    return quoted(cells, "\t" if kind == "tsv" else ",")


@pytest.fixture
def paths(tmp_path, monkeypatch):
    pd.DataFrame(RECORDS[:N_PUBLIC], columns=NAMES).to_csv(tmp_path / "public.csv", index=False)

    def paths(kind, odd, **more):
        written = write_private(tmp_path, kind, odd, **more)
        if kind == "a pipe":
            monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(written)))
            return ["-"]
        return list(map(str, written))

    return paths


_JUDGED = {}


@pytest.fixture
def judged_once(monkeypatch):
    """Judge the public rows and fit them once. They are the same beside every private record."""
    judge, fit, read, known = tables_module.judge, TablePreparation.fit, TableFiles.read, _JUDGED

    def judge_once(facts):
        key = "judgement", facts.rows is None
        if key not in known:
            known[key] = judge(facts)
        return known[key]

    def fitted_once(rows, **settings):
        if "fitted" not in known:
            known["fitted"] = fit(TablePreparation("median", **settings), rows)
        return known["fitted"]

    def read_once(files, path, **settings):
        if path != files.public:
            return read(files, path, **settings)
        key = "rows", repr(settings), repr(files.form)
        if key not in known:
            known[key] = read(files, path, **settings)
        return known[key].copy()

    monkeypatch.setattr(tables_module, "judge", judge_once)
    monkeypatch.setattr(TableFiles, "read", read_once)
    return fitted_once


def bits(prepared, keep):
    """Return columns and entries to the last bit."""
    return [
        (str(name), part.to_numpy(dtype=np.float64).tobytes() if part.dtype == float else part.astype(object).tolist())
        for name, part in prepared.iloc[keep].items()
    ]


def others_read(fitted, paths, tmp_path, kind, odd, *, on_bad_record="zero"):
    """Return what is read of all records but the odd one, or the kind of error without its row."""
    rules = entry_rules(OPTIONS[1:18:2], ["age=99", "unknown"], "half")
    first, *more = map(Path, paths(kind, odd))
    files = TableFiles(
        private=first, more_private=more, public=tmp_path / "public.csv", target="y", classes=["no", "yes"],
        drop=tuple(rules.dropped), form=CSVFormat(), entries=rules,
    )  # fmt: skip
    try:
        with warnings.catch_warnings(record=True) as caught:
            tables = file_tables(files, ReadOptions(blanks=True, on_bad_record=on_bad_record))
    except DPEnsembleError as error:
        return type(error).__name__, str(error)
    prepared = fitted(tables.X_public, **tables.entries.settings()).encoded(tables.X_private)
    keep = np.arange(len(prepared))
    if len(prepared) > N_RECORDS:
        keep = np.delete(keep, PLACE)
    return (
        bits(prepared, keep), tables.y_private.iloc[keep].tolist(), [note.text for note in tables.notes],
        dict(tables.columns), list(tables.X_private.columns), [str(one.message) for one in caught],
    )  # fmt: skip


@pytest.mark.parametrize("n_mutations", [1, 320])
@pytest.mark.parametrize("kind", KINDS)
def test_one_record_changes_no_other_in_any_kind_of_file(judged_once, paths, tmp_path, kind, n_mutations):
    draw = np.random.default_rng(n_mutations)
    usual = others_read(judged_once, paths, tmp_path, kind, usual_record(kind))
    assert usual[1] == [one[-1] for one in RECORDS[N_PUBLIC:]]
    for _ in range(n_mutations):
        odd = odd_record(draw, kind)
        # Not by ==, because a blank differs from itself.
        assert repr(others_read(judged_once, paths, tmp_path, kind, odd)) == repr(usual), repr(odd)[:800]


def test_the_records_of_all_kinds_of_files_are_read_to_the_same_bits(judged_once, paths, tmp_path):
    tables = [others_read(judged_once, paths, tmp_path, kind, usual_record(kind)) for kind in KINDS]
    # A workbook stores what a text file writes, so the rest is the same, too.
    assert all(repr(table[:2]) == repr(tables[0][:2]) for table in tables[1:])


@pytest.mark.parametrize("n_mutations", [1, 100])
@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_where_bad_records_are_refused_no_refusal_quotes_one(judged_once, paths, tmp_path, kind, n_mutations):
    draw = np.random.default_rng(n_mutations)
    usual = others_read(judged_once, paths, tmp_path, kind, usual_record(kind), on_bad_record="raise")
    for _ in range(n_mutations):
        mark = f"zq{draw.integers(10**6)}"
        odd = odd_record(draw, kind)
        odd = (
            [cell and f"{cell}{mark}" for cell in odd] if kind == "parquet" else re.sub("(yes|no|5)", rf"\1{mark}", odd)
        )
        read = others_read(judged_once, paths, tmp_path, kind, odd, on_bad_record="raise")
        if len(read) == 2:
            assert mark not in read[1]
        else:
            assert repr(read) == repr(usual), repr(odd)[:800]


def seen_by_others(capsys, paths, tmp_path, kind, odd):
    """Train and predict, and return exit codes, words without numbers, and the names of all files."""
    given = [word for path in paths(kind, odd, records=range(120), place=60) for word in ("--private", path)]
    out = str(tmp_path / "run")
    # Hints follow from the released student, so the noise must be far larger than what one record changes.
    about = ("--target", "y", "--classes", "no,yes", "--epsilon", "0.01", "--delta", "1e-4", "--quiet", "--overwrite")
    settings = ("--public", str(tmp_path / "public.csv"), *OPTIONS, "--insecure-release-seed", "0", "--out", out)
    code = main(["train", *given, *about, *settings])
    shown = capsys.readouterr()
    again = main(["predict", out, str(tmp_path / "public.csv")])
    lines = len(capsys.readouterr().out.splitlines())
    words = re.sub(r"[-+]?\d[\d,.]*(e[-+]?\d+)?", "#", shown.out + "|" + shown.err)
    shared = (tmp_path / "run" / "card.md").read_text() if code == 0 else ""
    headings = re.findall("^#.*", shared, re.MULTILINE)
    return code, again, lines, words, headings, sorted(path.name for path in (tmp_path / "run").iterdir())


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize("kind", KINDS)
def test_others_see_the_same_run_whatever_one_record_holds(capsys, paths, tmp_path, kind):
    draw = np.random.default_rng(12)
    usual = seen_by_others(capsys, paths, tmp_path, kind, usual_record(kind))
    assert usual[:3] == (0, 0, N_PUBLIC + 1)
    for _ in range(12 if kind in READ else 4):
        odd = odd_record(draw, kind)
        if kind == "xlsx":
            # Under replace-one the number of records is public, and a blank row is not a record.
            odd = (
                odd.replace("<c", '<c t="str"><v>1</v></c><c', 1)
                if "<c" in odd
                else '<row><c t="str"><v>1</v></c></row>'
            )
        assert seen_by_others(capsys, paths, tmp_path, kind, odd) == usual, repr(odd)[:800]
