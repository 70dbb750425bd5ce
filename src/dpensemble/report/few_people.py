"""Effects that rest on few people, judged by public rows and by numbers that may be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpensemble._nouns import plural
from dpensemble.report.quality_lines import Written
from dpensemble.report.record import RunRecord

#: An entry is marked if fewer private units than this are expected to have the entry.
FEW = 25
MARK = "*"


@dataclass(frozen=True, slots=True)
class Support:
    """How many private units stand behind each entry of a column, if they are like the public rows.

    Parameters
    ----------
    units : int or None
        Number of private units that the model learned from. None if the number must not be published. Then public rows
        are counted instead.
    noun : str
        The noun for units.
    """

    units: int | None
    noun: str

    @classmethod
    def of(cls, record: RunRecord) -> Support:
        """Return the support of a record. Nothing in it depends on private rows that the guarantee does not cover."""
        units = None if "private_units" in record.unprotected_data else record.data.get("private_units")
        return cls(None if units is None else units - record.data.get("held_back", 0), record.unit)

    def few(self, effect: Written) -> list[bool]:
        """Return for each point of an effect whether few units have it. Effects of earlier versions have no marks."""
        rows = effect.get("rows")
        if rows is None or not sum(rows):
            return [False] * len(effect["points"])
        scale = 1.0 if self.units is None else self.units / sum(rows)
        blanks = [isinstance(entry, str) for entry, _ in effect["points"]]
        counts = rows if effect["kind"] != "number" else _with_neighbours(rows, blanks)
        return [scale * count < FEW for count in counts]

    def sentence(self, *, dots: bool = True) -> str:
        """Return what the mark means, and with `dots` the hollow dot of a picture."""
        who = f"of the {self.units:,} {plural(self.noun)} are expected to" if self.units is not None else "public rows"
        mark = f"{MARK} or a hollow dot" if dots else MARK
        return (
            f"{mark}: fewer than {FEW} {who} have such an entry, judged by public rows. This push rests on few people, "
            "and may be chance."
        )


def _with_neighbours(rows: Sequence[int], blanks: Sequence[bool]) -> list[int]:
    """Return the rows at each number and at both its neighbours, since a line joins them. Blanks count for themselves.

    Examples
    --------
    >>> _with_neighbours([3, 4, 5, 9], [False, False, False, True])
    [7, 12, 9, 9]
    """
    numbers = [count for count, blank in zip(rows, blanks, strict=True) if not blank]
    sums = iter([sum(numbers[max(place - 1, 0) : place + 2]) for place in range(len(numbers))])
    return [count if blank else next(sums) for count, blank in zip(rows, blanks, strict=True)]
