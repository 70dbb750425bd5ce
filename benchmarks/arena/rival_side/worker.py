"""Fits rivals in their own environment: reads one request a line, answers with one line.

A request is ``{"folder", "contestant", "classes", "limit", "epsilon", "delta", "seed"}`` as JSON. The folder holds the
split, and the probabilities are left there. The answer has the CPU seconds, or the error.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from arena.limits import TooSlowError, cpu_limit
from arena.rival_side.split import Split

#: Where each fit is; only the modules of an environment's own packages can be imported in it.
MODULES = {
    "naive_bayes": "tabular",
    "logistic_regression": "tabular",
    "random_forest": "tabular",
    "dp_ebm": "tabular",
    "logistic_on_aim": "synthetic",
    "boosting_on_aim": "synthetic",
    "boosting_on_mst": "synthetic",
    "banded_linear": "banded",
    "label_moments": "checkout",
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Fit, and leave the probabilities of test rows in the folder; an error is an answer too."""
    folder, name = Path(request["folder"]), request["contestant"]
    try:
        fit = getattr(import_module(f"arena.rival_side.{MODULES[name]}"), name)
        split = Split(folder)
        settings = {setting: request[setting] for setting in ("classes", "epsilon", "delta", "seed")}
        start = process_time()
        with cpu_limit(request["limit"]):
            probabilities = fit(split, **settings)
        seconds = process_time() - start + split.shared_seconds
        np.save(folder / "answer.npy", probabilities)
    except TooSlowError as error:
        return {"error": str(error), "slow": True}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "slow": False}
    return {"seconds": seconds}


def main() -> None:
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
