"""Private records in parts with a planted text, and what one process releases of them."""

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets.partitions import ParquetParts

COLUMNS = ["a", "b", "c"]
# Looked for in all files that an engine leaves.
PLANTED = "Zq7planted"


@dataclass
class Records:
    """A folder of Parquet with private records, and public rows."""

    public: pd.DataFrame
    folder: Path

    def fitted(self, parts, **settings):
        """Fit a model to a table in parts."""
        model = LabelMomentsClassifier(classes=[0, 1], delta=1e-4, insecure_release_seed=5, **settings)
        return model.fit_blocks(parts, X_public=self.public)

    def values(self, parts, **settings):
        """Return the noisy sums that a fit releases."""
        return [one.values.tolist() for one in self.fitted(parts, **settings).moments_]

    @cached_property
    def expected(self):
        """What one process releases."""
        return self.values(ParquetParts(self.folder, "y", unit="who"))

    @staticmethod
    def left_in(place):
        """Return the files in a folder with a text of the private records."""
        files = [file for file in Path(place).rglob("*") if file.is_file()]
        assert files
        return [file for file in files if PLANTED.encode() in file.read_bytes()]


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 1500
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["x", "y"], n), "c": rng.integers(0, 9, n)})
    table["y"], table["who"] = (table["a"] + 0.3 * rng.normal(size=n) > 0).astype(int), rng.integers(0, 900, n)
    public, private = table.iloc[:300][COLUMNS], table.iloc[300:].copy()
    private.iloc[5, 1] = PLANTED
    folder = tmp_path_factory.mktemp("parts")
    for place, part in enumerate(np.array_split(np.arange(len(private)), 4)):
        private.iloc[part].to_parquet(folder / f"{place}.parquet", index=False)
    return Records(public, folder)


@pytest.fixture(scope="session")
def java():
    if shutil.which("java") is None:
        pytest.skip("there is no Java, which Spark needs; Debian's package default-jre-headless has one")


@pytest.fixture
def options(tmp_path):
    """Options of `train` for a small table, which name no cluster."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=600).round(3), "b": rng.integers(0, 5, 600)})
    table["y"] = np.where(table["a"] > 0, "yes", "no")
    table[60:].to_csv(tmp_path / "private.csv", index=False)
    table[:60][["a", "b"]].to_csv(tmp_path / "public.csv", index=False)
    files = ["--private", str(tmp_path / "private.csv"), "--public", str(tmp_path / "public.csv")]
    return [*files, "--target", "y", "--classes", "no,yes", "--delta", "1e-3", "--teacher", "decision-tree"]
