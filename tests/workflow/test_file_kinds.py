"""Every kind of file of a run: one record changes no other record, no refusal, and nothing that others see."""

import bz2
import io
import lzma
import os
import re
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpensemble import _files
from dpensemble.cli import main
from dpensemble.datasets import read_table
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.workflow import ReadOptions, TableFiles, file_tables

from ..workbooks import odd_row, sheet_with, write

N_ROWS, PLACE = 8, 5
PIECES = ['"', '""', *",;\ta7'#\\ ", "1e400", "NA", "\x00", "\x85", "\u2028", "\ufeff", "\x1a", "yes"]
RECORDS = [(str(20 + place), ("rome", "oslo")[place % 2], ("no", "yes")[place % 2]) for place in range(N_ROWS)]
HEADER = ("age", "city", "sick")
PACKED = {
    "csv": bytes,
    "csv.bz2": bz2.compress,
    # Two streams, as tools that work in parallel write them.
    "csv.xz": lambda text: lzma.compress(text[:40]) + lzma.compress(text[40:]),
    "csv.zst": lambda text: pa.compress(text, codec="zstd", asbytes=True),
    "tsv": bytes,
}
KINDS = [*PACKED, "several files", "a pipe", "xlsx"]


def standard_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))


def of_lines(lines, sep=","):
    return "".join(f"{line}\n" for line in (sep.join(HEADER), *lines)).encode()


def private_files(folder, monkeypatch, kind, odd):
    """Write records of which one is odd, and return the paths."""
    sep = "\t" if kind == "tsv" else ","
    lines = [sep.join(record) for record in RECORDS]
    lines.insert(PLACE, odd)
    if kind == "xlsx":
        return [write(folder / "p.xlsx", sheets=[("S", "visible", sheet_with(odd, HEADER, RECORDS, PLACE))])]
    if kind == "several files":
        parts = [(folder / f"{place}.csv", lines[start : start + 3]) for place, start in enumerate((0, 3, 6))]
        for path, part in parts:
            path.write_bytes(of_lines(part))
        return [path for path, _ in parts]
    if kind == "a pipe":
        standard_input(monkeypatch, of_lines(lines))
        return ["-"]
    path = folder / f"p.{kind}"
    path.write_bytes(PACKED[kind](of_lines(lines, sep)))
    return [path]


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "public.csv").write_bytes(of_lines(map(",".join, RECORDS[:6])))

    def files(kind, odd):
        first, *more = map(Path, private_files(tmp_path, monkeypatch, kind, odd))
        paths = {"private": first, "more_private": more, "public": tmp_path / "public.csv"}
        return TableFiles(**paths, target="sick", classes=["no", "yes"])

    return files


@pytest.fixture
def read(files):
    return lambda kind, odd: file_tables(files(kind, odd), ReadOptions(blanks=True, on_bad_record="zero"))


def odd_line(draw):
    odd = "".join(draw.choice(PIECES, size=draw.integers(1, 12)))
    return odd if odd.strip(" \t,") else "7,rome,no"


def others(tables):
    """Return what is read from all records but the odd one, which is not a record if the row of a sheet is blank."""
    rows, labels = tables.X_private, tables.y_private
    if len(rows) > N_ROWS:
        rows, labels = rows.drop(index=rows.index[PLACE]), labels.drop(index=labels.index[PLACE])
    return rows.to_numpy().tolist(), labels.tolist(), tables.notes, tables.columns, list(rows.columns)


def usual_record(kind):
    return "<row><c><v>7</v></c></row>" if kind == "xlsx" else "7,rome,no".replace(",", "\t" if kind == "tsv" else ",")


def odd_record(draw, kind):
    return odd_row(draw) if kind == "xlsx" else odd_line(draw)


@pytest.mark.parametrize("n_mutations", [20, 1500])
@pytest.mark.parametrize("kind", KINDS)
def test_other_records_are_read_the_same(files, kind, n_mutations):
    draw, like = np.random.default_rng(n_mutations), files("csv", "7,rome,no").expected_like_public(["age", "city"])

    def read(odd):
        table = files(kind, odd).read_private(keep_broken=True, like=like)
        return table.drop(index=table.index[PLACE]) if len(table) > N_ROWS else table

    usual = read(usual_record(kind)).to_numpy().tolist()
    assert usual == [list(record) for record in RECORDS]
    for _ in range(n_mutations):
        odd = odd_record(draw, kind)
        assert read(odd).to_numpy().tolist() == usual, odd[:500]


@pytest.mark.parametrize("n_mutations", [2, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_one_record_changes_no_other_record_and_no_note(read, kind, n_mutations):
    draw = np.random.default_rng(n_mutations)
    usual = others(read(kind, usual_record(kind)))
    assert [row[0] for row in usual[0]] == [float(record[0]) for record in RECORDS]
    assert usual[1] == [record[2] for record in RECORDS]
    for _ in range(n_mutations):
        odd = odd_record(draw, kind)
        assert repr(others(read(kind, odd))) == repr(usual), odd[:500]


def test_all_kinds_hold_the_same_table(read):
    odd = {"xlsx": '<row><c t="str"><v>7</v></c></row>', "tsv": "7\t\t"}
    tables = [read(kind, odd.get(kind, "7,,")) for kind in KINDS]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table.X_private, tables[0].X_private)
        pd.testing.assert_series_equal(table.y_private, tables[0].y_private)


def test_a_packed_file_that_ends_too_soon_or_asks_for_much_memory_is_refused(tmp_path, monkeypatch):
    text = of_lines(",".join(record) for record in RECORDS * 3000)
    for kind in ("csv.bz2", "csv.xz", "csv.zst"):
        path = tmp_path / f"t.{kind}"
        path.write_bytes(PACKED[kind](text)[:-20])
        with pytest.raises(FileError, match="cannot be read"):
            read_table(path)
    path = tmp_path / "t.csv.xz"
    path.write_bytes(lzma.compress(text))
    assert len(read_table(path)) == len(RECORDS) * 3000
    monkeypatch.setattr(_files, "_LARGEST_WINDOW", 2**20)
    with pytest.raises(FileError, match="needs much memory"):
        read_table(path)


def test_a_small_packed_file_cannot_fill_the_memory_with_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_LONGEST_LINE", 2**18)
    for kind in ("csv.bz2", "csv.xz", "csv.zst"):
        path = tmp_path / f"t.{kind}"
        path.write_bytes(PACKED[kind](b"a,b\n" + b"1" * 2**20))
        with pytest.raises(FileError, match="it has a line of more than"):
            read_table(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_a_named_pipe_is_read_from_a_late_or_silent_program_and_never_awaited_in_vain(tmp_path, monkeypatch):
    path, text = tmp_path / "pipe", of_lines(map(",".join, RECORDS))
    os.mkfifo(path)
    with pytest.raises(FileError, match="cannot be read"):
        read_table(path)
    monkeypatch.setattr(_files, "_PAUSE", 10)
    late = threading.Thread(target=path.write_bytes, args=(text,))
    late.start()
    assert len(read_table(path)) == len(RECORDS)
    late.join()
    monkeypatch.setattr(_files, "_PAUSE", 0.001)
    silent = os.open(path, os.O_RDWR)
    later = threading.Timer(0.05, lambda: (os.write(silent, text), os.close(silent)))
    later.start()
    assert len(read_table(path)) == len(RECORDS)
    later.join()
    columns = TableFiles(private=path, public=None, declared_columns=path, target="y", classes=["no", "yes"])
    with pytest.raises(FileError, match="no program writes into the pipe"):
        columns.declared_features()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400).round(3), "site": rng.choice(["A", "B"], 400)})
    table["y"] = np.where(table["x"] > 0, "yes", "no")
    table[:150].to_csv(tmp_path / "one.csv", index=False)
    # Columns in another order.
    table[150:300][["y", "site", "x"]].to_csv(tmp_path / "two.csv", index=False)
    table[:300].to_csv(tmp_path / "both.csv", index=False)
    table[300:].drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    write(tmp_path / "both.xlsx", tuple(table.columns), *table[:300].itertuples(index=False))
    monkeypatch.chdir(tmp_path)
    return tmp_path


ABOUT = ("--target", "y", "--classes", "no,yes")
RUN = (*ABOUT, "--epsilon", "1", "--delta", "1e-4", "--insecure-release-seed", "0", "--quiet")


def labels_of(capsys, *private, public="public.csv", out="run"):
    given = [word for path in private for word in ("--private", path)]
    code = main(["train", *given, "--public", public, *RUN, "--out", out, "--overwrite"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    main(["predict", out, "public.csv", "--proba"])
    return shown, rounded(capsys.readouterr().out)


def rounded(text):
    """Return probabilities without the last digits, which follow from how arrays lie in memory."""
    return re.sub(r"(\d\.\d{9})\d+", r"\1", text)


def test_several_files_a_workbook_and_a_pipe_are_one_table(folder, capsys, monkeypatch):
    whole = labels_of(capsys, "both.csv")[1]
    assert labels_of(capsys, "one.csv", "two.csv")[1] == whole
    assert labels_of(capsys, "both.xlsx")[1] == whole
    standard_input(monkeypatch, (folder / "both.csv").read_bytes())
    shown, labels = labels_of(capsys, "-")
    assert labels == whole
    assert "--private is a pipe, which can be read only once, so 'dpensemble recover' cannot finish" in shown.err
    standard_input(monkeypatch, (folder / "public.csv").read_bytes())
    assert labels_of(capsys, "both.csv", public="-")[1] == whole
    standard_input(monkeypatch, (folder / "public.csv").read_bytes())
    assert main(["predict", "run", "-", "--proba"]) == 0
    assert rounded(capsys.readouterr().out) == whole


def test_verify_reads_a_pipe(tmp_path, capsys, monkeypatch):
    path = tmp_path / "c.json"
    assert main(["plan", "pate", "--teachers", "20", "--epsilon", "8", "--certificate", str(path)]) == 0
    capsys.readouterr()
    assert main(["verify", str(path)]) == 0
    sentence = capsys.readouterr().out
    standard_input(monkeypatch, path.read_bytes())
    assert (main(["verify", "-"]), capsys.readouterr().out) == (0, sentence)
    standard_input(monkeypatch, b"{")
    assert (main(["verify", "-"]), "- is not a certificate" in capsys.readouterr().err) == (2, True)


def test_check_reads_several_files_and_states_the_layout_of_each(folder, capsys):
    code = main(["check", "--private", "one.csv", "--private", "two.csv", "--public", "public.csv", *ABOUT])
    shown = capsys.readouterr().out
    assert (code, "300 records" in shown, "private 2 file: ',' separates" in shown) == (0, True, True)
    assert main(["check", "--private", "both.xlsx", "--sheet", "Data", "--public", "public.csv", *ABOUT]) == 0
    assert "private file: sheet 'Data'; the header is line 1" in capsys.readouterr().out


def test_predict_prints_nothing_if_a_later_line_cannot_be_read(folder, capsys, monkeypatch):
    labels_of(capsys, "both.csv")
    standard_input(monkeypatch, (folder / "public.csv").read_bytes() + b"1,A,too,many\n")
    assert main(["predict", "run", "-"]) == 2
    shown = capsys.readouterr()
    assert (shown.out, "entries" in shown.err) == ("", True)
    standard_input(monkeypatch, b"PAR1")
    assert main(["predict", "run", "-"]) == 2
    assert "only CSV comes through a pipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (["one.csv", "one.csv"], DataError, "names one file twice"),
        (["one.csv", "public.csv"], DataError, "the public table is the private table itself"),
        (["one.csv", "other.csv"], DataError, "has other columns than one.csv: write"),
        (["one.csv", "."], DataError, "cannot be folders"),
    ],
)
def test_several_files_that_do_not_belong_together_are_refused(folder, given, error, message):
    (folder / "other.csv").write_text("x,site,y,secret\n1,A,no,2\n2,B,yes,3\n")
    (folder / "rows").mkdir()
    (folder / "public.csv").rename(folder / "rows" / "public.csv")
    (folder / "public.csv").symlink_to(folder / "rows" / "public.csv")
    first, *more = map(Path, given)
    public = folder / "rows" / "public.csv" if "." not in given else None
    declared = folder / "columns.json"
    declared.write_text('{"x": [-3, 3], "site": ["A", "B"]}')
    files = {"private": first, "more_private": more, "public": public, "target": "y", "classes": ["no", "yes"]}
    with pytest.raises(error, match=message) as caught:
        file_tables(TableFiles(**files, declared_columns=None if public else declared))
    assert "secret" not in str(caught.value)


def test_only_one_table_comes_through_a_pipe(folder, capsys):
    files = {"private": Path("-"), "public": Path("/dev/stdin"), "target": "y", "classes": ["no", "yes"]}
    with pytest.raises(InvalidParameterError, match="--private and --public are pipes, and only one can be"):
        file_tables(TableFiles(**files))
    private = ("--private", "duckdb:a.duckdb:t", "--private", "one.csv")
    code = main(["train", *private, "--public", "public.csv", *RUN, "--out", "r"])
    assert (code, "several private tables must be files" in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("n_mutations", [2, 40])
def test_others_see_the_same_run_whatever_one_row_of_a_workbook_holds(folder, capsys, n_mutations):
    """Words, exit code and files. Numbers come from noisy sums."""
    draw, table = np.random.default_rng(n_mutations), pd.read_csv("both.csv")
    records = list(table.itertuples(index=False))

    def seen(odd):
        write(folder / "p.xlsx", sheets=[("S", "visible", sheet_with(odd, tuple(table.columns), records, 7))])
        shown, _ = labels_of(capsys, "p.xlsx")
        words = re.sub(r"[-+]?\d[\d,.]*(e[-+]?\d+)?", "#", shown.out + shown.err)
        return words, sorted(path.name for path in (folder / "run").iterdir())

    usual = seen('<row><c t="str"><v>1</v></c></row>')
    for _ in range(n_mutations):
        odd = odd_row(draw)
        # Under replace-one the number of records is public.
        entry = '<c t="str"><v>1</v></c>'
        assert seen(odd.replace("<c", f"{entry}<c", 1) if "<c" in odd else f"<row>{entry}</row>") == usual, odd[:500]
