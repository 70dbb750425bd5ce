"""Kill trainings at random moments, and two at once, and count what is left: nothing may be mixed, lost or leaked.

Each training has recognisable private records. Afterwards shared memory, temporary folders and the run's own folders
are searched for them. Usage: ``python scripts/random_kills.py [--kills 100] [--pairs 20] [--seed 0] [--workers 2]
[--minutes 600]``.
"""

import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from dpensemble.datasets import fit_encoder

SIGNALS = {"SIGKILL": -9, "SIGTERM": 143, "SIGINT": 130}
ROWS = 600
_START = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from dpensemble.cli import main; "
)


def mark(number):
    """Return a number that no other program has in its memory."""
    return 7.297352569371e9 + number * 1024.5


def write_tables(folder, number):
    """Write a public table, and a private table with the mark in every row."""
    dice = random.Random(number)  # noqa: S311  no secrets here
    rows = [(dice.gauss(0, 1), dice.gauss(0, 1)) for _ in range(ROWS + 200)]
    private = [f"{a},{b},{mark(number) + row},{int(a + b > 0)}" for row, (a, b) in enumerate(rows[:ROWS])]
    public = [f"{a},{b},{dice.gauss(0, 1)}" for a, b in rows[ROWS:]]
    (folder / "private.csv").write_text("\n".join(["a,b,c,y", *private]) + "\n")
    (folder / "public.csv").write_text("\n".join(["a,b,c", *public]) + "\n")


def command(folder, seed, *more):
    """Return a training whose labels differ from those of a training with another seed."""
    arguments = ["train", "--private", folder / "private.csv", "--public", folder / "public.csv", "--target", "y"]
    arguments += ["--classes", "0,1", "--teachers", "20", "--epsilon", "2", "--delta", "1e-4", "--quiet", "--json"]
    # Worker processes fit the former, threads the latter.
    arguments += ["--teacher", "naive-bayes" if seed % 2 else "logistic-regression", "--jobs", "2", "--private-report"]
    arguments += ["--scale", "10", "--accounting", "published", "--seed", seed, "--out", folder / "out", *more]
    return [sys.executable, "-c", _START + "sys.exit(main())", *map(str, arguments)]


def run(arguments, folder):
    """Start a program with a temporary folder of its own."""
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder / "tmp")},
        start_new_session=True,
    )


def state(out):
    """Return the seed of the run in a folder, None if there is none, or ``"mixed"``."""
    if not out.exists():
        return None
    record = json.loads((out / "run.json").read_text())
    labels = (out / "labels.csv").read_text()
    page = (out / "report.html").read_text()
    private = json.loads((out / "private.json").read_text())
    minute = record["created"][11:16]
    consistent = (
        labels.count("\n") == record["labels"] + 1
        and len(private["margins"]) == record["labels"]
        and (minute in page or record["created"][:10] in page)
        and f"{record['settings']['random_state']}" in page
        and (out / "student.skops").exists()
        and not list(out.glob(".*"))
    )
    return record["settings"]["random_state"] if consistent else "mixed"


def leaked(folder, number, since):
    """Return the files outside the table itself that hold one of the private records."""
    private, public = (pd.read_csv(folder / name) for name in ("private.csv", "public.csv"))
    encoded = np.asarray(fit_encoder(public).transform(private[public.columns]))
    patterns = [repr(mark(number) + row).encode() for row in range(0, ROWS, 7)]
    for row in range(0, ROWS, 7):
        # As they are written, as teachers learn them, and as trees do.
        patterns += [struct.pack("<d", mark(number) + row), encoded[row].tobytes(), encoded[row, 2].tobytes()]
        patterns += [encoded[row].astype(np.float32).tobytes()]
    paths = []
    for place in (Path("/dev/shm"), folder):  # noqa: S108  the folder holds the temporary one
        for path in place.rglob("*") if place.is_dir() else ():
            try:
                fresh = path.is_file() and path.stat().st_mtime >= since and path.name != "private.csv"
                # Another attempt beside this one has marks of its own.
                if fresh and any(record in path.read_bytes() for record in patterns):
                    paths.append(str(path))
            except OSError:
                continue
    return paths


def orphans(session):
    """Return the processes of a session that still live."""
    living = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        # The tracker of semaphores tidies up and ends. It never sees a record.
        if (
            int(fields[3]) == session
            and fields[0] != "Z"
            and "resource_tracker" not in (path.parent / "cmdline").read_text()
        ):
            living.append(int(path.parent.name))
    return living


def truth(said, code, found, before, stage):
    """Return whether the run's last sentence about itself is true."""
    if said.count("\n") != 1 or "Traceback" in said:
        return False
    if "nothing was written" in said:
        return found == before and stage is None and code in (130, 143, 2)
    if "stands in" in said:
        return found not in (None, "mixed") and found != before
    if "waits in" in said:
        return stage == "finished"
    return "is spent" in said and stage == "spent"


def kill_once(number, name, existing, delay):
    """Kill one training and return what came of it, as words to count."""
    words = []
    with tempfile.TemporaryDirectory(prefix="kills-", dir=os.environ.get("KILLS_DIR")) as place:
        folder, out = Path(place), Path(place) / "out"
        write_tables(folder, number)
        before = None
        if existing:
            run(command(folder, 10), folder).communicate()
            before = state(out)
        since = time.time() - 1
        process = run(command(folder, 11 + number % 2, "--overwrite"), folder)
        try:
            streams = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(getattr(signal, name))
            streams = process.communicate()
        code, errors = process.returncode, streams[1]
        end = time.monotonic() + 30
        while orphans(process.pid) and time.monotonic() < end:
            time.sleep(0.05)
        if orphans(process.pid):
            words.append("ORPHAN")
        journal = folder / ".dpensemble-out" / "journal.json"
        stage = json.loads(journal.read_text())["stage"] if journal.exists() else None
        after = state(out)
        what = (
            "MIXED" if after == "mixed" else "no run" if after is None else "old run" if after == before else "new run"
        )
        words.append(f"{what}, {stage or '-'}")
        if leaked(folder, number, since):
            words.append("LEAKED")
        if code in (130, 143) and not truth(errors, code, after, before, stage):
            words.append(f"UNTRUE: {errors.strip()[-200:]}")
        if code not in (0, SIGNALS[name]):
            words.append(f"CODE {code}: {errors.strip()[-200:]}")
        if stage is not None:
            recovered = run([sys.executable, "-m", "dpensemble", "recover", str(out), "--json"], folder)
            answer, problem = recovered.communicate()
            if recovered.returncode:
                words.append(f"NOT RECOVERED: {problem.strip()[-200:]}")
            else:
                answered = json.loads(answer)
                ended = (
                    state(out) not in (before, "mixed") if answered["placed"] else Path(answered["account"]).exists()
                )
                words.append("recovered" if ended else "LOST")
        left = [path.name for path in folder.glob(".dpensemble-*")] if stage is not None else []
        if left:
            words.append("LEFT OVER")
    return words


def pair_once(number):
    """Start two trainings into one folder at once and return what came of it."""
    with tempfile.TemporaryDirectory(prefix="kills-", dir=os.environ.get("KILLS_DIR")) as place:
        folder = Path(place)
        write_tables(folder, number)
        two = [run(command(folder, seed), folder) for seed in (11, 12)]
        ends = [(process.communicate()[1], process.returncode) for process in two]
        codes = sorted(code for _, code in ends)
        refused = "another run" in "".join(errors for errors, _ in ends)
        earlier = "earlier run" in "".join(errors for errors, _ in ends)
        winner = 11 if two[0].returncode == 0 else 12
        fine = codes == [0, 2] and (refused or earlier) and state(folder / "out") == winner
        left = list(folder.glob(".dpensemble-*"))
    return "one ran, one was refused" if fine and not left else f"TWO AT ONCE: {codes}, {left}, {ends}"[:300]


def main():
    """Run all tries and print a table of what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("kills", 100), ("pairs", 20), ("seed", 0), ("workers", 2), ("minutes", 600)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)  # noqa: S311
    with tempfile.TemporaryDirectory(dir=os.environ.get("KILLS_DIR")) as place:
        write_tables(Path(place), 0)
        start = time.monotonic()
        run(command(Path(place), 11), Path(place)).communicate()
        seconds = time.monotonic() - start
    print(f"A training takes {seconds:.1f} s; {asked.kills} kills at random moments of it, {asked.pairs} pairs.")
    tries = [
        (number, dice.choice(list(SIGNALS)), dice.random() < 0.5, dice.uniform(0.02, 1.3 * seconds))
        for number in range(1, asked.kills + 1)
    ]
    end = time.monotonic() + 60 * asked.minutes
    with ThreadPoolExecutor(asked.workers) as pool:
        # Nothing is begun when time is up.
        pairs = pool.map(
            lambda one: pair_once(one) if time.monotonic() < end else "not tried", range(1, asked.pairs + 1)
        )
        outcomes = list(pool.map(lambda one: kill_once(*one) if time.monotonic() < end else ["not tried"], tries))
        pairs = Counter(pairs)
    table = Counter()
    for (_, name, existing, _), words in zip(tries, outcomes, strict=True):
        for word in words:
            table[name, "existing" if existing else "fresh", word] += 1
    for (name, existing, word), count in sorted(table.items()):
        print(f"{name:8s} {existing:9s} {count:5d}  {word}")
    for word, count in pairs.items():
        print(f"{'two':8s} {'at once':9s} {count:5d}  {word}")
    bad = [word for *_, word in table if word[:4].isupper()] + [word for word in pairs if word[:3].isupper()]
    print("FAILED" if bad else "Nothing mixed, lost, left over, orphaned or leaked; every sentence was true.")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
