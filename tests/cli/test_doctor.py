"""The report of what can work here: true, without private names, and with an exit code that a script can use."""

import json
import shutil
from importlib.metadata import PackageNotFoundError

import pytest

from dpensemble.cli import doctor, main


def report(capsys, *arguments, code=0):
    assert main(["doctor", "--json", *arguments]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def packages(monkeypatch):
    """Versions that a test may change. None stands for a package that is not installed."""
    real, changed = doctor.version, {}

    def version(name):
        there = changed[name] if name in changed else real(name)
        if there is None:
            raise PackageNotFoundError(name)
        return there

    monkeypatch.setattr(doctor, "version", version)
    return changed


def test_everything_that_is_needed_is_listed_with_its_version(capsys):
    shown = report(capsys)
    names = {one["name"] for one in shown["packages"]}
    assert {"numpy", "scikit-learn", "pandas", "typer"} <= names
    assert "pytest" not in names, "users do not need what developers need"
    assert all(one["version"] for one in shown["packages"])
    assert shown["problems"] == []


def test_words_begin_with_the_answer(capsys):
    assert main(["doctor"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.endswith("can work here.")
    assert any(line.startswith("Packages: ") and "numpy " in line for line in lines)


@pytest.mark.parametrize(
    ("name", "there", "problem"),
    [("numpy", "1.26.4", "numpy 1.26.4 does not fit >=2.0"), ("scipy", None, "scipy is not installed")],
)
def test_a_needed_package_that_is_old_or_missing_is_a_problem(packages, capsys, name, there, problem):
    packages[name] = there
    assert any(one.startswith(problem) for one in report(capsys, code=1)["problems"])
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.startswith(f"Problem: {problem}")


def test_a_development_version_that_is_new_enough_fits(packages, capsys):
    packages["numpy"] = "3.0.0rc1"
    assert report(capsys)["problems"] == []


def test_a_missing_extra_is_no_problem_and_states_how_to_get_it(packages, capsys):
    packages["torch"] = None
    extras = {one["name"]: one for one in report(capsys)["extras"]}
    assert extras["torch"]["problems"] == ["torch is not installed"]
    assert extras["torch"]["install"] == 'Run pip install "dpensemble[torch]".'


def test_a_library_that_is_no_installed_package_is_a_problem(packages, capsys, monkeypatch):
    packages["dpensemble"] = None
    shown = report(capsys, code=1)
    assert shown["version"] is None
    assert "not installed as a package" in shown["problems"][0]


@pytest.mark.parametrize(
    ("printed", "number"),
    [('openjdk version "17.0.9" 2023-10-17', 17), ('java version "1.8.0_392"', 8), ('openjdk version "25" 2025', 25)],
)
def test_java_is_known_by_its_number(tmp_path, monkeypatch, printed, number):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor._number(doctor._java()) == number


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "no program"])
def test_a_java_that_does_not_answer_is_none(tmp_path, monkeypatch, script):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(script)
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor._java() is None


def test_spark_needs_java(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    shown = report(capsys)
    assert shown["java"] is None
    assert "Java 17 or newer is not there" in next(one for one in shown["extras"] if one["name"] == "spark")["problems"]


def test_a_full_disk_is_a_problem(capsys, monkeypatch):
    used = shutil.disk_usage("/")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: used._replace(free=5 * 2**20))
    assert "the current folder has 5 MiB left: make room before a run." in report(capsys, code=1)["problems"]


def test_a_folder_that_is_no_folder_is_a_problem(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "file" / "state"))
    problems = report(capsys, code=1)["problems"]
    assert problems == ["the state folder of this user cannot be written: allow it, or start from another folder."]


def test_nothing_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_STATE", str(tmp_path / "state"))
    report(capsys)
    assert not (tmp_path / "state").exists()


def test_the_report_names_no_path_and_no_setting(tmp_path, capsys, monkeypatch):
    secret = tmp_path / "patients-of-ward-7"
    secret.mkdir()
    monkeypatch.chdir(secret)
    for name in ("DPENSEMBLE_STATE", "DPENSEMBLE_DATA", "TMPDIR"):
        monkeypatch.setenv(name, str(secret))
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    for arguments in (["doctor"], ["doctor", "--json"]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        assert "ward-7" not in shown
        assert "hunter2" not in shown


def test_a_ledger_is_verified(tmp_path, capsys):
    place = str(tmp_path / "ledger.db")
    assert main(["ledger", "create", place]) == 0
    capsys.readouterr()
    assert report(capsys, "--ledger", place)["ledger"].startswith("verified, ")


@pytest.mark.parametrize("place", ["none.db", "postgresql://me:hunter2@127.0.0.1:1/none"])
def test_a_ledger_that_cannot_be_read_is_a_problem(tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    shown = report(capsys, "--ledger", place, code=1)
    assert len(shown["problems"]) == 1
    assert "hunter2" not in json.dumps(shown)
    assert shown["ledger"] is None
