"""Place the labels of a chart so that no label covers another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpensemble.report.wording import shorten

LABEL_HEIGHT = 18
#: Width of a label to the right of its line's end.
LABEL_WIDTH = 108


@dataclass(frozen=True)
class Note:
    """A label, its point, and the CSS class that gives its colour."""

    x: float
    y: float
    label: str
    css: str


def placed(notes: Sequence[Note], top: float, floor: float) -> list[Note]:
    """Return where labels start: right of their points, and moved apart where close labels would overlap."""
    columns: list[list[Note]] = []
    for note in sorted(notes, key=lambda note: -note.x):
        if not columns or columns[-1][0].x - note.x >= LABEL_WIDTH:
            columns.append([])
        columns[-1].append(note)
    return [note for column in columns for note in _column(column, top, floor)]


def _column(notes: list[Note], top: float, floor: float) -> list[Note]:
    notes = sorted(notes, key=lambda note: note.y)
    heights: list[float] = []
    for note in notes:
        heights.append(max(note.y, heights[-1] + LABEL_HEIGHT if heights else top))
    lowest = [floor - LABEL_HEIGHT * below for below in reversed(range(len(notes)))]
    return [
        Note(note.x + 9, min(y, low) + 4.5, shorten(note.label), note.css)
        for note, y, low in zip(notes, heights, lowest, strict=True)
    ]


def clear_of(dots: Sequence[tuple[float, float]], notes: Sequence[Note]) -> list[Note]:
    """Return the labels. A label that would hide a dot moves a little up or down if there is room."""
    result = list(notes)
    for index, note in enumerate(result):
        others = result[:index] + result[index + 1 :]
        tries = [replace(note, y=note.y + shift) for shift in (0, -13, 14)]
        free = (
            one
            for one in tries
            if not _covers(one, others)
            and not any(one.x - 4 < x < one.x + _wide(one.label) and abs(y + 4.5 - one.y) < 10 for x, y in dots)
        )
        result[index] = next(free, note)
    return result


def beside(mark: Note, taken: Sequence[Note], left: float) -> Note:
    """Return a position around the point where the label covers no other label, if possible."""
    label = shorten(mark.label)
    width = _wide(label)
    corners = [
        Note(x, y, label, mark.css)
        for x, y in (
            (mark.x - 6 - width, mark.y - 7),
            (mark.x + 6, mark.y + 17),
            (mark.x + 6, mark.y - 7),
            (mark.x - 6 - width, mark.y + 17),
            (mark.x + 6, mark.y - 7 - LABEL_HEIGHT),
        )
    ]
    return next((corner for corner in corners if corner.x > left and not _covers(corner, taken)), corners[2])


def _covers(note: Note, taken: Sequence[Note]) -> bool:
    return any(
        abs(other.y - note.y) < LABEL_HEIGHT - 4
        and note.x < other.x + _wide(other.label)
        and other.x < note.x + _wide(note.label)
        for other in taken
    )


def _wide(label: str) -> float:
    return 7.6 * len(label)
