"""Messages about faults: one true sentence, without a private entry."""

import contextlib
import json
import signal
import subprocess
import sys
import threading

import pandas as pd
import pytest

from dpensemble.cli import main
from dpensemble.cli.interrupts import Interrupts, Terminated

from ..deadline import GUARD


@pytest.fixture
def refused(command, tmp_path, tables, capsys):
    """Run a training on spoiled tables, and return its message, which must be one sentence with nothing left behind."""

    def refused(private, *more, header=True, without=()):
        private.to_csv(tmp_path / "private.csv", index=False, header=header)
        line = [*map(str, command(tmp_path / "out", "--on-bad-record", "raise", *more))]
        for option in without:
            at = line.index(option)
            del line[at : at + 2]
        line[line.index("--private") + 1] = str(tmp_path / "private.csv")
        code = main(line)
        out, errors = capsys.readouterr()
        assert (code, out, errors.count("\n")) == (2, "", 1), errors
        assert sorted(path.name for path in tmp_path.iterdir()) == ["private.csv"]
        return errors

    return refused


@pytest.fixture
def private(tables):
    return pd.read_csv(tables / "private.csv")


RECORD = "Erika Mustermann"


def test_a_table_without_a_header_gives_no_record_away(refused, private):
    private = private.astype(object)
    private.iloc[0] = [RECORD, 171.5, 63.25, 1]
    said = refused(private, header=False)
    assert "names none of the columns of the public table: write names there" in said
    for entry in (RECORD, "171.5", "63.25"):
        assert entry not in said


def test_columns_that_the_public_table_lacks_are_not_named(refused, private):
    said = refused(private.assign(**{RECORD: 1}))
    assert "columns that the public table lacks: 1 of 4; drop" in said
    assert RECORD not in said


def test_a_budget_of_a_column_named_by_mistake_is_not_told(refused, private):
    private["consent"] = RECORD
    for more in (("--budgets", "consent"), ("--budgets", "consent", "--levels", "high=1,low=2")):
        said = refused(private, "--method", "weighting-pate", *more, without=("--epsilon", "--scale"))
        assert "in row 0" in said
        assert RECORD not in said


def test_labels_of_text_among_numeric_classes(refused, private):
    said = refused(private.assign(y=private["y"].map({0: "no", 1: RECORD})))
    assert "the private table's target has labels that are not numbers, but all of classes=[0, 1] are" in said
    assert RECORD not in said


def test_a_table_of_one_row(refused, private):
    assert "the private table has only one row" in refused(private[:1])


DAMAGES = [
    (name, value)
    for name in (
        "guarantee",
        "budget",
        "labels",
        "data",
        "settings",
        "versions",
        "seconds",
        "groups",
        "worst_case_spend",
    )
    for value in (None, 7, "x", [], {}, [7])
]


def test_a_damaged_record_is_refused_in_a_sentence(command, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*map(str, command(out, "--private-report"))]) == 0
    record = json.loads((out / "run.json").read_text())
    page = (out / "report.html").read_bytes()
    for name, value in DAMAGES:
        (out / "run.json").write_text(json.dumps(record | {name: value}))
        capsys.readouterr()
        code = main(["report", str(out)])
        errors = capsys.readouterr().err
        # A value as good as any other, such as a number of labels, is not one that a message could reveal.
        assert code in (0, 2), (name, value, errors)
        if code == 2:
            assert errors.startswith("dpensemble: ")
            assert errors.count("\n") == 1
            assert (out / "report.html").read_bytes() == page or "damaged" in errors
        page = (out / "report.html").read_bytes()
    for text in ("", "[]", "{}", "7", "\x00", json.dumps(record)[:-200]):
        (out / "run.json").write_text(text)
        capsys.readouterr()
        assert main(["report", str(out)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


WAITING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dpensemble.cli import main
from dpensemble.cli.interrupts import Interrupts, Terminated
real = __import__("builtins").__import__
def slowly(name, *arguments, **named):
    if name.startswith("{module}"):
        try:
            print("importing", flush=True)
            signal.pause()
        except BaseException:
            # As some libraries do with what comes while they are imported.
            raise ImportError("something went wrong") from None
    return real(name, *arguments, **named)
__import__("builtins").__import__ = slowly
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["typer", "pandas", "sklearn.linear_model"])
@pytest.mark.parametrize(("number", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_told_to_stop_while_importing(command, tmp_path, module, number, code, word):
    line = [sys.executable, "-c", WAITING.replace("{module}", module), *map(str, command(tmp_path / "out"))]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "importing\n"
    process.send_signal(getattr(signal, number))
    _, errors = process.communicate(timeout=GUARD)
    assert (process.returncode, errors) == (code, f"dpensemble: {word}; nothing was written.\n")


# Workers learn without end, and this process states when the first ones have learned.
LEARNING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dpensemble.cli import main
from dpensemble.cli.interrupts import Interrupts, Terminated
from dpensemble.teachers import ensemble
in_parallel = ensemble._in_parallel
def without_end(work, call, tasks, *given, waves):
    for number, done in enumerate(in_parallel(work, call, tasks * 10_000, *given, waves=10**6)):
        if number == 0:
            print("learned", flush=True)
        yield done
ensemble._in_parallel = without_end
sys.exit(main())
"""


def test_told_to_stop_while_workers_learn(command, tmp_path):
    """Neither a line of a worker, nor one of joblib, comes beside the sentence."""
    line = [*map(str, command(tmp_path / "out", "--teacher", "random-forest"))]
    line[line.index("--jobs") + 1] = "2"
    line[line.index("--teachers") + 1] = "120"
    process = subprocess.Popen(
        [sys.executable, "-c", LEARNING, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "learned\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=GUARD)
    assert (process.returncode, errors) == (143, "dpensemble: terminated; nothing was written.\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_after_the_files_are_in_place_says_so(command, tmp_path, capsys, monkeypatch, request):
    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("dpensemble.cli.train.print_run", interrupted)
    # A suite that runs in the background is started with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    assert main([*map(str, command(tmp_path / "out"))]) == 130
    said = f"dpensemble: interrupted; the release was finished and stands in {tmp_path / 'out'}.\n"
    assert capsys.readouterr().err.lstrip("\n") == said
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_library_swallowed_is_heeded_before_anything_is_spent(command, tmp_path, capsys, monkeypatch):
    from dpensemble.cli import train

    def deaf(tables, model, **settings):
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        return real(tables, model, **settings)

    real = train.run_training
    monkeypatch.setattr(train, "run_training", deaf)
    assert main([*map(str, command(tmp_path / "out"))]) == 143
    assert capsys.readouterr().err == "dpensemble: terminated; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_a_thread_that_fails_after_a_signal_prints_nothing(monkeypatch, request, number):
    """A thread of joblib may find that an interrupt removed its tasks. Without a signal its failure is printed."""
    if number is not None:
        usual = signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler
        before = signal.signal(number, usual)
        request.addfinalizer(lambda: signal.signal(number, before))
    printed = []
    monkeypatch.setattr(threading, "excepthook", lambda failed: printed.append(failed.exc_type))
    usual = threading.excepthook
    interrupts = Interrupts()
    with contextlib.suppress(Terminated, KeyboardInterrupt), interrupts.listening(for_good=False):
        try:
            if number is not None:
                signal.raise_signal(number)
        finally:
            thread = threading.Thread(target={}.__getitem__, args=(7,))
            thread.start()
            thread.join()
    assert printed == ([KeyError] if number is None else [])
    assert threading.excepthook is usual
