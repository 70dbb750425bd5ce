"""Results of cells as files that are whole or not there, and arrays that are kept by what they were made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble.errors import FileError
from dpensemble.workflow.disk import remove_path, replace_file

# What results depend on besides settings and code.
_LIBRARIES = ("dpensemble", "numpy", "scikit-learn")


def versions(more: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions that results are kept for: those of every experiment, and of further distributions."""
    return {name: version(name) for name in (*_LIBRARIES, *more)}


@dataclass(frozen=True)
class Stored:
    """What a cell gave, how long it took, and its CPU time, or None if workers took part of the work."""

    figures: dict[str, float]
    seconds: float
    cpu_seconds: float | None = None

    @property
    def work(self) -> float:
        """The CPU time, or how long the cell took if the CPU time is not known."""
        return self.seconds if self.cpu_seconds is None else self.cpu_seconds


@dataclass
class CellStore:
    """Cells of one run by name, each in a file. Cells of other versions or settings are not used.

    Parameters
    ----------
    folder : Path
        Folder of the files, created with the first file.
    stamp : mapping
        Everything that the results depend on, as plain values.
    """

    folder: Path
    stamp: Mapping[str, Any]
    stale: list[str] = field(default_factory=list)

    def load(self, name: str) -> Stored | None:
        """Return a cell's result, or None where there is none of this stamp."""
        path = self._path(name)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            cpu = found.get("cpu_seconds")
            stored = Stored(
                {str(k): float(v) for k, v in found["figures"].items()},
                float(found["seconds"]),
                None if cpu is None else float(cpu),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self.stale.append(f"{name} (cannot be read)")
            return None
        if found.get("stamp") != _plain(self.stamp):
            self.stale.append(f"{name} ({_difference(found.get('stamp'), _plain(self.stamp))})")
            return None
        return stored

    def save(self, name: str, stored: Stored) -> None:
        """Keep a cell's result."""
        content = {
            "stamp": _plain(self.stamp),
            "seconds": round(stored.seconds, 3),
            "cpu_seconds": None if stored.cpu_seconds is None else round(stored.cpu_seconds, 3),
            "figures": stored.figures,
        }
        write(self._path(name), json.dumps(content, indent=1) + "\n")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def write(path: Path, content: str) -> None:
    """Write a whole file or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({error.strerror}); what was finished is kept, so make room or let it be "
            "writable, and run the same command again."
        ) from None


@dataclass(frozen=True)
class Workplace:
    """What a cell is given: a folder for arrays that cost much, and a number of workers.

    Parameters
    ----------
    cache : Path
        Folder of the arrays.
    n_jobs : int or None
        Workers, as in joblib.
    versions : mapping
        Versions of libraries that arrays depend on.
    """

    cache: Path
    n_jobs: int | None = None
    versions: Mapping[str, str] = field(default_factory=versions)

    def kept(self, made_from: tuple[Any, ...], make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return an array that was made from just these arrays and plain values before, or make and keep it."""
        path = self.cache / f"{digest((*made_from, dict(self.versions)))}.npy"
        try:
            found: NDArray[Any] = np.load(path, allow_pickle=False)
        except (FileNotFoundError, ValueError, EOFError):
            # The file is missing or incomplete, so it is made again.
            found = make()
            self._keep(path, found)
        return found

    def _keep(self, path: Path, array: NDArray[Any]) -> None:
        draft = path.with_suffix(".draft")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                np.save(file, array, allow_pickle=False)
            draft.replace(path)
        except OSError as error:
            remove_path(draft)
            raise FileError(
                f"{path} cannot be written ({error.strerror}); what was finished is kept, so make room or let it be "
                "writable, and run the same command again."
            ) from None


def digest(parts: tuple[Any, ...]) -> str:
    """Return a hash of arrays and plain values."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(json.dumps(_plain(part), sort_keys=True).encode())
        found.update(b"\0")
    return found.hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    return json.loads(json.dumps(value, sort_keys=True, default=_word))


def _word(value: Any) -> str:
    """Return a word that is the same in every process, unlike a function's representation, which holds its address."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _difference(theirs: Any, ours: dict[str, Any]) -> str:
    """Return in a few words how an older result differs."""
    if not isinstance(theirs, dict):
        return "no stamp"
    changed = [name for name in ours if theirs.get(name) != ours[name]]
    if changed == ["versions"]:
        return "made with " + _versions_of(theirs["versions"], ours["versions"])
    return "other " + ", ".join(changed or ["stamp"])


def _versions_of(theirs: Any, ours: dict[str, str]) -> str:
    """Return which versions differ, such as "numpy 2.3.0 and not 2.4.6"."""
    known = theirs if isinstance(theirs, dict) else {}
    return ", ".join(
        f"{name} {known.get(name, 'of unknown version')} and not {number}"
        for name, number in ours.items()
        if known.get(name) != number
    )
