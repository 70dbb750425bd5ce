"""Draw ``label-moments.svg``, ``run.svg`` and ``voting.svg`` in ``docs/images``. A test compares the files.

Plain SVG on a white ground: boxes of words, and arrows. Private parts are red, released parts are green.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
_FILLS = {"private": "#fde2e1", "public": "#e5e7eb", "released": "#dcf3e3"}
_STROKES = {"private": "#b3261e", "public": "#6b7280", "released": "#1e7a3c"}
_INK = "#1f2937"
_WIDTH, _HEIGHT, _GAP, _TOP, _LINE = 118, 74, 26, 12, 16

#: For each picture: its title, its boxes from left to right (kind, lines), and the note below.
DIAGRAMS: dict[str, tuple[str, tuple[tuple[str, tuple[str, ...]], ...], str]] = {
    "label-moments": (
        "Label moments: one short vector of each person, and only noisy sums are released",
        (
            ("private", ("one person's", "records")),
            ("private", ("a vector of", "limited length")),
            ("private", ("exact sum", "over all people")),
            ("released", ("noisy sum,", "charged first")),
            ("released", ("model fitted to", "sums and", "public rows")),
            ("released", ("student,", "labels, report")),
        ),
        "A few rounds. Public rows make the map from rows to vectors. Budget before noise, noise before release.",
    ),
    "run": (
        "A run with teachers: what the classes of the library hand to one another",
        (
            ("private", ("private rows",)),
            ("private", ("Allocation",)),
            ("private", ("teachers",)),
            ("private", ("Votes",)),
            ("released", ("ReleaseLaw", "draws labels")),
            ("released", ("student",)),
        ),
        "The estimator makes a Design: allocation, schedule, groups, law and accounting. "
        "A Meter charges before each draw, and states the Guarantee.",
    ),
    "voting": (
        "Methods that vote: teachers learn parts of the records, and only noisy labels are released",
        (
            ("private", ("private", "records")),
            ("private", ("parts, by an", "allocation")),
            ("private", ("a teacher", "for each part")),
            ("private", ("votes on", "public rows")),
            ("released", ("labels by a", "release law,", "charged first")),
            ("released", ("student", "trained on", "the labels")),
        ),
        "Each unit reaches a known number of teachers. Exact accounts charge for what a released label can reveal.",
    ),
}


def picture(title: str, boxes: tuple[tuple[str, tuple[str, ...]], ...], note: str) -> str:
    """Return a row of boxes with arrows as SVG."""
    width = len(boxes) * (_WIDTH + _GAP) - _GAP + 2 * _TOP
    height = _HEIGHT + 3 * _TOP + 52
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (kind, lines) in enumerate(boxes):
        x = _TOP + number * (_WIDTH + _GAP)
        middle = x + _WIDTH / 2
        parts.append(
            f'<rect x="{x}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{_FILLS[kind]}" '
            f'stroke="{_STROKES[kind]}"/>'
        )
        first = _TOP + _HEIGHT / 2 + 5 - _LINE * (len(lines) - 1) / 2
        parts += [
            f'<text x="{middle:g}" y="{first + _LINE * row:g}" text-anchor="middle" fill="{_INK}">{escape(line)}</text>'
            for row, line in enumerate(lines)
        ]
        if number:
            y = _TOP + _HEIGHT / 2
            parts.append(
                f'<path d="M{x - _GAP + 3} {y:g} H{x - 9}" stroke="#1f2937" stroke-width="1.5"/>'
                f'<path d="M{x - 10} {y - 4:g} L{x - 3} {y:g} L{x - 10} {y + 4:g} Z" fill="#1f2937"/>'
            )
    legend = (("private", "stays with the owner"), ("released", "may be published"))
    for number, (kind, words) in enumerate(legend):
        x = _TOP + 190 * number
        parts.append(
            f'<rect x="{x}" y="{_HEIGHT + 2 * _TOP}" width="14" height="14" fill="{_FILLS[kind]}" '
            f'stroke="{_STROKES[kind]}"/><text x="{x + 20}" y="{_HEIGHT + 2 * _TOP + 12}" fill="#1f2937">{words}</text>'
        )
    parts.append(f'<text x="{_TOP}" y="{_HEIGHT + 2 * _TOP + 38}" fill="#1f2937">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    for name, diagram in DIAGRAMS.items():
        (IMAGES / f"{name}.svg").write_text(picture(*diagram), encoding="utf-8")
