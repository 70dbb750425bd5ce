"""Runs, their command and their catalogue.

Runs go on where they were stopped, and never from results of another kind. Every kind of cell runs, on tiny data, and
fills places that its tables have. Each printed figure of the declared tables has a place.
"""

import errno
import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from dpensemble.cli import main as command_line
from dpensemble.datasets import load_digit_images
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.workflow import disk
from reproductions import (
    TABLES,
    Need,
    Panel,
    RunSettings,
    TableResult,
    Workplace,
    bagging,
    bagging_pretrained,
    chosen,
    data,
    figure,
    personalised,
    reproduce,
    rows_of,
)
from reproductions import store as store_module
from reproductions.catalogue import read_tables
from reproductions.data import Rows


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


main = partial(command_line, app="reproductions.command")


def test_a_simulation_is_run_shown_and_resumed(capsys, tmp_path):
    arguments = ["darrm-figure-2", "--out", str(tmp_path)]
    assert main(arguments) == 0
    out, errors = capsys.readouterr()
    assert "darrm-figure-2: Of 1 published figure 1 agrees" in out
    assert "4 parts to run, about 1 s on one core." in errors
    assert "published" in (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "<table>" in (tmp_path / "results.html").read_text(encoding="utf-8")
    assert main([*arguments, "--json"]) == 0
    out, errors = capsys.readouterr()
    assert "Nothing is left to run" in errors
    (result,) = json.loads(out)
    assert result == json.loads((tmp_path / "results" / "darrm-figure-2.json").read_text())
    errors_by_law = {
        entry["column"]: entry["reproduced"]
        for entry in result["entries"]
        if entry["panel"] == "Expected error" and entry["row"] == "m=3"
    }
    assert errors_by_law["optimised"] < errors_by_law["Sub"] < errors_by_law["constant"]


def test_the_list_names_every_table(capsys):
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{table.name} " in shown for table in TABLES)
    assert main(["--list", "--json"]) == 0
    assert [entry["table"] for entry in json.loads(capsys.readouterr().out)] == [table.name for table in TABLES]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["magic"], "table='magic' is unknown: use all, or some of dpbag-1,"),
        ([], "no table was named: use all, or some of"),
        (["bagging-5"], "bagging-5 needs a network that learned ImageNet, which is not installed: run pip install"),
        (["dpbag-5", "--repeats", "0"], "repeats=0 is not an integer from 1"),
        (["dpbag-5", "--seed", "-1"], "seed=-1 is not an integer from 0"),
        (["dpbag-5", "--out", __file__], "is a file: give another folder"),
        (["dpbag-5", "--out", f"{__file__}/within"], f"since {__file__} is a file: give another folder"),
        (["dpbag-5", "--jobs", "0"], "jobs=0 is not a number of workers: use 1 or more, or -1 for all cores"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, list) else "",
)
def test_bad_input_is_refused_in_one_sentence(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    # As without the optional packages, which are installed on some machines.
    monkeypatch.setattr(data, "find_spec", lambda name: object() if name == "torch" else None)
    assert main(arguments) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert message in errors
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_is_one_screen(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80


def test_a_file_that_is_no_result_is_named_before_the_run(capsys, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.json").write_text("[]")
    assert main(["darrm-figure-2", "--out", str(tmp_path)]) == 2
    assert "notes.json is no result of python -m reproductions" in capsys.readouterr().err
    assert not (tmp_path / "cells").exists()


BY_NAME = {table.name: table for table in TABLES}


def figures(experiment, settings, place):
    found = {}
    for cell in experiment.cells(dict(experiment.settings) | settings, 0):
        found |= cell.work(place)
    assert all(np.isfinite(value) for value in found.values())
    return found


def places(*names):
    """Return the keys that tables can show."""
    return {
        figure(row, panel.title, column, beside)
        for name in names
        for table in [BY_NAME[name]]
        for row in table.rows
        for panel in table.panels
        for column in panel.columns
        for beside in ("", *table.beside)
    }


@pytest.fixture
def few_records(monkeypatch):
    def rows(data, repeat, n_public):
        rng = np.random.default_rng(repeat)
        classes = 10 if data == "mnist" else 2
        y = rng.permutation(np.arange(1200) % classes)
        X = rng.normal(size=(1200, 3)) + 2 * y[:, None]
        return Rows(X[:800], y[:800], X[800:1100], y[800:1100], X[1100:], y[1100:])

    monkeypatch.setattr(personalised, "_rows", rows)
    monkeypatch.setattr(personalised, "_learner", lambda settings: GaussianNB())


SMALL = {"teachers": 60, "law": [20, 80, 40], "votings": 1, "repeats": 1, "highs": [8], "shares": [50]}


def test_personalised_labels_of_two_classes(few_records, tmp_path):
    found = figures(BY_NAME["personalised-5"].experiment, SMALL, Workplace(tmp_path))
    assert set(found) <= places("personalised-5", "personalised-9", "personalised-figure-3") | {
        key for key in found if "Epsilon" in key
    }
    labels = found[figure("ln 8 for 50 %", "Labels", "weighting")]
    assert (
        found[figure("ln 2 for all", "Labels", "average")] < labels < found[figure("ln 8 for all", "Labels", "average")]
    )
    assert figure("ln 8 for 50 %", "Labels", "upsampling", "exact, solved") in found


def test_personalised_labels_of_ten_classes(few_records, tmp_path):
    found = figures(BY_NAME["personalised-4"].experiment, SMALL, Workplace(tmp_path))
    shown = places("personalised-3", "personalised-4", "personalised-8", "personalised-figure-2")
    assert {key for key in found if "Epsilon" not in key} <= shown
    # Better than a guess, for all the noise.
    assert found[figure("ln 8 for all", "Accuracy in %", "average")] > 15


def test_budgets_of_one_class_alone(few_records, tmp_path):
    found = figures(BY_NAME["personalised-6"].experiment, SMALL, Workplace(tmp_path))
    assert set(found) == places("personalised-6", "personalised-7", "personalised-10") & set(found)
    assert 50 < found[figure("ln 2 for all", "Voting accuracy in %", "upsampling")] <= 100


def test_costs_grow_with_sensitivities(few_records, tmp_path):
    settings = SMALL | {"ratios": [2, 4], "classes": 10}
    found = figures(BY_NAME["personalised-figure-4"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= places("personalised-figure-4")
    for kind in ("upsampling", "weighting"):
        two, four = (found[figure(personalised.ratio_row(c), "Ratio of the groups' epsilons", kind)] for c in (2, 4))
        assert 1 < two < four


@pytest.fixture
def few_images(monkeypatch):
    pytest.importorskip("torch")
    from dpensemble.neural import digit_cnn

    monkeypatch.setattr(bagging, "load_mnist", load_digit_images)
    monkeypatch.setattr(bagging, "load_fashion_mnist", load_digit_images)
    monkeypatch.setattr(bagging, "bagging_cnn", digit_cnn)
    monkeypatch.setattr(bagging, "SAME_DISTRIBUTION", 100)


def test_models_of_draws(few_images, tmp_path):
    settings = {"sizes": [500], "epochs": 3, "rival_repeats": 0, "moments": False, "repeats": 1}
    found = figures(BY_NAME["bagging-2"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= {key.replace("k=300", "k=500") for key in places("bagging-2")}
    assert found[figure("k=500", "Accuracy in %", "Bagging")] > 20
    assert found[figure("k=500", "Epsilon", "value", "exact")] == 0


def test_models_of_colour_pictures(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    from dpensemble.neural import digit_cnn

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 80)
    X = np.clip(25 * y[:, None] + rng.integers(0, 9, (80, 3072)), 0, 255).astype(np.uint8)
    tiny = replace(
        load_digit_images(), X_train=X[:60], y_train=y[:60], X_test=X[60:], y_test=y[60:], image_shape=(3, 32, 32)
    )
    monkeypatch.setattr(bagging, "load_cifar10", lambda: tiny)
    monkeypatch.setattr(bagging, "bagging_vgg16", digit_cnn)
    settings = {"sizes": [64], "epochs": 1, "rival_repeats": 0, "repeats": 1}
    found = figures(BY_NAME["bagging-3"].experiment, settings, Workplace(tmp_path))
    assert figure("k=64", "Accuracy in %", "Bagging") in found
    assert found[figure("k=64", "Delta", "value", "exact")] > 0.5


@pytest.mark.parametrize(("asked", "runs"), [(None, [3, 1, 0]), (1, [1, 1, 0])])
def test_slow_rows_have_fewer_runs(asked, runs):
    experiment = BY_NAME["bagging-3"].experiment
    names = [cell.name for cell in experiment.cells(experiment.chosen(quick=False, repeats=asked), 0)]
    assert [sum(name.startswith(f"k{k}-") for name in names) for k in (1000, 5000, 10_000)] == runs


def test_models_that_begin_from_public_images(few_images, tmp_path):
    settings = {"sizes": [500], "epochs": 2, "start_epochs": 1, "pate_epochs": 0, "repeats": 1}
    found = figures(BY_NAME["bagging-4"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= places("bagging-4")


def test_a_student_of_pate_learns_from_the_answers_of_its_row(few_images, monkeypatch, tmp_path):
    learned = []

    class Learner:
        def score(self, X, y):
            return 0.5

    def student(network, X, y, repeat):
        learned.append((len(y), network.epochs))
        return Learner()

    monkeypatch.setattr(bagging, "fit_student", student)
    monkeypatch.setattr(bagging, "plan", lambda design, **budget: SimpleNamespace(labels=20))
    settings = {"sizes": [50, 60], "answers": [5, 30], "epochs": 1, "start_epochs": 1, "repeats": 1}
    settings |= {"pate_epochs": 1, "pate_student_epochs": 7, "pate_teachers": 3, "pate_law": [1, 150, 40]}
    found = figures(BY_NAME["bagging-4"].experiment, settings, Workplace(tmp_path))
    # What epsilon 1 allows, and then each row's number.
    assert learned == [(20, 7), (5, 7), (30, 7)]
    assert found[figure("k=50", "Accuracy in %", "PATE", "exact")] == 50.0


def test_last_layers_learn_from_what_a_public_network_sees(monkeypatch, tmp_path):
    digits = load_digit_images()
    seen = []

    def squared(data, pictures):
        seen.append(len(pictures))
        return data.scaled(pictures) ** 2

    monkeypatch.setattr(bagging_pretrained, "load_cifar10", load_digit_images)
    monkeypatch.setattr(bagging_pretrained, "_seen", squared)
    monkeypatch.setattr(bagging_pretrained, "SAME_DISTRIBUTION", 100)
    monkeypatch.setattr(bagging, "plan", lambda design, **budget: SimpleNamespace(labels=30))
    settings = {"pictures": 1000, "tests": 300, "sizes": [300, 600], "answers": [10, 20], "repeats": 1}
    settings |= {"pate_teachers": 20, "pate_law": [10, 5, 2]}
    found = figures(BY_NAME["bagging-5"].experiment, settings, Workplace(tmp_path))
    # Pictures are looked at once for all cells.
    assert seen == [1000, min(300, len(digits.X_test))]
    assert found[figure("k=600", "Accuracy in %", "Bagging")] > 70
    assert found[figure("k=600", "Accuracy in %", "PATE")] > 20
    assert found[figure(bagging.MOMENTS, "Accuracy in %", "Bagging")] > 25


def test_several_models_of_one_budget(few_images, tmp_path):
    settings = {"draws": [500], "models": [1, 5], "epochs": 1, "start_epochs": 1, "repeats": 1}
    found = figures(BY_NAME["bagging-figure-1"].experiment, settings, Workplace(tmp_path))
    assert set(found) <= places("bagging-figure-1", "bagging-figure-2") | {
        figure(bagging.drawn_row(500, bagging.WITHOUT), "Accuracy in %", "N=5")
    }
    assert len(found) == 4


def test_names_are_unique_and_fit_for_a_command_line():
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names)
    experiments = {table.experiment.name: table.experiment for table in TABLES}
    assert all(table.experiment is experiments[table.experiment.name] for table in TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_printed_number_has_a_column(table):
    places = {(panel.title, column) for panel in table.panels for column in panel.columns}
    for row, printed in table.published.items():
        assert set(printed) <= places, row


@pytest.mark.parametrize("table", [t for t in TABLES if t.experiment.missing() is None], ids=lambda table: table.name)
def test_quick_runs_are_smaller_than_full_ones(table):
    def seconds(quick):
        cells = list(table.experiment.cells(table.experiment.chosen(quick=quick), 0))
        assert len({cell.name for cell in cells}) == len(cells)
        return sum(cell.seconds for cell in cells)

    assert 0 < seconds(True) <= seconds(False)


def test_all_quick_runs_together_are_meant_to_take_minutes():
    experiments = {table.experiment.name: table.experiment for table in TABLES}
    ready = [experiment for experiment in experiments.values() if experiment.missing() is None]
    cells = [cell for one in ready for cell in one.cells(one.chosen(quick=True), 0)]
    # Two cores for 10 minutes.
    assert sum(cell.seconds for cell in cells) < 2 * 10 * 60


def test_tables_are_chosen_by_name_by_beginning_or_all():
    assert [table.name for table in chosen(["dpbag-5", "dpbag-6"])[0]] == ["dpbag-5", "dpbag-6"]
    assert len(chosen(["dpbag"])[0]) == 8
    assert chosen(["all"]) == (list(TABLES), True)
    with pytest.raises(
        InvalidParameterError, match=r"table='dpbag-9' is unknown: use all, or some of dpbag-1, dpbag-2"
    ):
        chosen(["dpbag-9"])


def test_rows_as_printed_must_be_whole():
    panels = (Panel(title="A", columns=("x", "y")), Panel(title="B", columns=("x", "y")))
    assert rows_of(panels, {"r": "1 - .5 2,000"})["r"] == {("A", "x"): 1.0, ("B", "x"): 0.5, ("B", "y"): 2000.0}
    with pytest.raises(InvalidParameterError, match="has 3 entries and not 4"):
        rows_of(panels, {"r": "1 2 3"})
    assert rows_of(panels, {"r": ""}) == {"r": {}}


DECLARED = """
paper = "Nobody,"
[notes]
shared = "A shared sentence."
[experiments.tiny]
run = "dpbag"
[experiments.tiny.settings]
[[tables]]
name = "nobody-1"
where = "table 1"
title = "Nothing"
experiment = "tiny"
about = ["shared", "And one of its own."]
panels = [{ title = "A", columns = ["x"] }]
[tables.published]
row = "1"
"""


def test_a_file_declares_tables_and_shares_notes(tmp_path):
    path = tmp_path / "nobody.toml"
    path.write_text(DECLARED)
    (table,) = read_tables(path)
    assert (table.where, table.about) == ("Nobody, table 1", "A shared sentence. And one of its own.")
    assert table.published == {"row": {("A", "x"): 1.0}}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('title = "Nothing"', 'titel = "Nothing"', "table 'nobody-1' has an unknown key 'titel'"),
        ('run = "dpbag"', 'run = "magic"', "lacks or does not know 'magic'"),
        ('where = "table 1"', "", "lacks or does not know 'where'"),
        ('row = "1"', 'row = "1 2"', "has 2 entries and not 1"),
        ("[notes]", "[notes", "cannot be read as TOML"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(tmp_path, before, after, message):
    path = tmp_path / "nobody.toml"
    path.write_text(DECLARED.replace(before, after))
    with pytest.raises(FileError, match=re.escape(message)) as error:
        read_tables(path)
    assert "nobody.toml" in str(error.value)
