"""Every exception of the library.

::

    DPEnsembleError
    ├── InvalidParameterError (ValueError)   a setting is out of range or unknown
    ├── DataError (ValueError)               rows, labels or columns cannot be used
    │   └── HiddenError                      an error that nobody foresaw, whose text may quote private rows
    ├── BudgetError (ValueError)             the privacy budget cannot be used or does not suffice
    ├── AccountingError (ArithmeticError)    a privacy cost came out non-finite or negative
    ├── DuplicateError (RuntimeError)        an object that spends a budget was copied, or its process forked
    ├── LedgerError (RuntimeError)           the ledger cannot be read, written or trusted
    │   ├── ReplacedLedgerError              another ledger is where a ledger was before
    │   └── TamperedLedgerError              what the ledger holds does not follow from its entries
    ├── TeacherError (RuntimeError)          no teacher could be fitted
    └── FileError (OSError)                  a file or folder cannot be read, written or trusted

Warnings: `ColumnWarning`, `UnlikeRowsWarning`, `RepeatedReleaseWarning` and `NotForReleaseWarning`, which are each a
`UserWarning`.

Messages are one sentence, name the parameter and what would work, and never show private values, votes or counts.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class DPEnsembleError(Exception):
    """Base class of every error raised by this library.

    Parameters
    ----------
    message : str
        One sentence.
    parameter : str, optional
        Name of the parameter that the error is about, for callers that call it otherwise.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class InvalidParameterError(DPEnsembleError, ValueError):
    """A setting is out of range or unknown."""


class DataError(DPEnsembleError, ValueError):
    """Rows, labels or columns cannot be used."""


class HiddenError(DataError):
    """An error that nobody foresaw, in a pass over private rows; its text may quote them and is not shown."""

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
        For programs, where something was asked for that does not fit: ``unit``, and in it what was ``requested``, is
        ``spent`` and ``remaining``, and would fit (``fits``). Public numbers only.
    """

    def __init__(
        self, message: str = "", *, parameter: str | None = None, figures: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, parameter=parameter)
        self.figures = dict(figures or {})


class AccountingError(DPEnsembleError, ArithmeticError):
    """A privacy cost came out non-finite or negative, so it is refused."""


class DuplicateError(DPEnsembleError, RuntimeError):
    """An object that spends a budget was copied, or used in a forked process."""


class LedgerError(DPEnsembleError, RuntimeError):
    """The ledger cannot be read, written or trusted."""


class ReplacedLedgerError(LedgerError):
    """Another ledger is where a ledger was before."""


class TamperedLedgerError(LedgerError):
    """What the ledger holds does not follow from its entries."""


class TeacherError(DPEnsembleError, RuntimeError):
    """No teacher could be fitted."""


class FileError(DPEnsembleError, OSError):
    """A file or folder cannot be read, written or trusted."""


def known_text(error: BaseException) -> str | None:
    """Return the text of an error of this library; None for any other error, whose text may quote records."""
    return str(error) if isinstance(error, DPEnsembleError) else None


@contextmanager
def file_errors(text: Callable[[str | None], str]) -> Iterator[None]:
    """Turn an error of the system in the block into a `FileError`, whose text is made from the system's reason."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(text(error.strerror)) from None


class LibraryWarning(UserWarning):
    """Base class of every warning of this library; its text holds public or released facts, or is for the owner."""


class ColumnWarning(LibraryWarning):
    """A public column looks like something that should not be learned from, such as whose record it is."""


class UnlikeRowsWarning(LibraryWarning):
    """Public rows do not look like the private ones as far as what was released tells, or the test cannot decide."""


class SettingWarning(LibraryWarning):
    """A setting is valid and will hardly do what it is for."""


class RepeatedReleaseWarning(LibraryWarning):
    """Several private fits were made on the same records, so that their losses add up.

    For the owner of the records only: whether it is raised, and its numbers, follow exactly from private rows.
    """


class NotForReleaseWarning(LibraryWarning):
    """A saved student comes from a run with seeded noise, so that its guarantee does not hold."""
