"""Write the keys of ``--json`` and of shared JSON files, as real commands print them: ``python scripts/json_keys.py``.

Every command with ``--json`` runs on small made-up tables in an empty folder. ``docs/json-keys.json`` stores which keys
it printed and what each holds, and the site shows the file as a page. A test runs all commands and compares.
``recover`` would need a killed run, so its keys are read off the class that it prints.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from dpensemble.cli import main
from dpensemble.errors import UnlikeRowsWarning
from dpensemble.server.ledger import Ledger
from dpensemble.sites import SiteRun
from dpensemble.sites.messages import StillWaiting
from dpensemble.workflow.recovery import Recovered

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "docs" / "json-keys.json"
_CLASSES = ("ill", "well")
#: Objects whose keys are names of your own or of packages: what stands for such a name.
_NAMED = {
    "answers": "CLASS",
    "class_shares": "CLASS",
    "columns": "COLUMN",
    "released_score.groups": "COLUMN",
    "test_quality.groups": "COLUMN",
    "times.without_stratum": "COLUMN",
    "sufficient_epsilon": "RECORDS",
    "versions": "PACKAGE",
    "seconds": "STAGE",
}
_SHARED = f"--private private.csv --public public.csv --target outcome --classes {','.join(_CLASSES)} --unit patient_id"
_QUIET = "--quiet --jobs 1 --seed 0 --insecure-release-seed 1 --overwrite"
_COSTS = "--cost-false-negative 5 --cost-false-positive 1"
_SERVICE = """
ledger = "ledger.db"
keys = "keys.json"
[[grants]]
name = "october"
data_set = "patients"
law = "gnmax"
classes = ["no", "yes"]
voters = 100
epsilon = 0.5
delta = 1e-7
"""
_SITES = ("a", "b", "c")
#: Commands whose output is for reading, and of which no key is promised.
FOR_READING = {"sites demo"}
#: Command lines by section, in the order in which they run.
COMMANDS: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor",),
    "keys create": ("keys create keys.json alice --scope read",),
    "keys list": ("keys list keys.json",),
    "keys revoke": ("keys revoke keys.json KEY",),
    "ledger create": ("ledger create ledger.db",),
    "ledger open": ("ledger open ledger.db patients --epsilon 9 --delta 1e-4",),
    "ledger charge": ("ledger charge ledger.db patients --epsilon 0.1 --delta 1e-9 --what table",),
    "serve --check": ("serve service.toml --check",),
    "check": (
        f"check {_SHARED}",
        "check --private times.csv --time days --event died=1 --strata ward=a,b --bins 30,90,365 --unit patient_id",
    ),
    "train": (
        f"train auto {_SHARED} --epsilon 2 --test test.csv --holdout-score 0.3 --groups ward {_COSTS} --baseline"
        f" --out run {_QUIET} --ledger ledger.db --data-set patients",
        f"train saa {_SHARED} --epsilon 3 --teachers 20 --max-labels 20 --out votes {_QUIET} --certificate",
    ),
    "report": ("report run", "report votes"),
    "predict": ("predict run new.csv",),
    "predict --proba": ("predict run new.csv --proba",),
    "predict --explain": ("predict run new.csv --explain",),
    "export": ("export run --format python --out student.py",),
    "verify": ("verify run",),
    "lifetable": (
        "lifetable --private times.csv --time days --event died=1 --strata ward=a,b --bins 30,90,365 --unit patient_id"
        " --epsilon 1 --out life --insecure-release-seed 1 --quiet --ledger ledger.db --data-set patients",
    ),
    "sites new": (
        "sites new messages own --public people.csv --sites a,b,c --classes ill,well --target outcome --epsilon 2",
    ),
    "sites join": (
        "sites join messages own-a --name a --private a.csv --check",
        *(f"sites join messages own-{site} --name {site} --private {site}.csv" for site in _SITES),
    ),
    "sites status": ("sites status messages own-a",),
    # All sites took part before.
    "sites run": ("sites run messages own", "sites run messages own-a --private a.csv"),
    "ledger show": ("ledger show ledger.db",),
    "ledger verify": ("ledger verify ledger.db",),
    "ledger export": ("ledger export ledger.db --out entries.jsonl",),
    "ledger checkpoint": ("ledger checkpoint ledger.db --out checkpoint.json",),
    "ledger protect": ("ledger protect ledger.db",),
    "ledger restored": ("ledger restored ledger.db --checkpoint checkpoint.json",),
    "ledger move": ("ledger move ledger.db --to postgresql://owner@localhost/ledgers",),
    "ledger forget": ("ledger forget ledger.db --id LEDGER",),
    "plan": (
        "plan saa --epsilon 1 --teachers 50",
        "plan weighting-pate --budgets high=1:40%,low=2:60% --teachers 50",
        "plan bagged-pate --records 16000 --subsample 32 --epsilon 1",
    ),
    "plan bagging": ("plan bagging --records 60000 --models 1 --subsample 300",),
    "plan label-moments": ("plan label-moments --epsilon 1 --records 500",),
    "gamma": ("gamma --teachers 11 --epsilon 0.1 --m 3",),
    "compare": ("compare --dataset digits --methods saa --teachers 20 --repeats 1 --epsilon 3 --delta 1e-4 --jobs 1",),
}
#: Files that a run writes for others, by section.
FILES = {"card.json": ("run/card.json", "votes/card.json"), "certificate.json": ("run/certificate.json",)}


def _type(value: Any) -> str:
    """Return what a value is, in a word."""
    if value is None:
        return "null"
    words = {bool: "true or false", int: "number", float: "number", str: "text"}
    return words.get(type(value), "list")


def _name(key: str, within: str) -> str:
    """Return a key, with what stands for a name of your own."""
    stand_in = next((word for end, word in _NAMED.items() if within == end or within.endswith(f".{end}")), None)
    for label in _CLASSES:
        key = key.replace(f"probability of {label}", "probability of CLASS")
    return stand_in or key


def keys_of(value: Any, within: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of every key of a JSON document. ``[]`` stands for each element of a list."""
    if isinstance(value, dict) and {"value", "low", "high"} <= set(value):
        yield within, "value, low, high" + (", class" if "class" in value else "")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from keys_of(inner, f"{within}.{_name(key, within)}" if within else _name(key, within))
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for inner in value:
            yield from keys_of(inner, f"{within}[]")
    elif isinstance(value, list):
        kinds = {_type(inner) for inner in value}
        of_one_kind = "list of lists" if kinds == {"list"} else f"list of {''.join(kinds)}"
        yield within or "[]", of_one_kind if len(kinds) == 1 else "list"
    else:
        yield within, _type(value)


def merged(documents: list[Any]) -> dict[str, str]:
    """Return the keys of several documents of one kind, with every type that a key had."""
    types: dict[str, set[str]] = {}
    for document in documents:
        for path, kind in keys_of(document):
            types.setdefault(path, set()).add(kind)
    # A list that is empty in one run may have elements in another.
    elements = {path.split("[]")[0] for path in types if "[]" in path[1:]}
    return {
        path: " or ".join(sorted(kinds - {"list"} or kinds, key=lambda kind: (kind == "null", kind)))
        for path, kinds in types.items()
        if kinds != {"list"} or path not in elements
    }


def _tables() -> None:
    """Write the tables, in the current folder."""
    rng = np.random.default_rng(0)

    def rows(count: int, *, ids: bool, target: bool) -> pd.DataFrame:
        table = pd.DataFrame({"age": rng.integers(20, 90, count), "ward": rng.choice(["a", "b"], count)})
        if target:
            table["outcome"] = np.where(table["age"] + rng.normal(0, 10, count) > 55, *_CLASSES)
        if ids:
            table["patient_id"] = [f"p{number // 2}" for number in range(count)]
        return table

    rows(600, ids=True, target=True).to_csv("private.csv", index=False)
    rows(300, ids=True, target=False).to_csv("public.csv", index=False)
    rows(100, ids=True, target=True).to_csv("test.csv", index=False)
    rows(20, ids=False, target=False).to_csv("new.csv", index=False)
    rows(300, ids=False, target=False).to_csv("people.csv", index=False)
    for site in _SITES:
        rows(100, ids=False, target=True).to_csv(f"{site}.csv", index=False)
    times = rows(600, ids=True, target=False).drop(columns="age")
    times.assign(days=rng.integers(1, 400, 600), died=rng.integers(0, 2, 600)).to_csv("times.csv", index=False)
    Path("messages").mkdir()
    Path("service.toml").write_text(_SERVICE, encoding="utf-8")


def _all_sites_take_part() -> None:
    """Let all parties of the run of several sites act in turn until each has the model."""
    parties = {"own": SiteRun.load("messages", "own")}
    parties |= {f"own-{site}": SiteRun.load("messages", f"own-{site}") for site in _SITES}
    marks = {site: parties[f"own-{site}"].fingerprint for site in _SITES}
    for site in _SITES:
        parties[f"own-{site}"].trust({other: mark for other, mark in marks.items() if other != site})
    while parties:
        for own in list(parties):
            # Noise may make few rows look unlike others. Keys do not depend on that.
            with contextlib.suppress(StillWaiting), warnings.catch_warnings():
                warnings.simplefilter("ignore", UnlikeRowsWarning)
                parties[own].run(None if own == "own" else f"{own[-1]}.csv", patience=0)
                del parties[own]


def _answer(line: str, names: dict[str, str]) -> Any:
    """Run a command, and return what it prints as JSON."""
    printed, errors = io.StringIO(), io.StringIO()
    words = [names.get(word, word) for word in line.split()]
    # No PostgreSQL is needed for the keys: the ledger stays in its file.
    stays = mock.patch.object(Ledger, "moved", lambda where, _to: Ledger(where))
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors), stays:
        main([*words, "--json"])
    try:
        return json.loads(printed.getvalue())
    except ValueError:
        sys.exit(f"'dpensemble {line}' printed no JSON: {errors.getvalue()}")


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    """Work in an empty folder, with a state folder of its own."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"DPENSEMBLE_STATE": f"{folder}/state"}):
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def found(wanted: Callable[[str], bool] = lambda _section: True) -> dict[str, dict[str, str]]:
    """Return the keys of the wanted sections, whose commands run now."""
    sections: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    with _empty_folder():
        _tables()
        for section, lines in COMMANDS.items():
            if not wanted(section):
                continue
            if section == "sites run":
                _all_sites_take_part()
            answers = [_answer(line, names) for line in lines]
            sections[section] = merged(answers)
            if section == "keys create":
                names["KEY"] = answers[0]["id"]
            if section == "ledger create":
                names["LEDGER"] = answers[0]["id"]
            if section == "ledger checkpoint":
                # As on a new machine: a state folder without the witness.
                for path in Path("state").glob("*.witness"):
                    path.unlink()
        for section, paths in FILES.items():
            if wanted(section):
                sections[section] = merged([json.loads(Path(path).read_text(encoding="utf-8")) for path in paths])
    if wanted("recover"):
        sections["recover"] = {
            field.name: str(field.type)
            .replace("str | None", "text or null")
            .replace("str", "text")
            .replace("bool", "true or false")
            .replace("list[dict[text, Any]]", "list of objects")
            for field in dataclasses.fields(Recovered)
        }
    return dict(sorted(sections.items()))


if __name__ == "__main__":
    PLACE.write_text(json.dumps(found(), indent=1) + "\n", encoding="utf-8")
