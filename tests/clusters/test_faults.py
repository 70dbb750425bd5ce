"""Each kind of fault once: `scripts/sum_faults.py` on a local cluster of each engine."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).parents[2] / "scripts" / "sum_faults.py"


@pytest.mark.parametrize(("engine", "package", "kinds"), [("dask", "distributed", 14), ("spark", "pyspark", 15)])
def test_faults_end_in_the_same_release_or_in_a_refusal(engine, package, kinds, request):
    pytest.importorskip(package)
    if engine == "spark":
        request.getfixturevalue("java")
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), engine, "--runs", str(kinds)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{engine}: {kinds} faults, 0 wrong ends, 0 files with private text" in ended.stdout
    # Every kind comes first once.
    assert len(ended.stdout.splitlines()) == kinds + 1
