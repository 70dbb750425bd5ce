"""What lies beside a run's folder is data: nobody else can let a command run, empty a folder or replace a release."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dpensemble import _files
from dpensemble.cli import main
from dpensemble.errors import FileError
from dpensemble.workflow import disk
from dpensemble.workflow.recovery import recover, state_of, unfinished_run
from dpensemble.workflow.run_folder import Journal, claimed_folder, resumed_folder

BUDGETS = [{"name": "all records", "epsilon": 1.5, "delta": 1e-5}]
COMMAND = ["train", "label-moments", "--private", "p.csv", "--public", "q.csv", "--target", "y", "--classes", "0,1"]
COMMAND += ["--epsilon", "0.5", "--delta", "1e-3", "--quiet", "--out", "run"]


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def about(place, command=("train", "--out", "run")):
    return {"command": list(command), "working_folder": str(place), "inputs": {}}


def spent(place, **facts):
    """Leave a run that spent its budget and ended without a release, and return the path of its journal."""

    def ended():
        with claimed_folder(place / "run", about=about(place) | facts) as run:
            run.spend(BUDGETS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ended()
    return place / ".dpensemble-run" / "journal.json"


def changed(journal, **values):
    journal.write_text(json.dumps(json.loads(journal.read_text()) | values))
    return journal


def never(*_):
    pytest.fail("a journal that nobody vouches for was followed")


def contents(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("arguments", [["recover", "run"], ["recover", "run", "--give-up"], COMMAND])
@pytest.mark.parametrize("kind", ["folder", "file", "nothing"])
def test_a_link_in_the_place_of_the_folder_is_refused(place, tmp_path, capsys, arguments, kind):
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir()
        (target / "thesis").write_text("years of work")
    elif kind == "file":
        target.write_text("years of work")
    (place / ".dpensemble-run").symlink_to(target)
    before = contents(tmp_path)
    assert main(arguments) == 2
    assert "is not a folder but a link or a file" in capsys.readouterr().err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["journal.json", "drawn.jsonl", "lock", "new", "old", "reserve", "anything"])
def test_a_link_in_the_folder_is_refused(place, tmp_path, name):
    spent(place)
    entry = place / ".dpensemble-run" / name
    if entry.exists():
        entry.unlink()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "thesis").write_text("years of work")
    entry.symlink_to(tmp_path / "target")
    for act in (recover, lambda folder: claimed_folder(folder).__enter__()):
        with pytest.raises(FileError, match=r"is neither a file nor a folder|cannot be written"):
            act(place / "run")
    assert (tmp_path / "target" / "thesis").read_text() == "years of work"


@pytest.mark.parametrize("name", ["", "journal.json", "drawn.jsonl", "lock"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_refused(place, name, mode):
    spent(place)
    path = place / ".dpensemble-run" / name
    path.touch()
    path.chmod(stat.S_IMODE(path.stat().st_mode) | mode)
    with pytest.raises(FileError, match="can be written by other users"):
        recover(place / "run")
    with pytest.raises(FileError, match="can be written by other users"):
        claimed_folder(place / "run").__enter__()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "journal.json", "drawn.jsonl", "new"])
def test_what_belongs_to_another_user_is_refused(place, name):
    spent(place)
    path = place / ".dpensemble-run" / name
    if name == "new":
        path.mkdir()
    path.touch()
    os.chown(path, 65534, 65534)
    with pytest.raises(FileError, match="belongs to another user"):
        recover(place / "run")
    with pytest.raises(FileError, match="belongs to another user"):
        unfinished_run(place / "run", never, unsigned=True)


@pytest.mark.parametrize("at", ["spend", "spent", "files written", "finished", "place", "placed"])
def test_a_folder_that_is_exchanged_for_a_link_meanwhile_is_not_followed(place, tmp_path, monkeypatch, at):
    """Somebody who may write the parent renames the folder beside, and puts a link in its place."""
    target, reached = tmp_path / "target", []
    target.mkdir()
    for name in ("thesis", "journal.json", "lock"):
        (target / name).write_text("years of work")

    def step(name):
        if name == at and not reached:
            reached.append(name)
            (place / ".dpensemble-run").rename(place / "taken")
            (place / ".dpensemble-run").symlink_to(target)

    def write(folder):
        disk.write_file(folder / "run.json", "{}")

    monkeypatch.setattr(disk, "step", step)
    with claimed_folder(place / "run") as run:
        run.spend(BUDGETS)
        run.finish(write)
        run.place()
    assert reached
    assert {name: (target / name).read_text() for name in contents(target)} == dict.fromkeys(
        ("journal.json", "lock", "thesis"), "years of work"
    )
    assert contents(place / "run") == ["run.json"]


def test_a_journal_of_this_user_is_signed(place):
    journal = spent(place)
    assert Journal.read(journal, journal).is_signed
    assert unfinished_run(place / "run", never).budgets == BUDGETS


@pytest.mark.parametrize(
    "values",
    [
        {"about": {"command": ["train", "--out", "elsewhere"], "working_folder": "/", "inputs": {}}},
        {"out": "/elsewhere"},
        {"overwrite": True},
        {"budgets": []},
        {"signature": ""},
        {"signature": "0" * 64},
        {"written": "2020-01-01"},
    ],
)
def test_a_changed_journal_is_not_followed(place, values):
    journal = changed(spent(place), **values)
    assert not Journal.read(journal, journal).is_signed
    with pytest.raises(FileError, match=r"has no signature of the state folder .* It runs dpensemble train --out"):
        unfinished_run(place / "run", never)
    assert unfinished_run(place / "run", never, unsigned=True) is not None


@pytest.mark.parametrize("key", ["another", "public", "short", "linked", "missing"])
def test_a_key_that_others_may_have_vouches_for_nothing(place, tmp_path, key):
    journal, path = spent(place), tmp_path / "state" / "journal.key"
    assert (stat.S_IMODE(path.stat().st_mode), len(path.read_bytes())) == (0o600, 32)
    if key == "another":
        path.write_bytes(bytes(32))
    elif key == "public":
        path.chmod(0o644)
    elif key == "short":
        path.write_bytes(b"")
    elif key == "linked":
        path.rename(tmp_path / "key")
        path.symlink_to(tmp_path / "key")
    else:
        path.unlink()
    assert not Journal.read(journal, journal).is_signed
    with pytest.raises(FileError, match="--unsigned"):
        unfinished_run(place / "run", never)


def test_a_key_is_made_once(tmp_path):
    signatures = {_files.signature_of(b"journal") for _ in range(3)}
    assert len(signatures) == 1
    assert _files.is_signature_of(signatures.pop(), b"journal")
    assert contents(tmp_path / "state") == ["journal.key"]


def test_processes_that_race_for_the_first_key_sign_alike(tmp_path):
    line = "from dpensemble._files import signature_of; print(signature_of(b'journal'))"
    racers = [subprocess.Popen([sys.executable, "-c", line], stdout=subprocess.PIPE) for _ in range(4)]
    assert len({racer.communicate()[0] for racer in racers}) == 1
    assert contents(tmp_path / "state") == ["journal.key"]


@pytest.mark.parametrize(
    "command", [["keys", "create", "keys.json", "mallory"], ["ledger", "forget", "l.db"], ["serve"]]
)
@pytest.mark.parametrize("more", [[], ["--unsigned"]])
def test_a_command_that_no_run_writes_is_never_run(place, capsys, command, more):
    changed(spent(place), about=about(place, command))
    before = contents(place)
    assert main(["recover", "run", *more]) == 2
    assert "names a command other than 'train'" in capsys.readouterr().err
    assert contents(place) == before


@pytest.mark.parametrize("out", ["elsewhere", "../place/other", ".."])
def test_a_command_with_another_folder_is_refused(place, capsys, out):
    tables(place)
    journal = spent(place)
    changed(journal, about=about(place, [*COMMAND[:-1], out]))
    assert main(["recover", "run", "--unsigned"]) == 2
    assert "of the interrupted run is not" in capsys.readouterr().err
    assert contents(place) == [
        ".dpensemble-run",
        ".dpensemble-run/journal.json",
        ".dpensemble-run/lock",
        "p.csv",
        "q.csv",
    ]


def test_a_ledger_of_a_stranger_is_not_opened(place, capsys):
    charge = {"ledger": "postgresql://user@host/name", "data_set": "people", "release": "0"}
    changed(spent(place), stage="asking", about=about(place) | {"charge": charge})
    with pytest.raises(FileError, match="opens the ledger postgresql://user@host/name and runs dpensemble train"):
        unfinished_run(place / "run", never)
    # The account of what may be spent needs no ledger.
    assert main(["recover", "run", "--give-up"]) == 0
    assert "may be spent without a release" in capsys.readouterr().out


def test_a_terminal_shows_no_control_characters_of_a_journal(place, capsys):
    changed(spent(place), about=about(place, ["train", "\x1b[2J\x07", "--out", "run"]))
    assert main(["recover", "run"]) == 2
    assert not {"\x1b", "\x07"} & set(capsys.readouterr().err)


def test_the_account_needs_no_signature(place):
    changed(spent(place), signature="")
    recovered = recover(place / "run")
    assert (recovered.placed, recovered.budgets) == (False, BUDGETS)
    assert json.loads(Path(recovered.account).read_text())["budgets"] == BUDGETS


def finished(place, **values):
    """Leave a finished release that waits beside its folder."""

    def ended():
        with claimed_folder(place / "run", overwrite=True) as run:
            run.spend(BUDGETS)
            run.finish(lambda folder: disk.write_file(folder / "run.json", '{"new": 1}'))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ended()
    return changed(place / ".dpensemble-run" / "journal.json", **values)


def test_a_signed_journal_replaces_a_release(place):
    finished(place)
    (place / "run").mkdir()
    (place / "run" / "run.json").write_text('{"old": 1}')
    assert recover(place / "run").placed
    assert (place / "run" / "run.json").read_text() == '{"new": 1}'


def test_an_unsigned_journal_replaces_nothing(place, capsys):
    """A planted release would replace all that the folder holds."""
    finished(place, signature="")
    (place / ".dpensemble-run" / "new" / "thesis").write_text("evil")
    (place / "run").mkdir()
    (place / "run" / "thesis").write_text("years of work")
    assert main(["recover", "run"]) == 2
    assert "It puts the release beside it into" in capsys.readouterr().err
    assert main(COMMAND) == 2
    assert contents(place / "run") == ["thesis"]
    assert (place / "run" / "thesis").read_text() == "years of work"
    assert not recover(place / "run").placed
    assert (place / "run" / "thesis").read_text() == "years of work"


def test_an_unsigned_release_is_placed_on_request(place):
    finished(place, signature="")
    assert main(["recover", "run", "--unsigned"]) == 0
    assert (place / "run" / "run.json").read_text() == '{"new": 1}'


@pytest.mark.parametrize("record", ["", None])
def test_a_planted_journal_brings_no_files_into_a_folder(place, record):
    """Neither a record that cannot be read, nor the right digest of the record, makes a stranger's run one in place."""
    finished(place, signature="", **({} if record is None else {"record": record}))
    beside = place / ".dpensemble-run"
    if record is None:
        shutil.move(beside / "new", place / "run")
    (beside / "old").mkdir()
    (beside / "old" / "sitecustomize.py").write_text("evil")
    with pytest.raises(FileError, match="is the place of an interrupted run"):
        claimed_folder(place / "run", overwrite=True).__enter__()
    assert not (place / "run" / "sitecustomize.py").exists()


def test_a_file_in_the_place_of_the_release_is_refused(place):
    finished(place)
    shutil.rmtree(place / ".dpensemble-run" / "new")
    (place / ".dpensemble-run" / "new").write_text("")
    (place / "run").mkdir()
    (place / "run" / "thesis").write_text("years of work")
    with pytest.raises(FileError, match="holds no finished run"):
        recover(place / "run", overwrite=True)
    assert contents(place / "run") == ["thesis"]


MALFORMED = [
    "",
    "[" * 100_000,
    "null",
    "{}",
    {"stage": "claimed"},
    {"stage": 1},
    {"budgets": {}},
    {"budgets": [{"name": "x"}]},
    {"budgets": [{"name": "x", "epsilon": "1", "delta": 0}]},
    {"about": []},
    {"about": {"command": "train"}},
    {"about": {"command": ["train"], "working_folder": None, "inputs": {}}},
    {"about": {"command": ["train", 1], "working_folder": "", "inputs": {}}},
    {"about": {"command": ["train"], "inputs": {}}},
    {"about": {"command": ["train"], "working_folder": "", "inputs": []}},
    {"stage": "asking"},
    {"schema": 2},
    {"more": 1},
    {"overwrite": "yes"},
]


@pytest.mark.parametrize("values", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_journal_is_refused_in_a_sentence(place, values):
    journal = spent(place)
    if isinstance(values, str):
        journal.write_text(values)
    else:
        changed(journal, **values)
    for act in (
        recover,
        lambda folder: unfinished_run(folder, never, unsigned=True),
        lambda f: claimed_folder(f).__enter__(),
    ):
        with pytest.raises(FileError, match=r"journal of a run"):
            act(place / "run")
    assert state_of(place / "run") == f"see {journal}"


def test_a_journal_of_an_earlier_version_waits_for_a_word_of_its_owner(place):
    journal = spent(place)
    values = json.loads(journal.read_text())
    del values["signature"]
    journal.write_text(json.dumps(values))
    with pytest.raises(FileError, match="since an earlier version, another user or another machine wrote it"):
        unfinished_run(place / "run", never)
    assert isinstance(unfinished_run(place / "run", never, unsigned=True), Journal)


def tables(place):
    (place / "p.csv").write_text("a,y\n" + "".join(f"{i % 17},{int(i % 17 > 8)}\n" for i in range(120)))
    (place / "q.csv").write_text("a\n" + "".join(f"{i % 17}\n" for i in range(60)))


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize("state", ["written", "unwritable"])
def test_a_run_is_finished_with_and_without_a_state_folder(place, tmp_path, monkeypatch, capsys, state):
    tables(place)
    if state == "unwritable":
        # A file in the place of the folder also stops root.
        (tmp_path / "state").write_text("")

    def stop(*_, **__):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("dpensemble.cli.train.write_outcome", stop)
        assert main(COMMAND) == 1
    capsys.readouterr()
    if state == "unwritable":
        assert main(["recover", "run"]) == 2
        assert "runs dpensemble train label-moments --private p.csv" in capsys.readouterr().err
        assert main(["recover", "run", "--unsigned"]) == 0
    else:
        assert main(["recover", "run"]) == 0
    assert "stands in" in capsys.readouterr().out
    assert (place / "run" / "run.json").exists()


def stopped_and_copied(place, patch, step):
    """Leave a run that stopped at a step, and a copy of the folder beside it, as a back-up has."""
    tables(place)

    def stop(*_, **__):
        raise ZeroDivisionError

    with patch.context() as patched:
        patched.setattr("dpensemble.cli.train.rehearse", lambda *_, **__: None)
        patched.setattr(step, stop)
        assert main(COMMAND) == 1
    shutil.copytree(place / ".dpensemble-run", place / "copy")


def put_back(place):
    """Move the release away, and put the copy of the folder beside back."""
    (place / "run").rename(place / "first")
    shutil.copytree(place / "copy", place / ".dpensemble-run")


@pytest.mark.usefixtures("few_synthetic_rows")
@pytest.mark.parametrize("signed", [True, False])
def test_a_copy_of_an_unfinished_run_that_was_finished_gives_no_second_release(place, monkeypatch, capsys, signed):
    stopped_and_copied(place, monkeypatch, "dpensemble.moments.learning._Rounds.fit")
    assert main(["recover", "run"]) == 0
    put_back(place)
    before = contents(place)
    capsys.readouterr()
    assert main(["recover", "run", *([] if signed else ["--unsigned"])]) == 2
    assert "is a copy of a run that has ended before" in capsys.readouterr().err
    assert contents(place) == before


@pytest.mark.usefixtures("few_synthetic_rows")
def test_a_copy_of_a_run_that_had_drawn_everything_gives_the_same_release(place, monkeypatch):
    stopped_and_copied(place, monkeypatch, "dpensemble.cli.train.write_outcome")
    assert main(["recover", "run"]) == 0
    put_back(place)
    assert main(["recover", "run"]) == 0
    for name in ("labels.csv", "run.json"):
        first, second = ((place / of / name).read_text() for of in ("first", "run"))
        if name == "run.json":
            first, second = (without_times(json.loads(text)) for text in (first, second))
        assert first == second


def without_times(record):
    return {name: value for name, value in record.items() if name not in ("created", "seconds")}


def test_a_copy_that_was_made_before_the_run_ended_is_noticed_when_it_ends(place, tmp_path):
    """Two copies that are finished at the same time: the first end counts."""
    journal = spent(place)
    shutil.copytree(journal.parent, place / "copy")
    ends = []

    def finish(value):
        with resumed_folder(place / "run") as run:
            run.drawn.once("a", lambda: value)
            if not ends:
                # The copy ends on another disk under the same name meanwhile.
                ends.append(value)
                (place / ".dpensemble-run").rename(place / "first")
                (place / "copy").rename(place / ".dpensemble-run")
                finish(value + 1)
                (place / ".dpensemble-run").rename(place / "copy")
                (place / "first").rename(place / ".dpensemble-run")
            run.finish(lambda folder: disk.write_file(folder / "run.json", "{}"))

    with pytest.raises(FileError, match="is a copy of a run that has ended before"):
        finish(1)
    assert Journal.read(place / "copy" / "journal.json", place).stage == "finished"
    assert Journal.read(journal, place).stage == "spent"


@pytest.mark.parametrize("full", [True, False])
def test_a_run_ends_only_when_its_end_is_noted(place, monkeypatch, full):
    spent(place)

    def fails(*_):
        raise OSError(28, "No space left on device")

    if full:
        monkeypatch.setattr(_files, "_write_once", fails)
    else:
        monkeypatch.setattr(_files, "sync_folder", fails)
    with resumed_folder(place / "run") as run, pytest.raises(FileError, match="No space left on device"):
        run.finish(lambda folder: disk.write_file(folder / "run.json", "{}"))
    assert Journal.read(place / ".dpensemble-run" / "journal.json", place).stage == "spent"


def test_unsigned_beside_give_up_is_refused(place, capsys):
    spent(place)
    assert main(["recover", "run", "--give-up", "--unsigned"]) == 2
    assert "--unsigned has no meaning beside" in capsys.readouterr().err


@pytest.mark.parametrize(
    "facts",
    [
        {"working_folder": "x" * 10_000},
        {"working_folder": "/nowhere"},
        {"working_folder": "a\0b"},
        {"inputs": {"a\0b": []}},
        {"inputs": {"x" * 10_000: []}},
    ],
)
def test_a_journal_whose_names_cannot_be_read_is_one_sentence(place, capsys, facts):
    spent(place, **facts)
    assert main(["recover", "run"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "give --give-up" in errors


def write_beside(path, text):
    with disk.file_beside(path) as file:
        file.write(text)


@pytest.mark.parametrize("write", [disk.replace_file, write_beside])
def test_a_draft_that_somebody_prepared_is_not_written_through(place, tmp_path, write):
    target = tmp_path / "target"
    target.write_text("years of work")
    (place / f".page.html.{os.getpid()}").symlink_to(target)
    write(place / "page.html", "page")
    assert (target.read_text(), (place / "page.html").read_text()) == ("years of work", "page")
    assert contents(place) == ["page.html"]


@pytest.mark.parametrize(
    ("leave", "words"), [(spent, "is spent without a release"), (finished, "was finished and waits")]
)
def test_a_signal_states_what_was_spent(place, monkeypatch, capsys, leave, words):
    leave(place)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpensemble.cli.runs.unfinished_run", interrupted)
    assert main(["recover", "run"]) == 130
    error = capsys.readouterr().err
    assert words in error
    assert "nothing was written" not in error


def test_the_state_of_a_folder_is_a_sentence(place):
    assert state_of(place / "run") == "nothing was written"
    finished(place)
    recover(place / "run")
    assert state_of(place / "run") == f"a release stands in {place / 'run'}"


def test_an_interrupt_while_a_connection_ends_prints_no_traceback(place, tmp_path):
    code = (
        "import sys\n"
        "from sqlalchemy.engine.default import DefaultDialect\n"
        "from dpensemble.errors import LedgerError\n"
        "from dpensemble.server import Ledger\n"
        "ledger, reached = Ledger.create('l.db'), []\n"
        "def closing(self, connection):\n    reached.append(1)\n    raise KeyboardInterrupt\n"
        "DefaultDialect.do_close = closing\n"
        "try:\n    ledger.open_account('people', epsilon=1, delta=1e-5)\n"
        "except KeyboardInterrupt:\n    pass\n"
        "sys.exit(len(reached) == 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_journal_of_an_earlier_version_keeps_the_rules_of_reading_of_that_version():
    settings = {"out": "run", "stage": "spent", "budgets": []}
    assert Journal(**settings).reading_rules == 1
    assert Journal(**settings, about={"reading_rules": 2}).reading_rules == 2
