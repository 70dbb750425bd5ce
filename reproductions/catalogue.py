"""Published tables, read from `tables/*.toml`: what a paper printed, and which experiment prints it again."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dpensemble.errors import FileError, InvalidParameterError
from reproductions.data import NEEDS
from reproductions.declared import Cell, Experiment, Panel, Settings, Status, Table, rows_of

FOLDER = Path(__file__).parent / "tables"
#: Papers in the order of the page, by file name.
PAPERS = ("dpbag", "bagging", "darrm", "personalised")
ALL = "all"

# The function behind each `run` of a file, as MODULE:FUNCTION, imported when its cells are asked for.
_RUNS = {
    "dpbag": "dpbag:cells",
    "bagging-alone": "bagging:alone",
    "bagging-from-public": "bagging:from_public",
    "bagging-several": "bagging:several",
    "bagging-pretrained": "bagging_pretrained:cells",
    "darrm-simulated": "darrm:simulated",
    "darrm-priors": "darrm:believed",
    "darrm-images": "darrm:images",
    "personalised": "personalised:cells",
    "personalised-skewed": "personalised_skewed:skewed",
    "personalised-ratios": "personalised:ratios",
}
_TABLE_KEYS = {"name", "where", "title", "experiment", "status", "about", "why", "extension", "few_runs"} | {
    *("ours", "beside", "panels", "published"),
}
_TEXTS = ("about", "why", "extension", "few_runs")
_EXPERIMENT_KEYS = {"run", "needs", "revision", "settings", "quick"}


def read_tables(path: Path) -> tuple[Table, ...]:
    """Return the tables that a TOML file declares.

    Parameters
    ----------
    path : Path
        A file with ``paper``, ``[notes]``, ``[experiments.NAME]`` and ``[[tables]]``.

    Returns
    -------
    tuple of Table

    Raises
    ------
    FileError
        If the file cannot be read, or declares something unknown. The message names the file and the entry.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        experiments = {name: _experiment(name, entry) for name, entry in content["experiments"].items()}
        return tuple(_table(entry, content, experiments) for entry in content["tables"])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise FileError(f"{path} cannot be read as TOML ({error}): correct it.") from None
    except KeyError as error:
        raise FileError(f"{path} lacks or does not know {error}: declare it.") from None
    except InvalidParameterError as error:
        raise FileError(f"{path}: {error}") from None


def _experiment(name: str, entry: Mapping[str, Any]) -> Experiment:
    _refuse_unknown(f"experiment {name!r}", entry, _EXPERIMENT_KEYS)
    return Experiment(
        name=name,
        settings=entry["settings"],
        quick=entry.get("quick", {}),
        cells=_cells(entry["run"]),
        needs=tuple(NEEDS[need] for need in entry.get("needs", ())),
        revision=entry.get("revision", 1),
    )


def _cells(run: str) -> Callable[[Settings, int], Iterable[Cell]]:
    module, function = _RUNS[run].split(":")

    def cells(settings: Settings, seed: int) -> Iterable[Cell]:
        cells_of: Callable[[Settings, int], Iterable[Cell]] = getattr(
            import_module(f"reproductions.{module}"), function
        )
        return cells_of(settings, seed)

    return cells


def _table(entry: Mapping[str, Any], content: Mapping[str, Any], experiments: Mapping[str, Experiment]) -> Table:
    _refuse_unknown(f"table {entry['name']!r}", entry, _TABLE_KEYS)
    panels = tuple(Panel(**panel | {"columns": tuple(panel["columns"])}) for panel in entry["panels"])
    notes = content.get("notes", {})
    return Table(
        name=entry["name"],
        where=f"{content['paper']} {entry['where']}",
        title=entry["title"],
        experiment=experiments[entry["experiment"]],
        panels=panels,
        published=rows_of(panels, entry["published"]),
        beside=entry.get("beside", {}),
        ours=tuple(entry.get("ours", ())),
        status=Status(entry.get("status", Status.DONE)),
        **{part: " ".join(notes.get(text, text) for text in entry.get(part, ())) for part in _TEXTS},
    )


def _refuse_unknown(name: str, entry: Mapping[str, Any], keys: set[str]) -> None:
    unknown = sorted(set(entry) - keys)
    if unknown:
        raise InvalidParameterError(f"{name} has an unknown key {unknown[0]!r}: use {', '.join(sorted(keys))}.")


#: Declared tables, in the order of the papers.
TABLES = tuple(table for paper in PAPERS for table in read_tables(FOLDER / f"{paper}.toml"))


def chosen(names: Sequence[str]) -> tuple[list[Table], bool]:
    """Return tables by name, and whether all were asked for.

    Parameters
    ----------
    names : sequence of str
        Short names such as ``dpbag-5``, or beginnings of several such as ``dpbag``, or ``all``.

    Returns
    -------
    list of Table, bool

    Raises
    ------
    InvalidParameterError
        If a name is unknown. The message lists all names.
    """
    if ALL in names:
        return list(TABLES), True
    tables: list[Table] = []
    for name in names:
        fitting = [table for table in TABLES if table.name == name or table.name.startswith(f"{name}-")]
        if not fitting:
            every = ", ".join(table.name for table in TABLES)
            raise InvalidParameterError(f"table={name!r} is unknown: use {ALL}, or some of {every}.")
        tables += [table for table in fitting if table not in tables]
    return tables, False
