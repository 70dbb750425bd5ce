"""Draw the rooms of ``src`` and which of them import which: docs/images/rooms.svg.

A room is a few packages that a reader learns together. An arrow is drawn where a room imports another one, unless other
arrows already lead there. A test compares the file with what this script draws, so run it after a move.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dpensemble"
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
#: Room -> its packages, and what happens there.
ROOMS = {
    "Commands": (("cli",), "parse, call, print"),
    "Server": (("server",), "ledger of budgets, answers over HTTP"),
    "Sites": (("sites",), "sums of organisations, under masks"),
    "Exports": (("exports", "mlflow"), "students for SQL, ONNX and paper, runs for MLflow"),
    "Runs": (("workflow",), "from files to a folder, claimed and journaled"),
    "Answers and audits": (("aggregation", "audit", "certificates"), "votes of others, lower bounds, proofs"),
    "Methods": (("methods", "engine", "persistence", "neural"), "estimators, and the one recipe of a run"),
    "Rows and moments": (("rows", "moments"), "one loop for private rows, sums of label moments"),
    "Designs": (("design",), "everything public about a run, and its plan"),
    "Teachers": (("teachers", "student"), "models on parts, and the student"),
    "Reports": (("report", "quality"), "the page, and a student's released quality"),
    "Tables": (("datasets", "clusters"), "readers of files, databases, Dask and Spark"),
    "Accounting": (("accounting", "releases", "darrm"), "prices, meters, the one place that draws"),
    "Votes and laws": (("allocation", "votes", "laws"), "who teaches whom, and what is sampled"),
}
_WIDTH, _BOX, _HEIGHT, _GAP = 960, 310, 62, 30


def imports() -> dict[str, set[str]]:
    """Return the rooms that each room imports, read from the source."""
    room_of = {package: room for room, (packages, _) in ROOMS.items() for package in packages}
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in PACKAGE.rglob("*.py"):
        here = room_of.get(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if here else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpensemble"):
                parts = str(node.module).split(".")[1:2] or [alias.name for alias in node.names]
                found[str(here)] |= {room_of[part] for part in parts if part in room_of} - {here}
    return found


def levels(below: dict[str, set[str]]) -> dict[str, int]:
    """Return how many rooms are stacked below each room. A circle of rooms raises RecursionError."""

    def level(room: str) -> int:
        return 1 + max((level(other) for other in below[room]), default=-1)

    return {room: level(room) for room in below}


def arrows(below: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return imports that no longer way through other rooms implies."""

    def reached(room: str) -> set[str]:
        return below[room].union(*(reached(other) for other in below[room]))

    return [
        (room, other)
        for room in below
        for other in sorted(below[room])
        if not any(other in reached(between) for between in below[room] - {other})
    ]


def picture() -> str:
    """Return the drawing, with rooms that import others above them."""
    below = imports()
    rows: dict[int, list[str]] = defaultdict(list)
    for room, level in levels(below).items():
        rows[level].append(room)
    places: dict[str, tuple[float, float]] = {}
    for number, level in enumerate(sorted(rows, reverse=True)):
        for column, room in enumerate(rows[level]):
            places[room] = (_WIDTH * (column + 1) / (len(rows[level]) + 1), 12 + number * (_HEIGHT + _GAP))
    height = 12 + len(rows) * (_HEIGHT + _GAP) + 44
    lines = [_line(places[room], places[other]) for room, other in arrows(below)]
    boxes = [_box(room, *places[room]) for room in ROOMS]
    ground = (
        f'<rect class="ground" x="12" y="{height - 50}" width="{_WIDTH - 24}" height="38" rx="6"/>'
        f'<text x="{_WIDTH / 2:g}" y="{height - 26}">Values for all rooms: errors, relations, budget, cost, '
        "guarantee</text>"
    )
    return "\n".join([_HEAD.format(width=_WIDTH, height=height), *lines, *boxes, ground, "</svg>", ""])


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = start, end
    curve = f"M{x:g} {y + _HEIGHT:g} C{x:g} {y + _HEIGHT + 30:g} {to_x:g} {to_y - 30:g} {to_x:g} {to_y - 2:g}"
    return f'<path class="arrow" d="{curve}"/>'


def _box(room: str, x: float, y: float) -> str:
    packages, text = ROOMS[room]
    return (
        f'<rect class="box" x="{x - _BOX / 2:g}" y="{y:g}" width="{_BOX}" height="{_HEIGHT}" rx="6"/>'
        f'<text class="room" x="{x:g}" y="{y + 19:g}">{escape(room)}</text>'
        f'<text class="packages" x="{x:g}" y="{y + 36:g}">{escape(", ".join(packages))}</text>'
        f'<text x="{x:g}" y="{y + 53:g}">{escape(text)}</text>'
    )


_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>Rooms of the library: an arrow leads from a room to one that it imports</title>
<style>
text {{ font: 12px system-ui, sans-serif; text-anchor: middle; fill: #334; }}
.room {{ font-weight: 700; font-size: 15px; fill: #123; }}
.packages {{ font-family: ui-monospace, monospace; fill: #456; }}
.box {{ fill: #f4f7fb; stroke: #5b7aa5; }}
.ground {{ fill: #eee; stroke: #999; }}
.arrow {{ fill: none; stroke: #8aa0bd; stroke-width: 1.5; marker-end: url(#end); }}
</style>
<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<polygon points="0,0 8,4 0,8" fill="#8aa0bd"/></marker></defs>
<rect x="0" y="0" width="{width}" height="{height}" style="fill:#fff;stroke:none"/>"""


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
