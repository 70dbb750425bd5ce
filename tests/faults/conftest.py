import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ..deadline import GUARD

# A script, whose imports take seconds of every process that collects examples in docstrings.
collect_ignore = ["zygote.py"]


@dataclass
class Answer:
    code: int
    out: str
    err: str


class Zygote:
    """A process that forks children which run command lines. See `zygote.py`."""

    def __init__(self, folder):
        self.folder = folder
        script = Path(__file__).with_name("zygote.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # A fork has but one thread.
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

    def run(self, *arguments, **request):
        """Run a command line. `at` is the step (by number) at which `what` happens: kill, int, term or full."""
        request |= {"arguments": [str(a) for a in arguments]}
        request |= {name: str(self.folder / name) for name in ("stdout", "stderr")}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return Answer(code, *((self.folder / name).read_text() for name in ("stdout", "stderr")))


@pytest.fixture(scope="session")
def zygote(tmp_path_factory, tables):
    folder = tmp_path_factory.mktemp("zygote")
    one = Zygote(folder)
    (folder / "stdout").touch()
    (folder / "stderr").touch()
    assert one.run(*training(tables, folder / "out", "--private-report"), warm=True).code == 0
    yield one
    # Closes its input, on which it ends.
    one.process.communicate(timeout=GUARD)


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Return a folder with a private and a public table."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=(X[:, 0] + 0.3 * rng.normal(size=400) > 0).astype(int))
    frame[:300].to_csv(folder / "private.csv", index=False)
    frame[300:].drop(columns="y").to_csv(folder / "public.csv", index=False)
    return folder


@pytest.fixture
def command(tables):
    """Return the command line of a training whose labels differ from those of another training."""
    return partial(training, tables)


def training(tables, out, *more, noise_seed=1):
    return [
        *("train", "--private", tables / "private.csv", "--public", tables / "public.csv", "--target", "y"),
        *["--classes", "0,1", "--teachers", "20", "--epsilon", "2", "--delta", "1e-4", "--jobs", "1", "--quiet"],
        *["--scale", "10", "--accounting", "published"],
        *("--seed", noise_seed, "--insecure-release-seed", noise_seed, "--out", out, *more),
    ]
