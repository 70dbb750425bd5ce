"""A process knows whether the files of this library are those that it runs."""

import os

import pytest

from dpensemble.clusters import vetting
from dpensemble.clusters.base import results_of
from dpensemble.clusters.vetting import OpaqueTask, other_versions, require_unchanged, versions
from dpensemble.errors import InvalidParameterError


@pytest.fixture
def changed(monkeypatch):
    """This process, after one of its source files got another time."""
    (name, size, time), *others = vetting._LOADED
    monkeypatch.setattr(vetting, "_LOADED", ((name, size, time - 1), *others))


def test_stamps_see_a_changed_a_new_and_a_removed_file(tmp_path):
    (tmp_path / "deeper").mkdir()
    file = tmp_path / "deeper" / "one.py"
    file.write_text("a = 1\n")
    before = vetting._stamps(str(tmp_path))
    assert [stamp[:2] for stamp in before] == [("deeper/one.py", 6)]
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "one.py").touch()
    assert vetting._stamps(str(tmp_path)) == before
    os.utime(file, ns=(0, before[0][2] + 1))
    assert vetting._stamps(str(tmp_path)) != before
    os.utime(file, ns=(0, before[0][2]))
    assert vetting._stamps(str(tmp_path)) == before
    (tmp_path / "two.py").touch()
    assert vetting._stamps(str(tmp_path)) != before
    file.unlink()
    assert vetting._stamps(str(tmp_path))[0][0] == "two.py"


def test_the_digest_is_that_of_the_files(tmp_path, monkeypatch):
    digests = set()
    for text in ("a = 1\n", "a = 2\n", "a = 1\n"):
        (tmp_path / "one.py").write_text(text)
        monkeypatch.setattr(vetting, "_PACKAGE", str(tmp_path))
        monkeypatch.setattr(vetting, "_LOADED", vetting._stamps(str(tmp_path)))
        vetting._digest.cache_clear()
        digests.add(vetting._source_digest())
    vetting._digest.cache_clear()
    assert len(digests) == 2
    # An archive has no files to compare.
    monkeypatch.setattr(vetting, "_LOADED", ())
    monkeypatch.setattr(vetting, "_PACKAGE", str(tmp_path / "none.zip"))
    assert vetting._source_digest() == vetting._OF_NOBODY


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


def test_a_worker_of_other_versions_does_not_load_the_task(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "get_worker", lambda: None)
    with pytest.raises(InvalidParameterError, match=r"a worker with python .* must have 3.2"):
        OpaqueTask(b"no pickle", versions() | {"python": "3.2"})()
