"""Records in blocks: peak memory and processor time, beside all records in memory at once.

Records are made block by block, so that only the block is in memory. Each way runs in a process of its own. With
the default 200,000 rows the second way needs about 500 MB. The second way cannot do `--rows 10000000 --blocks-only`.
`--teachers 1000` is of teachers that vote (subsample-and-aggregate), fitted in turns, in place of label moments.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

_ROWS_A_BLOCK = 2**16
_PUBLIC_ROWS = 900


def rows_of(block: int, n: int, n_columns: int) -> tuple[Any, Any]:
    """Return the rows of one block, always the same."""
    rng = np.random.default_rng([7, block])
    X = rng.normal(size=(n, n_columns))
    score = X[:, 0] - X[:, 1] + (X[:, 2] > 0)
    return X, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64)


def blocks(n_rows: int, n_columns: int) -> Iterator[tuple[Any, Any]]:
    """Yield all records."""
    for number, start in enumerate(range(0, n_rows, _ROWS_A_BLOCK)):
        yield rows_of(number, min(_ROWS_A_BLOCK, n_rows - start), n_columns)


def measure(way: str, n_rows: int, n_columns: int, teachers: int) -> dict[str, Any]:
    """Fit in this process, and return what that took and what was released."""
    from dpensemble import LabelMomentsClassifier, SubsampleAggregateClassifier  # noqa: PLC0415  its memory counts

    warnings.simplefilter("ignore")
    public = rows_of(2**31, _PUBLIC_ROWS, n_columns)[0]
    settings: dict[str, Any] = {"classes": [0, 1], "delta": 1e-9, "insecure_release_seed": 0}
    model: Any = LabelMomentsClassifier(**settings)
    if teachers:
        model = SubsampleAggregateClassifier(n_teachers=teachers, random_state=0, **settings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, processor = time.perf_counter(), time.process_time()
    read = partial(blocks, n_rows, n_columns)
    if way == "blocks":
        model.fit_blocks(read, X_public=public, **({} if teachers else {"n_records": n_rows}))
    else:
        parts = list(read())
        model.fit(np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]), X_public=public)
    X, y = rows_of(2**31 + 1, 10_000, n_columns)
    return {
        "seconds": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "before": before / 1024,
        "accuracy": float(np.mean(model.predict(X) == y)),
        "released": model.labels_.labels.tolist()
        if teachers
        else [float(moments.values.sum()) for moments in model.moments_],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--teachers", type=int, default=0)
    parser.add_argument("--blocks-only", action="store_true")
    parser.add_argument("--way", choices=("blocks", "memory"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way is not None:
        print(json.dumps(measure(options.way, options.rows, options.columns, options.teachers)))
        return
    what = f"{options.teachers:,} teachers" if options.teachers else "label moments"
    print(f"{what}, {options.rows:,} rows, {options.columns} columns, {_PUBLIC_ROWS} public rows")
    results = {}
    for way in ("blocks",) if options.blocks_only else ("blocks", "memory"):
        sizes = ["--rows", str(options.rows), "--columns", str(options.columns), "--teachers", str(options.teachers)]
        command = [sys.executable, __file__, *sizes, "--way", way]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
        one = results[way] = json.loads(output)
        print(
            f"{way:8s} {one['seconds']:8.1f} s  {one['processor']:8.1f} s of processor  peak {one['peak']:7.0f} MB "
            f"({one['before']:.0f} MB before)  accuracy {one['accuracy']:.3f}"
        )
    if len(results) == 2:
        same = results["blocks"]["released"] == results["memory"]["released"]
        ratios = {name: results["blocks"][name] / results["memory"][name] for name in ("peak", "processor")}
        print(f"ratio    peak {ratios['peak']:.2f}, processor {ratios['processor']:.2f}; the same release: {same}")


if __name__ == "__main__":
    main()
