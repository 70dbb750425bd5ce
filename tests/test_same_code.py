"""A process knows whether the files of this library are those that it runs."""

import os

import pytest

from dpensemble import _same_code
from dpensemble._same_code import other_versions, require_unchanged, versions
from dpensemble.datasets.partitions import results_of
from dpensemble.errors import InvalidParameterError


@pytest.fixture
def changed(monkeypatch):
    """This process, after one of its source files got another time."""
    (name, size, time), *others = _same_code._LOADED
    monkeypatch.setattr(_same_code, "_LOADED", ((name, size, time - 1), *others))


def test_stamps_see_a_changed_a_new_and_a_removed_file(tmp_path):
    (tmp_path / "deeper").mkdir()
    file = tmp_path / "deeper" / "one.py"
    file.write_text("a = 1\n")
    before = _same_code._stamps(str(tmp_path))
    assert [stamp[:2] for stamp in before] == [("deeper/one.py", 6)]
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "one.py").touch()
    assert _same_code._stamps(str(tmp_path)) == before
    os.utime(file, ns=(0, before[0][2] + 1))
    assert _same_code._stamps(str(tmp_path)) != before
    os.utime(file, ns=(0, before[0][2]))
    assert _same_code._stamps(str(tmp_path)) == before
    (tmp_path / "two.py").touch()
    assert _same_code._stamps(str(tmp_path)) != before
    file.unlink()
    assert _same_code._stamps(str(tmp_path))[0][0] == "two.py"


def test_the_digest_is_that_of_the_files(tmp_path, monkeypatch):
    digests = set()
    for text in ("a = 1\n", "a = 2\n", "a = 1\n"):
        (tmp_path / "one.py").write_text(text)
        monkeypatch.setattr(_same_code, "_PACKAGE", str(tmp_path))
        monkeypatch.setattr(_same_code, "_LOADED", _same_code._stamps(str(tmp_path)))
        _same_code._digest.cache_clear()
        digests.add(_same_code._source_digest())
    _same_code._digest.cache_clear()
    assert len(digests) == 2
    # An archive has no files to compare.
    monkeypatch.setattr(_same_code, "_LOADED", ())
    monkeypatch.setattr(_same_code, "_PACKAGE", str(tmp_path / "none.zip"))
    assert _same_code._source_digest() == _same_code._OF_NOBODY


def test_a_process_whose_files_changed_works_with_no_other_process(changed):
    wanted = versions()
    # With itself, since its memory is as before.
    assert other_versions(wanted) == ""
    assert other_versions(wanted | {"the source of dpensemble": "0123"}).startswith("other source files of dpensemble")
    with pytest.raises(InvalidParameterError, match="start this process and all workers again"):
        require_unchanged("scheduler")


def test_several_processes_are_refused_while_files_change(changed):
    with pytest.raises(InvalidParameterError, match="source files of dpensemble changed"):
        list(results_of(len, [], n_jobs=2))


def test_other_versions_are_named():
    assert other_versions(versions() | {"python": "3.2"}).endswith(", but must have 3.2")
    assert other_versions(versions()) == ""
