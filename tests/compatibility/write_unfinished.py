"""Write runs that ended after their charge: ``python -m tests.compatibility.write_unfinished FOLDER``.

Give a new folder for a new version. Folders that earlier versions wrote must stay as they are.
"""

import os
import shutil
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from dpensemble.cli import main

MORE = {
    "label-moments": [],
    "pate": ["--teachers", "40", "--fill", "--student", "naive-bayes"],
}


def write(folder, method):
    """Write the files of one unfinished run, and what its student predicts after the run was finished."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400).round(3), "c": rng.choice(["a", "b", "any other"], size=400)})
    table["y"] = (table["x"] > 0).astype(int)
    table[:250].to_csv(folder / "private.csv", index=False)
    table[250:].drop(columns="y").to_csv(folder / "public.csv", index=False)
    os.chdir(folder)
    line = f"train {method} --private private.csv --public public.csv --target y --classes 0,1 --epsilon 9 --delta 1e-3"
    # The last step: everything is drawn, and nothing is written.
    with mock.patch("dpensemble.cli.train.write_outcome", side_effect=KeyboardInterrupt):
        main([*line.split(), *MORE[method], "--quiet", "--out", "run"])
    (folder / "stopped").mkdir()
    for name in ("journal.json", "drawn.jsonl"):
        shutil.copy(folder / ".dpensemble-run" / name, folder / "stopped" / name)
    main(["recover", "run"])
    main(["predict", "run", "public.csv", "--proba", "--out", "predictions.csv"])
    shutil.rmtree("run")
    os.chdir(folder.parent)


if __name__ == "__main__":
    place = Path(sys.argv[1]).absolute()
    os.environ["DPENSEMBLE_STATE"] = str(place / "state")
    for name in MORE:
        write(place / name, name)
    shutil.rmtree(place / "state")
