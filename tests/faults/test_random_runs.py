"""Random runs fail at random steps after their charge, and `recover` finishes them. The script makes many more."""

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "failures_after_charge"
# What follows a charge of the same key is charged again. Each time is one line in a file.
FORGETFUL = """
import os, runpy, sys
from dpensemble.server.account import LedgerAccount
real = LedgerAccount.of_release
def forgetful(self, transaction, key):
    found = real(self, transaction, key)
    if "part" not in key or not found:
        return found
    with open(os.environ["REACHED"], "a") as file:
        file.write("forgotten\\n")
    return []
LedgerAccount.of_release = forgetful
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def failures(*arguments, before=(), **environment):
    found = subprocess.run(
        [sys.executable, *before, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, check=False, env=os.environ | environment,
    )  # fmt: skip
    lines = [line for line in found.stdout.splitlines() if re.match(r"[\d,]+ runs, ", line)]
    assert lines, found.stdout + found.stderr
    counts = {name: int(n.replace(",", "")) for n, name in re.findall(r"([\d,]+) ([a-z ]+)", lines[-1].split(";")[0])}
    return found, counts


def test_random_runs_are_finished_after_random_failures():
    found, counts = failures("--runs", 6, "--seed", 5)
    assert (found.returncode, counts["problems"]) == (0, 0), found.stdout + found.stderr
    assert (counts["runs"], counts["failures"]) == (6, 18)
    # Another thread of events may be too late for a failure.
    assert counts["reached"] > 12


def test_a_second_charge_is_found(tmp_path):
    """Whichever of many runs comes to a charge that `recover` meets again."""
    many = ("--runs", 40, "--faults", 6, "--seed", 5, "--seconds", 30, "--stop")
    found, counts = failures(*many, before=("-c", FORGETFUL), REACHED=str(tmp_path / "reached"))
    assert (tmp_path / "reached").exists(), "no run came to the planted fault"
    assert found.returncode == 1
    assert "charged again" in found.stdout
    assert counts["problems"] == 1


def test_without_a_failure_nothing_was_tried():
    found, counts = failures("--runs", 0)
    assert (found.returncode, counts["failures"]) == (2, 0)
    assert "no failure was reached" in found.stdout
