"""One option of ``train`` or ``plan``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpensemble.cli.help import METAVARS

DATA, PRIVACY, METHOD, OUTPUT = "Data", "Privacy", "Method", "Output"
PANELS = (DATA, PRIVACY, METHOD, OUTPUT)

#: Destination of a value: a setting of the estimator, a field of its law or rule, or the command itself.
SETTING, LAW, RULE, OWN = "settings", "law_fields", "rule_fields", "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its flag, its values and their destination."""

    flag: str
    name: str
    goes_to: str = OWN
    kind: type = str
    panel: str = METHOD
    text: str = ""
    choices: tuple[str, ...] = ()
    default: Any = None
    required: bool = False
    hidden: bool = False
    also: str | None = None
    placeholder: str = ""

    @property
    def key(self) -> str:
        """Its name as an argument of the function that the command calls."""
        return name_of(self.flag)

    @property
    def metavar(self) -> str:
        """Placeholder of its value in help."""
        return self.placeholder or ("NAME" if self.choices else METAVARS[self.kind])


def name_of(flag: str) -> str:
    """Return the name of an option in Python."""
    return flag.strip("-").replace("-", "_")


def own(flag: str, text: str, kind: type = str, panel: str = DATA, **rest: Any) -> Option:
    """Return an option of the command itself."""
    return Option(flag=flag, name=name_of(flag), kind=kind, panel=panel, text=text.removesuffix("."), **rest)


def parts_of(text: str | None) -> list[str] | None:
    """Return the parts of a text between commas, without spaces around them, or None if the option was left out."""
    return None if text is None else [part.strip() for part in text.split(",")]
