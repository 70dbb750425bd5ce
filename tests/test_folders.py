"""The name of a new folder is on the disk before anything in the folder counts."""

import os
import sys

import pytest

from dpensemble import _folders, _state_home
from dpensemble.server import Ledger
from dpensemble.workflow import disk
from dpensemble.workflow.run_folder import claimed_folder

reads_open_folders = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads names of open folders from /proc")


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
    _folders.make_folder(tmp_path / "a" / "b", 0o700)
    assert flushed == [str(tmp_path), str(tmp_path / "a")]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    # A killed process may have made the folder without a flush.
    _folders.make_folder(tmp_path / "a" / "b")
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
    assert _state_home.signature_of(b"journal")
    assert flushed[0] == str(tmp_path)
    assert flushed[-1] == str(tmp_path / "state")


@reads_open_folders
def test_a_ledger_begins_with_its_folders_on_the_disk(tmp_path, flushed, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "home" / "state"))
    Ledger.create(tmp_path / "ledger.db")
    assert flushed[:2] == [str(tmp_path), str(tmp_path / "home")]
