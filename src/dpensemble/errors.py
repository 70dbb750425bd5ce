"""Every exception of the library, and the name that an error suggests.

::

    DPEnsembleError
    ├── InvalidParameterError (ValueError)   a setting is out of range or unknown
    ├── DataError (ValueError)               rows, labels or columns cannot be used
    │   └── HiddenError                      an unexpected error whose text may quote private rows
    ├── BudgetError (ValueError)             the privacy budget cannot be used or does not suffice
    ├── AccountingError (ArithmeticError)    a computed privacy cost is not finite or negative
    ├── DuplicateError (RuntimeError)        an object that spends a budget was copied, or its process forked
    ├── LedgerError (RuntimeError)           the ledger cannot be read, written or trusted
    │   ├── ReplacedLedgerError              another ledger has taken the place of a ledger
    │   ├── UnknownLedgerError               a restored copy, or a machine that never saw the ledger
    │   └── TamperedLedgerError              the ledger's contents do not follow from its entries
    ├── TeacherError (RuntimeError)          no teacher could be fitted
    └── FileError (OSError)                  a file or folder cannot be read, written or trusted

Warnings: `ColumnWarning`, `UnlikeRowsWarning`, `RepeatedReleaseWarning`, `EqualRowsWarning` and
`NotForReleaseWarning`, each a `UserWarning`.

Messages are one sentence, name the parameter and the remedy, and never show private values, votes or counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


class DPEnsembleError(Exception):
    """Base class of every error raised by this library.

    Parameters
    ----------
    message : str
        One sentence.
    parameter : str, optional
        Name of the parameter that the error is about, for callers that use another name for it.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class InvalidParameterError(DPEnsembleError, ValueError):
    """A setting is out of range or unknown."""


class DataError(DPEnsembleError, ValueError):
    """Rows, labels or columns cannot be used."""


class HiddenError(DataError):
    """An unexpected error in a pass over private rows. Its text may quote them and is not shown."""

    def __init__(self, message: str = "", *, parameter: str | None = None, kind: str = "") -> None:
        super().__init__(message, parameter=parameter)
        self.kind = kind


class BudgetError(DPEnsembleError, ValueError):
    """The privacy budget cannot be used or does not suffice.

    Parameters
    ----------
    message, parameter : str
        As for `DPEnsembleError`.
    figures : mapping, optional
        For programs, if a request does not fit: its ``unit``, and in that unit what was ``requested``, is ``spent`` and
        ``remaining``, and would fit (``fits``). Public numbers only.
    """

    def __init__(
        self, message: str = "", *, parameter: str | None = None, figures: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, parameter=parameter)
        self.figures = dict(figures or {})


class AccountingError(DPEnsembleError, ArithmeticError):
    """A computed privacy cost is not finite or negative, so it is not used."""


class DuplicateError(DPEnsembleError, RuntimeError):
    """An object that spends a budget was copied, or used in a forked process."""


class LedgerError(DPEnsembleError, RuntimeError):
    """The ledger cannot be read, written or trusted."""


class ReplacedLedgerError(LedgerError):
    """Another ledger has taken the place of a ledger."""


class UnknownLedgerError(LedgerError):
    """The state folder does not know the newest entry of this ledger: a restored back-up, or a new machine."""


class TamperedLedgerError(LedgerError):
    """The ledger's contents do not follow from its entries."""


class MemoryShortageError(DPEnsembleError, MemoryError):
    """A run would need more memory than there is. It was refused before anything was charged."""


class TeacherError(DPEnsembleError, RuntimeError):
    """No teacher could be fitted."""


class FileError(DPEnsembleError, OSError):
    """A file or folder cannot be read, written or trusted."""


class VerifierError(FileError):
    """The verifier cannot run here, so that a certificate is neither confirmed nor refuted."""


def known_text(error: BaseException) -> str | None:
    """Return the text of an error of this library, or None for any other error, whose text may quote records."""
    return str(error) if isinstance(error, DPEnsembleError) else None


@contextmanager
def file_errors(text: Callable[[str | None], str]) -> Iterator[None]:
    """Turn an operating-system error in the block into a `FileError` with a text made from the system's reason."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(text(error.strerror)) from None


class LibraryWarning(UserWarning):
    """Base class of every warning of this library. Its text contains public or released facts, or is for the owner."""


class ColumnWarning(LibraryWarning):
    """A column is hardly read as it is meant: it names whose record it is, or its numbers are read as texts."""


class UnlikeRowsWarning(LibraryWarning):
    """Public rows do not look like the private rows, according to what was released, or the test cannot decide."""


class SettingWarning(LibraryWarning):
    """A setting is valid but hardly serves its purpose."""


class RepeatedReleaseWarning(LibraryWarning):
    """Several private fits used the same records, so their losses add up.

    For the owner of the records only: whether the warning is raised, and its numbers, depend exactly on private rows.
    """


class EqualRowsWarning(LibraryWarning):
    """More public rows equal private records than chance explains.

    For the owner of the records only: whether the warning is raised, and its numbers, depend exactly on private rows.
    """


class NotForReleaseWarning(LibraryWarning):
    """A saved student comes from a run with seeded noise, so its guarantee does not hold."""


# Likeness from which a name may be a misspelling of another.
_NEAR = 0.75


def nearest(name: str, public_names: Iterable[object]) -> str:
    """Return the question whether the nearest of some public names was meant, or an empty text if no name is near."""
    names = [str(one) for one in public_names]
    lowered = {one.lower(): one for one in reversed(names)}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=_NEAR)
    return f"; did you mean {lowered[close[0]]!r}?" if close else ""
