"""Draw the README's chart, docs/images/readme.svg, from the arena's results.

Run ``python scripts/readme_chart.py`` after the arena's results change. A test fails when the picture is out of date.
The picture is plain SVG: filled shapes and text, on a white ground, so that every renderer shows the same.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "arena" / "measured" / "results.jsonl"
PICTURE = ROOT / "docs" / "images" / "readme.svg"
EPSILON = 1.0
TITLES = {
    "label-moments": "dpensemble",
    "dp-sgd-network": "DP-SGD, network",
    "dp-sgd-linear": "DP-SGD, linear",
    "dp-ebm": "DP-EBM",
    "logistic": "logistic regression, no privacy",
    "boosting": "gradient boosting, no privacy",
}
# DP-EBM is for two classes only, so its tables are those of two classes.
_ONLY_TWO_CLASSES = "dp-ebm"
_NOMINAL, _HALVED = "nominal", "halved"
_WIDTH, _LEFT, _RIGHT, _ROW, _HEAD = 600, 262, 540, 25, 44
_OURS, _PRIVATE, _WITHOUT, _INK, _LINE = "#0b5cad", "#6b7280", "#ffffff", "#1f2937", "#d1d5db"


def all_results() -> list[dict]:
    """Return every fit of the arena."""
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines() if line]


def results() -> list[dict]:
    """Return the fits of the contestants at the chart's epsilon, and those without privacy."""
    return [row for row in all_results() if row["contestant"] in TITLES and row["epsilon"] in (None, EPSILON)]


def accuracies(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Return the mean accuracy of each contestant by table, from its newest settings."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name in TITLES:
        own = [row for row in rows if row["contestant"] == name]
        newest = max(row["version"] for row in own)
        like = _HALVED if is_like_for_like(own) else _NOMINAL
        for row in own:
            if row["version"] == newest and row.get("budget", _NOMINAL) == like:
                if row.get("error"):
                    raise ValueError(f"{name} failed on {row['table']}. The chart shows complete results only.")
                values[name, row["table"]].append(row["accuracy"])
    means: dict[str, dict[str, float]] = {name: {} for name in TITLES}
    for (name, table), accuracies_of_fits in values.items():
        means[name][table] = fmean(accuracies_of_fits)
    return means


def is_like_for_like(rows: list[dict]) -> bool:
    """Return whether a contestant ran at half of its budget, which makes its guarantee one for replacing a record."""
    return any(row.get("budget") == _HALVED for row in rows)


def panels(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Return the accuracy of each contestant on Adult and on average over the tables of each kind, by title."""
    means = accuracies(rows)
    two = set(means[_ONLY_TWO_CLASSES])
    more = set(means["label-moments"]) - two
    groups = {
        "Adult, census records": {"adult"},
        f"Mean of {len(two)} tables of two classes": two,
        f"Mean of {len(more)} tables of three and more classes": more,
    }
    return {
        title: {name: fmean(by[table] for table in sorted(tables)) for name, by in means.items() if tables <= set(by)}
        for title, tables in groups.items()
    }


def _text(x: float, y: float, words: str, look: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{_INK}"{look}>{words}</text>'


def _panel(title: str, values: dict[str, float], top: float) -> list[str]:
    """Return the shapes of one panel: a line and a dot for each contestant, and the value behind the dot."""
    least, most = min(values.values()), max(values.values())
    shapes = [_text(14, top + 26, title, ' font-weight="bold"')]
    for place, (name, value) in enumerate(values.items()):
        y = top + _HEAD + _ROW * place + 8
        x = _LEFT + 20 + (_RIGHT - _LEFT - 40) * (value - least) / (most - least)
        ours, without = name == "label-moments", name in ("logistic", "boosting")
        fill = _OURS if ours else _WITHOUT if without else _PRIVATE
        look = ' font-weight="bold"' if ours else ""
        shapes += [
            _text(14, y + 5, TITLES[name], look),
            f'<rect x="{_LEFT}" y="{y - 0.5:g}" width="{_RIGHT - _LEFT}" height="1" fill="{_LINE}"/>',
            f'<circle cx="{x:.1f}" cy="{y:g}" r="7" fill="{_OURS if ours else _PRIVATE}"/>',
            f'<circle cx="{x:.1f}" cy="{y:g}" r="4.5" fill="{fill}"/>',
            _text(_RIGHT + 10, y + 5, f"{value:.3f}", look),
        ]
    return shapes


def picture() -> str:
    """Return the chart as SVG."""
    shapes, top, rows = [], 0.0, results()
    for title, values in panels(rows).items():
        shapes += _panel(title, values, top)
        top += _HEAD + _ROW * len(values) + 6
    described = f"Accuracy at epsilon {EPSILON:g} and delta 1e-5. Further to the right is better."
    relations = "DP-SGD and DP-EBM: for adding or removing a record, which promises less."
    if is_like_for_like([row for row in rows if row["contestant"] == _ONLY_TWO_CLASSES]):
        relations = "All guarantees are for replacing a record."
    shapes += [_text(14, top + 18 + 20 * n, line, ' font-size="14"') for n, line in enumerate((described, relations))]
    height = top + 52
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" '
            f'height="{height:g}" font-family="Helvetica, Arial, sans-serif" font-size="15" role="img">',
            f"<title>{described}</title>",
            f'<rect width="{_WIDTH}" height="{height:g}" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
