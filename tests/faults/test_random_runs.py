"""Random runs fail at random steps after their charge, and `recover` finishes them. The script makes many more."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "failures_after_charge"
# What follows a charge of the same key is charged again.
FORGETFUL = """
import runpy, sys
from dpensemble.ledger.charges import DataSetCharges
real = DataSetCharges.of_release
DataSetCharges.of_release = lambda self, transaction, key: [] if "part" in key else real(self, transaction, key)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def failures(*arguments, before=()):
    found = subprocess.run(
        [sys.executable, *before, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    last = found.stdout.splitlines()[-1]
    counts = {name: int(n.replace(",", "")) for n, name in re.findall(r"([\d,]+) ([a-z ]+)", last.split(";")[0])}
    return found, counts


def test_random_runs_are_finished_after_random_failures():
    found, counts = failures("--runs", 6, "--seed", 5)
    assert (found.returncode, counts["problems"]) == (0, 0), found.stdout + found.stderr
    assert (counts["runs"], counts["failures"]) == (6, 18)


def test_a_second_charge_is_found():
    found, counts = failures("--only", 6, "--faults", 4, "--seed", 5, "--seconds", 30, before=("-c", FORGETFUL))
    assert found.returncode == 1
    assert "recover charged again" in found.stdout
    assert counts["problems"] >= 1
