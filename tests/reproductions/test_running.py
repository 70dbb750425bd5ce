"""Runs go on where they were stopped, and never from results of another kind."""

import errno
import json
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

from dpensemble.errors import FileError
from dpensemble.workflow import disk
from reproductions import Need, RunSettings, TableResult, reproduce
from reproductions import store as store_module
from reproductions.store import Workplace


@pytest.fixture
def run(tmp_path, counter):
    said = []

    def run(table, *, strict=True, **settings):
        said.clear()
        counter.ran.clear()
        return reproduce([table], RunSettings(out=tmp_path, **settings), said.append, strict=strict)

    run.said = said
    return run


def test_published_reproduced_and_difference_are_of_the_same_entry(tiny, run):
    (result,) = run(tiny())
    one, three = result.entries
    assert (one.published, one.runs) == (1.0, 4)
    assert one.reproduced == pytest.approx(1.0, abs=0.05)
    assert 0 < one.spread < 0.05
    assert three.difference == pytest.approx(three.reproduced - 3.5)
    assert one.beside["median"] == pytest.approx(1.0, abs=0.05)
    assert one.agrees(2) is True
    assert three.agrees(2) is False
    assert result.counts() == {"published": 2, "agree": 1, "differ": 1, "unknown": 0, "missing": 0}
    assert "1 differs by more" in result.verdict()


def test_few_runs_do_not_tell(tiny, run):
    (result,) = run(tiny(), quick=True)
    assert [entry.spread for entry in result.entries] == [None, None]
    assert result.counts()["unknown"] >= 1
    (result,) = run(tiny(), repeats=2)
    assert result.entries[1].agrees(2) is None
    assert "run too few times (below 3) to judge" in result.verdict()


def test_a_stopped_run_goes_on_where_it_was(tiny, run, counter):
    counter.stop_at = ("three", 1)
    with pytest.raises(KeyboardInterrupt):
        run(tiny())
    done = list(counter.ran)
    assert done == [("one", 0), ("three", 0), ("one", 1)]
    counter.stop_at = None
    (resumed,) = run(tiny())
    assert set(counter.ran) == {(name, repeat) for name in ("one", "three") for repeat in range(4)} - set(done)
    assert "3 are there already" in run.said[-1]
    (again,) = run(tiny())
    assert counter.ran == []
    assert again.entries == resumed.entries
    assert run.said == ["Nothing is left to run; 8 are there already."]


def test_the_estimate_is_told_beforehand(tiny, run):
    run(tiny())
    assert run.said[0] == "8 parts to run, about 16 s on one core."


def test_more_repeats_go_on_from_fewer(tiny, run, counter):
    run(tiny(), repeats=1)
    run(tiny(), repeats=2)
    assert counter.ran == [("one", 1), ("three", 1)]


def test_quick_results_are_never_taken_for_full_ones(tiny, run, counter):
    run(tiny(), quick=True)
    run(tiny())
    assert len(counter.ran) == 8


@pytest.mark.parametrize("other", [{"seed": 5}, {"revision": 2}])
def test_other_seeds_and_revisions_are_run_anew(tiny, run, counter, other):
    run(tiny(), repeats=1)
    revision, seed = other.get("revision", 1), other.get("seed", 0)
    run(tiny(revision=revision), repeats=1, seed=seed)
    assert len(counter.ran) == 2


def later(name, number):
    """Return a lookup of versions in which one library has another."""
    return lambda asked: number if asked == name else version(asked)


def test_a_run_stopped_and_resumed_with_another_version_starts_again_and_names_both(tiny, run, counter, monkeypatch):
    counter.stop_at = ("three", 1)
    with pytest.raises(KeyboardInterrupt):
        run(tiny())
    counter.stop_at = None
    monkeypatch.setattr(store_module, "version", later("numpy", "99.1"))
    (result,) = run(tiny())
    assert len(counter.ran) == 8
    assert "3 earlier results are not used, and run again" in run.said[0]
    assert f"made with numpy {np.__version__} and not 99.1" in run.said[0]
    assert "scikit-learn" not in run.said[0]
    assert result.versions["numpy"] == "99.1"


def test_versions_of_the_libraries_that_an_experiment_needs_count_too(tiny, run, counter, monkeypatch):
    needs = (Need(name="pandas", missing=lambda: None, package="pandas"),)
    run(tiny(needs=needs), repeats=1)
    monkeypatch.setattr(store_module, "version", later("pandas", "99.1"))
    run(tiny(needs=needs), repeats=1)
    assert len(counter.ran) == 2
    assert "and not 99.1" in run.said[0]
    run(tiny(needs=needs), repeats=1)
    assert counter.ran == []


def test_an_array_of_another_version_is_made_again(tmp_path):
    for number in (1, 2, 2):
        place = Workplace(tmp_path, versions={"torch": str(number)})
        assert place.kept(("votes",), lambda number=number: np.array([number])).tolist() == [number]
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_the_estimate_follows_the_pace_of_the_parts_that_are_done(tiny, run, tmp_path):
    run(tiny(), repeats=1)
    for path in (tmp_path / "cells" / "full" / "tiny").glob("*.json"):
        stored = json.loads(path.read_text()) | {"seconds": 200.0, "cpu_seconds": None}
        path.write_text(json.dumps(stored))
    run(tiny(), repeats=3)
    # Two parts declared as 4 s took 400 s, so the other four take about 13 times the declared 8 s.
    assert run.said[0] == "4 parts to run, about 2 min on one core; 2 are there already."


@pytest.mark.parametrize(("n_jobs", "known"), [(1, True), (2, False)])
def test_cpu_time_is_known_without_workers_only(tiny, run, n_jobs, known):
    (result,) = run(tiny(), repeats=1, n_jobs=n_jobs)
    assert (result.cpu_seconds is not None) is known
    assert TableResult.from_dict(result.to_dict()) == result


@pytest.mark.parametrize("content", ["", "{", "[]", '{"stamp": 3, "figures": {}, "seconds": 1}', '{"figures": 2}'])
def test_a_broken_file_is_run_anew(tiny, run, counter, tmp_path, content):
    run(tiny(), repeats=1)
    (tmp_path / "cells" / "full" / "tiny" / "one-run0.json").write_text(content)
    run(tiny(), repeats=1)
    assert counter.ran == [("one", 0)]
    assert "1 earlier result is not used" in run.said[0]


def test_missing_data_are_named_with_where_to_put_them(tiny, run, absent):
    with pytest.raises(FileError, match="tiny-1 needs the moon: put it into the folder that DPENSEMBLE_DATA names"):
        run(tiny(needs=(absent,)))
    assert run(tiny(needs=(absent,)), strict=False) == []
    assert "tiny-1 is left out: it needs the moon" in run.said[0]


def test_a_full_disk_ends_in_one_sentence_and_costs_nothing_that_was_finished(tiny, run, counter, monkeypatch):
    def full(name):
        if name.startswith("write the rest of .one-run1.json"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "step", full)
    with pytest.raises(FileError, match=r"one-run1.json cannot be written \(No space left on device\); what was fini"):
        run(tiny())
    monkeypatch.setattr(disk, "step", lambda name: None)
    run(tiny())
    assert ("one", 0) not in counter.ran
    assert ("one", 1) in counter.ran


def test_arrays_are_kept_by_what_they_were_made_from(tmp_path):
    place, made = Workplace(tmp_path), []

    def make():
        made.append(1)
        return np.arange(3)

    rows = np.ones((2, 2))
    for _ in range(2):
        assert place.kept((rows, "forest", 3), make).tolist() == [0, 1, 2]
    assert len(made) == 1
    for other in ((rows + 1, "forest", 3), (rows, "forest", 4), (rows.astype(np.float32), "forest", 3)):
        place.kept(other, make)
    assert len(made) == 4


def test_arrays_are_found_again_by_another_process(tmp_path):
    script = (
        "import sys; import numpy as np; from pathlib import Path; "
        "from sklearn.preprocessing import FunctionTransformer; "
        "from reproductions.store import Workplace; "
        "made_from = (FunctionTransformer, FunctionTransformer(np.flip).get_params()); "
        "kept = Workplace(Path(sys.argv[1])).kept(made_from, lambda: np.array([int(sys.argv[2])])); print(kept[0])"
    )
    said = [
        subprocess.run([sys.executable, "-c", script, str(tmp_path), n], capture_output=True, text=True, check=True)
        for n in ("1", "2")
    ]
    assert [process.stdout for process in said] == ["1\n", "1\n"]


def test_half_an_array_is_made_anew(tmp_path):
    place = Workplace(tmp_path)
    place.kept(("a",), lambda: np.arange(100))
    (path,) = tmp_path.glob("*.npy")
    path.write_bytes(path.read_bytes()[:50])
    assert place.kept(("a",), lambda: np.arange(100)).sum() == 4950


def test_what_a_kill_leaves_half_written_is_not_read(tiny, run, counter, tmp_path):
    counter.stop_at = ("one", 1)
    with pytest.raises(KeyboardInterrupt):
        run(tiny())
    (tmp_path / "cells" / "full" / "tiny" / ".one-run1.json.123").write_text('{"stamp"')
    (tmp_path / "arrays" / "half.draft").write_bytes(b"half")
    counter.stop_at = None
    (result,) = run(tiny())
    assert [entry.runs for entry in result.entries] == [4, 4]
    assert ("one", 0) not in counter.ran


def test_stored_cells_are_plain_json(tiny, run, tmp_path):
    run(tiny(), repeats=1)
    found = json.loads((tmp_path / "cells" / "full" / "tiny" / "one-run0.json").read_text())
    assert set(found) == {"stamp", "seconds", "cpu_seconds", "figures"}
    assert found["stamp"]["settings"] == {"means": {"one": 1.0, "three": 3.0}}
