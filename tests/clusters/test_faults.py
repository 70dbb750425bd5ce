"""Each kind of fault once: `scripts/sum_faults.py` on a local cluster of each engine."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).parents[2] / "scripts" / "sum_faults.py"


@pytest.mark.parametrize(("engine", "package", "kinds"), [("dask", "distributed", 9), ("spark", "pyspark", 10)])
def test_faults_end_in_the_same_release_or_in_a_refusal(engine, package, kinds):
    pytest.importorskip(package)
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("there is no Java, which Spark needs; Debian's package default-jre-headless has one")
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), engine, "--runs", str(kinds)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
    assert f"{engine}: {kinds} faults, 0 wrong ends, 0 files" in ended.stdout
    assert "Zq7planted" not in ended.stderr
