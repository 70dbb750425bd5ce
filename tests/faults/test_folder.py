"""One run, one folder: claimed for as long as it lasts, its private parts for its owner alone."""

import json
import os
import stat
import subprocess
import sys
import threading

import pytest

from dpensemble.cli import main
from dpensemble.errors import FileError
from dpensemble.workflow import disk
from dpensemble.workflow.recovery import recover
from dpensemble.workflow.run_folder import claimed_folder

BUDGETS = [{"name": "all records", "epsilon": 1.5, "delta": 1e-5}]


def write(folder):
    for name in ("run.json", "labels.csv"):
        disk.write_file(folder / name, "{}")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_second_run_is_refused_while_the_first_one_lasts(tmp_path):
    out = tmp_path / "deep" / "out"
    with claimed_folder(out) as run:
        with pytest.raises(FileError, match="is being written by another run: wait for it, or choose another"):
            claimed_folder(out).__enter__()
        with pytest.raises(FileError, match="is being written by another run"):
            recover(out)
        run.spend(BUDGETS)
        run.finish(write)
        run.place()
        with pytest.raises(FileError, match="another run"), claimed_folder(out, overwrite=True):
            pass
    assert names(out.parent) == ["out"]
    with pytest.raises(FileError, match="earlier run"), claimed_folder(out):
        pass
    with claimed_folder(out, overwrite=True):
        pass
    assert names(out) == ["labels.csv", "run.json"]


@pytest.mark.parametrize("name", ["write the rest of", "replaced", "finished"])
def test_an_error_while_the_journal_is_written_takes_no_finished_release_away(tmp_path, monkeypatch, name):
    out, steps = tmp_path / "out", []

    def step(reached):
        steps.append(reached)
        if steps.count("files written") and reached.startswith(name):
            raise ZeroDivisionError

    def finished():
        with claimed_folder(out) as run:
            run.spend(BUDGETS)
            runs.append(run)
            run.finish(write)

    runs = []
    with monkeypatch.context() as patched:
        patched.setattr(disk, "step", step)
        with pytest.raises(ZeroDivisionError):
            finished()
    (run,) = runs
    assert run.stage == ("spent" if name == "write the rest of" else "finished")
    if run.stage == "finished":
        assert recover(out).placed
        assert names(out) == ["labels.csv", "run.json"]


def test_of_many_at_once_one_has_the_folder(tmp_path):
    """Claims come and go as fast as they can. Two never hold one folder."""
    holders, most, won = [0], [0], []

    def take(number):
        for _ in range(30):
            try:
                with claimed_folder(tmp_path / "out"):
                    holders[0] += 1
                    most[0] = max(most[0], holders[0])
                    # Lets other threads go on.
                    os.listdir(tmp_path)
                    holders[0] -= 1
                won.append(number)
            except FileError as error:
                assert "another run" in str(error) or "cannot be claimed" in str(error)  # noqa: PT017

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert won
    assert names(tmp_path) == []


def test_two_trainings_into_one_new_folder(command, tmp_path):
    line = [sys.executable, "-m", "dpensemble", *map(str, command(tmp_path / "out"))]
    two = [subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) for _ in range(2)]
    errors = "".join(process.communicate()[1] for process in two)
    assert sorted(process.returncode for process in two) == [0, 2]
    assert "by another run" in errors or "files of an earlier run" in errors
    assert errors.count("\n") == 1
    assert names(tmp_path) == ["out"]


def test_private_parts_are_for_their_owner_alone(command, tmp_path, capsys):
    before = os.umask(0o022)
    try:
        assert main([*map(str, command(tmp_path / "out", "--private-report"))]) == 0
        assert main([*map(str, command(tmp_path / "plain"))]) == 0
        assert main(["report", str(tmp_path / "out"), "--private", "--out", str(tmp_path / "page.html")]) == 0
    finally:
        os.umask(before)
    out = tmp_path / "out"
    assert mode(out) == 0o700
    assert mode(tmp_path / "page.html") == 0o600
    assert {name: mode(out / name) for name in names(out)} == {
        "card.json": 0o644,
        "card.md": 0o644,
        "labels.csv": 0o644,
        "private-report.html": 0o600,
        "private.json": 0o600,
        "report.html": 0o644,
        "run.json": 0o600,
        "student.skops": 0o644,
    }
    assert (mode(tmp_path / "plain"), mode(tmp_path / "plain" / "run.json")) == (0o755, 0o600)


@pytest.mark.parametrize("name", ["", "."])
def test_a_folder_that_cannot_be_replaced_as_a_whole_is_refused(command, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert main([*map(str, command(name))]) == 2
    assert "is the current folder or the root of a disk" in capsys.readouterr().err
    assert names(tmp_path) == []


def test_what_else_a_folder_held_comes_along(tmp_path):
    out, elsewhere = tmp_path / "link", tmp_path / "folder"
    (elsewhere / "notes").mkdir(parents=True)
    (elsewhere / "notes" / "mine").write_text("mine")
    out.symlink_to(elsewhere)
    elsewhere.chmod(0o750)
    with claimed_folder(out) as run:
        run.spend(BUDGETS)
        run.finish(write)
        run.place()
    assert names(tmp_path) == ["folder", "link"]
    assert out.is_symlink()
    assert names(elsewhere) == ["labels.csv", "notes", "run.json"]
    assert (mode(elsewhere), (elsewhere / "notes" / "mine").read_text()) == (0o750, "mine")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_refused_before_anything_is_spent(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dpensemble.cli.train.run_training", lambda *_, **__: pytest.fail("trained"))
    tmp_path.chmod(0o500)
    try:
        assert main([*map(str, command(tmp_path / "out"))]) == 2
    finally:
        tmp_path.chmod(0o700)
    assert "cannot be written (Permission denied in" in capsys.readouterr().err


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_disk_that_became_read_only_is_refused_before_anything_is_spent(command, tmp_path, monkeypatch, capsys, call):
    import errno

    def refuse(path, *_, **__):
        if ".dpensemble-" in str(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, *_, **__)

    monkeypatch.setattr("dpensemble.cli.train.run_training", lambda *_, **__: pytest.fail("trained"))
    real = getattr(os, call)
    monkeypatch.setattr(os, call, refuse)
    assert main([*map(str, command(tmp_path / "new" / "out"))]) == 2
    assert "cannot be written (Read-only file system in" in capsys.readouterr().err
    monkeypatch.undo()
    assert not (tmp_path / "new").exists() or names(tmp_path / "new") == [".dpensemble-out"]


def test_an_error_in_the_move_keeps_the_release(command, tmp_path, monkeypatch, capsys):
    """Which had been paid for: what ends with exit code 2 has spent nothing."""
    import errno

    def busy(name):
        if name == "place":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    out = tmp_path / "out"
    monkeypatch.setattr(disk, "step", busy)
    assert main([*map(str, command(out))]) == 1
    errors = capsys.readouterr().err
    assert "could not be put in place, or tidied: Device or resource busy; the release was finished and waits" in errors
    assert errors.count("\n") == 1
    monkeypatch.undo()
    assert main(["report", str(out)]) == 2
    assert "is from an interrupted one: see 'dpensemble recover'" in capsys.readouterr().err
    assert main(["recover", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["placed"] is True
    assert names(tmp_path) == ["out"]
    assert main(["report", str(out)]) == 0


def test_what_was_spent_for_nothing_stays_on_record(tmp_path):
    def ended():
        with claimed_folder(tmp_path / "out", about={"method": "saa"}) as run:
            run.spend(BUDGETS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ended()
    journal = tmp_path / ".dpensemble-out" / "journal.json"
    assert (mode(journal), mode(journal.parent)) == (0o600, 0o700)
    about = json.loads(journal.read_text())["about"]
    # The random name under which the state folder notes the run's end.
    assert len(about.pop("run")) == 32
    assert about == {"method": "saa"}
    with pytest.raises(FileError, match=r"epsilon 1.5, delta 1e-05. is spent without a release"):
        claimed_folder(tmp_path / "out", overwrite=True).__enter__()
    found = recover(tmp_path / "out")
    assert (found.placed, found.budgets) == (False, BUDGETS)
    account = json.loads((tmp_path / names(tmp_path)[0]).read_text())
    assert account["budgets"] == BUDGETS
    with pytest.raises(FileError, match="nothing to recover"):
        recover(tmp_path / "out")


def test_nothing_is_spent_before_the_journal_stands(command, tmp_path, monkeypatch):
    """The order is what the promise rests on: no noise before the journal is on the disk."""
    from dpensemble._random import SystemNoise

    seen, real = [], SystemNoise.uniform_bits

    def watch(self, size):
        seen.append((tmp_path / ".dpensemble-out" / "journal.json").exists())
        return real(self, size)

    monkeypatch.setattr(SystemNoise, "uniform_bits", watch)
    # The rehearsal draws noise for stand-ins.
    monkeypatch.setattr("dpensemble.cli.train.rehearse", lambda *_, **__: None)
    line = [*map(str, command(tmp_path / "out"))]
    at = line.index("--insecure-release-seed")
    del line[at : at + 2]
    assert main(line) == 0
    assert seen
    assert all(seen)


def test_private_models_are_spent_on_before_they_are_fitted(tables, tmp_path, monkeypatch, capsys):
    def watch(*_, **__):
        assert (tmp_path / ".dpensemble-out" / "journal.json").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("dpensemble.methods.private_majority.PrivateTeachers.fit", watch)
    # The rehearsal fits models to stand-ins.
    monkeypatch.setattr("dpensemble.cli.train.rehearse", lambda *_, **__: None)
    line = ["train", "private-majority", "--private", tables / "private.csv", "--public", tables / "public.csv"]
    line += ["--target", "y", "--classes", "0,1", "--epsilon", "1", "--delta", "1e-4", "--out", tmp_path / "out"]
    assert main([*map(str, line)]) == 130
    assert "dpensemble: interrupted; the budget (epsilon 1, delta 0.0001) is spent" in capsys.readouterr().err
