"""A run on a small machine is refused with exit code 2, and nothing is charged."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from ..deadline import GUARD

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")

SMALL = (
    "import resource, sys; from dpensemble.cli import main; "
    "resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30)); sys.exit(main(sys.argv[1:]))"
)


def test_what_does_not_fit_into_two_gigabytes_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("private", 3000), ("public", 1000)):
        table = pd.DataFrame(rng.normal(size=(n, 480)).round(3)).add_prefix("c")
        table.assign(y=(table["c0"] > 0).astype(int)).to_csv(tmp_path / f"{name}.csv", index=False)
    columns = ["--private", "private.csv", "--public", "public.csv", "--target", "y", "--classes", "0,1"]
    command = ["train", "label-moments", *columns, "--epsilon", "1", "--delta", "1e-5", "--out", "run"]
    begun = [sys.executable, "-c", SMALL, *command]
    done = subprocess.run(
        begun,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )
    assert (done.returncode, "nothing was charged" in done.stderr) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private.csv", "public.csv"]
