"""The name of a new folder is on the disk before anything in the folder counts.

Files of strangers: within limits of size, depth and length of numbers, and one sentence for all others.
"""

import contextlib
import errno
import gzip
import io
import json
import math
import os
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpensemble import _files
from dpensemble._files import UnfitJSONError, file_bytes, parse_json, read_json
from dpensemble.cli import main
from dpensemble.datasets import arrow, csv
from dpensemble.datasets.tables import table_chunks
from dpensemble.errors import DPEnsembleError, FileError
from dpensemble.persistence import load_classifier
from dpensemble.server import Ledger
from dpensemble.server.settings import read_settings
from dpensemble.server.sign_in import KeyFile
from dpensemble.workflow import disk
from dpensemble.workflow.disk import _kept_in
from dpensemble.workflow.outputs import load_run
from dpensemble.workflow.run_folder import Journal, claimed_folder
from dpensemble.workflow.table_files import TableFiles

reads_open_folders = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads names of open folders from /proc"
)


@pytest.fixture
def flushed(monkeypatch):
    """Return the paths that were flushed, in their order."""
    paths, fsync = [], os.fsync

    def note(handle):
        paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    return paths


@reads_open_folders
def test_each_missing_folder_is_flushed_to_the_folder_above(tmp_path, flushed):
    _files.make_folder(tmp_path / "a" / "b", 0o700)
    assert flushed == [str(tmp_path), str(tmp_path / "a")]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    # A killed process may have made the folder without a flush.
    _files.make_folder(tmp_path / "a" / "b")
    assert flushed[2:] == [str(tmp_path / "a")]


@reads_open_folders
def test_a_run_is_claimed_in_a_folder_whose_name_is_on_the_disk(tmp_path, flushed, monkeypatch):
    before = {}
    monkeypatch.setattr(disk, "step", lambda name: before.setdefault(name, list(flushed)))
    with claimed_folder(tmp_path / "runs" / "out"):
        pass
    assert before["claimed"] == [str(tmp_path), str(tmp_path / "runs")]


@reads_open_folders
def test_keys_are_in_a_state_folder_whose_name_is_on_the_disk(tmp_path, flushed, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    assert _files.signature_of(b"journal")
    assert flushed[0] == str(tmp_path)
    assert flushed[-1] == str(tmp_path / "state")


@reads_open_folders
def test_a_ledger_begins_with_its_folders_on_the_disk(tmp_path, flushed, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "home" / "state"))
    Ledger.create(tmp_path / "ledger.db")
    assert flushed[:2] == [str(tmp_path), str(tmp_path / "home")]


HOSTILE = {
    "deep": b"[" * 200_000,
    "deep and closed": b"[" * 150 + b"]" * 150,
    "deep objects": b'{"a":' * 200_000,
    "a long number": b'{"a": ' + b"9" * 400 + b"}",
    "a very long number": b'{"a": ' + b"9" * 5_000 + b"}",
    "twice": b'{"schema": 1, "schema": 2}',
    "not in UTF-8": b'{"a": "\xff"}',
    "cut": b'{"a": [1, ',
    "empty": b"",
    "zeros": bytes(100),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_json_has_a_reason(content):
    with pytest.raises(UnfitJSONError, match=r"^(it|its JSON) "):
        parse_json(content)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused_unless_they_are_expected(number):
    with pytest.raises(UnfitJSONError, match="finite"):
        parse_json(number)
    assert not math.isfinite(parse_json(number, special_numbers=True))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**200), 10**200) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(VALUES)
def test_what_the_library_writes_is_read_back(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=60) | st.text('[]{}",:0123456789.eE-+truefalsn ', max_size=60).map(str.encode))
def test_any_bytes_give_a_value_or_a_reason(content):
    with contextlib.suppress(UnfitJSONError):
        parse_json(content)


def test_a_file_is_regular_short_and_no_link(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"123")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    assert file_bytes(file, largest=3) == b"123"
    assert file_bytes(tmp_path / "link", links=True) == b"123"
    for name, reason in {
        "link": "a link", "loop": "a link", "pipe": "regular", "": "folder", "file": "larger than"
    }.items():  # fmt: skip
        with pytest.raises(OSError, match=reason) as found:
            file_bytes(tmp_path / name, largest=2)
        assert found.value.strerror
    with pytest.raises(OSError, match="regular"):
        file_bytes("/dev/zero", links=True)


def test_a_link_that_comes_after_the_first_look_is_not_followed(tmp_path, plant):
    (tmp_path / "file").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    plant(os.path, "islink", lambda _: False)
    with pytest.raises(OSError, match="symbolic") as found:
        file_bytes(tmp_path / "link")
    assert found.value.errno == errno.ELOOP


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, plant):
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    status = os.fstat

    def small(handle):
        return os.stat_result((*status(handle)[:6], 1, *status(handle)[7:10]))

    plant(_files.os, "fstat", small)
    with pytest.raises(OSError, match="changed"):
        file_bytes(path, largest=3)


def test_a_missing_file_is_for_the_reader_to_judge(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none", FileError)


def zipped(members):
    file = io.BytesIO()
    # The least effort: a bomb of zeros is small anyway.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


#: The readers of files that a stranger may have written.
READERS = {
    "run.json": lambda path: load_run(path.parent, private=False),
    "journal.json": lambda path: Journal.read(path, path),
    "drawn.jsonl": lambda path: _kept_in(path, path),
    "keys.json": lambda path: KeyFile(path).read(),
    "service.toml": read_settings,
    "columns.json": lambda path: TableFiles(
        private=path, public=None, target="y", classes=None, declared_columns=path
    ).declared_features(),
    "student.skops": load_classifier,
}

SCHEMA = b'{"__class__": "dict"}'
#: The members of hostile students, which are packed only where they are read: a bomb takes seconds.
HOSTILE_STUDENTS = {
    "a bomb": lambda: [("schema.json", SCHEMA), *((f"{place}.npy", bytes(10**7)) for place in range(101))],
    "a large description": lambda: [("schema.json", bytes(65 * 10**6))],
    "a deep description": lambda: [("schema.json", HOSTILE["deep"])],
    "no description": lambda: [("other", b"")],
}


def hostile_files(name):
    yield from HOSTILE.items()
    yield "a folder", "folder"
    yield "a pipe", "pipe"
    if name == "student.skops":
        yield from ((kind, zipped(members())) for kind, members in HOSTILE_STUDENTS.items())
    if name not in ("keys.json", "service.toml", "columns.json"):
        yield "a link", "link"


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_hostile_files_in_one_sentence(tmp_path, name):
    for number, (kind, content) in enumerate(hostile_files(name)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / name
        match content:
            case "folder":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
            case "link":
                (tmp_path / "elsewhere").write_bytes(b"{}")
                path.symlink_to(tmp_path / "elsewhere")
            case _:
                # Values that are kept are whole lines.
                path.write_bytes(content + b"\n" * (name == "drawn.jsonl" and kind != "empty"))
        if name == "drawn.jsonl" and kind == "empty":
            continue
        with pytest.raises(DPEnsembleError) as found:
            READERS[name](path)
        assert "\n" not in str(found.value)


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_generated_file_ends_in_an_unforeseen_error(tmp_path, content):
    for name, read in READERS.items():
        path = tmp_path / name
        path.write_bytes(content)
        with contextlib.suppress(DPEnsembleError):
            read(path)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.zip"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_a_long_line_of_a_table_is_refused(tmp_path, monkeypatch, ending, encoding):
    monkeypatch.setattr(_files, "_LONGEST_LINE", 200_000)
    path, pack = tmp_path / f"rows{ending}", {"gz": gzip.compress, "zip": lambda raw: zipped([("rows.csv", raw)])}
    ends = pack.get(ending.rpartition(".")[2], bytes)
    # The sign has the bytes of a line break in UTF-16, in the wrong places.
    path.write_bytes(ends(("a,b\n1,2\n" + "\u0a0a" * 300_000).encode(encoding)))
    with pytest.raises(FileError, match="has a line of more than"):
        list(table_chunks(path))
    path.write_bytes(ends(("a,b\n" + "\u0a00x,2\n" * 60_000).encode(encoding)))
    assert sum(map(len, table_chunks(path))) == 60_000


def test_lines_that_are_read_together_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "_CHARACTERS_AT_ONCE", 100)
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + f"{'1' * 30},2\n" * 10)
    chunks = list(table_chunks(path))
    assert [len(one) for one in chunks] == [4, 4, 2]
    assert pd.concat(chunks).index.tolist() == list(range(10))


def test_a_large_row_group_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "_LARGEST_GROUP", 1000)
    table = pd.DataFrame({"a": np.arange(1000)})
    table.to_parquet(tmp_path / "rows.parquet", index=False)
    with pytest.raises(FileError, match="smaller row groups"):
        list(table_chunks(tmp_path / "rows.parquet"))


COMMANDS = {
    "run.json": "report RUN",
    "certificate.json": "verify RUN",
    "student.skops": "predict RUN rows.csv",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_with_code_2_and_one_sentence(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("a\n1\n")
    (tmp_path / "RUN").mkdir()
    for content in HOSTILE.values():
        (tmp_path / "RUN" / name).write_bytes(content)
        assert main(COMMANDS[name].split()) == 2
        shown = capsys.readouterr()
        assert not shown.out
        assert shown.err.count("dpensemble:") == 1
        assert "Traceback" not in shown.err
