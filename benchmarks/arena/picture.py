"""Draws dot plots of means, and mean ranks, in the rivals' environment; imports nothing of this repository."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_MARKERS = "osD^vP*X<>hdp8"
_COLOURS = (
    *("#c1121f", "#e76f51", "#f4a261", "#1d3557", "#2a6f97", "#61a5c2", "#6a994e"),
    *("#a7c957", "#8d99ae", "#7b2cbf", "#c77dff", "#b08968", "#3d405b", "#ffb703"),
)
_RANKED = ("accuracy", "auroc", "log_loss")


def draw(drawn: dict, group: str, metric: str, folder: Path) -> None:
    """Draw one panel an epsilon: a line a table, a mark a contestant; upright strokes are without privacy."""
    points = [p for p in drawn["points"] if p["group"] == group and p["metric"] == metric]
    if not points:
        return
    tables = drawn["tables"][group]
    epsilons = sorted({p["epsilon"] for p in points})
    figure, panels = plt.subplots(
        1, len(epsilons), sharex=True, sharey=True, squeeze=False, figsize=(3.2 * len(epsilons) + 1.5, 5.5)
    )
    there = [name for name in drawn["titles"] if any(p["contestant"] == name for p in points)]
    for panel, epsilon in zip(panels[0], epsilons, strict=True):
        for name in there:
            marks = [p for p in points if p["contestant"] == name and p["epsilon"] == epsilon]
            height = [len(tables) - 1 - tables.index(p["table"]) for p in marks]
            panel.scatter([p["mean"] for p in marks], height, label=drawn["titles"][name], **_look(name, drawn))
        panel.set_title(f"epsilon {epsilon:g}")
        panel.set_yticks(range(len(tables)), list(reversed(tables)))
        panel.grid(axis="y", linewidth=0.5, alpha=0.5)
        panel.set_axisbelow(True)
    figure.supxlabel(f"{group}: {drawn['metrics'][metric]}, mean over splits")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=4, fontsize="small", frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.82))
    _save(figure, folder, f"{_stem(group)}-{metric}")


def draw_ranks(drawn: dict, group: str, epsilon: float, folder: Path) -> None:
    """Draw mean ranks of one epsilon, a panel a metric; grey marks what chance may part from the best."""
    here = {r["metric"]: r for r in drawn["ranks"] if r["group"] == group and r["epsilon"] == epsilon}
    metrics = [metric for metric in _RANKED if metric in here]
    if not metrics:
        return
    names = [name for name in drawn["private"] if any(name in here[metric]["ranks"] for metric in metrics)]
    figure, panels = plt.subplots(
        1, len(metrics), squeeze=False, figsize=(3.6 * len(metrics) + 2.5, 0.3 * len(names) + 1.6)
    )
    for panel, metric in zip(panels[0], metrics, strict=True):
        ranks = sorted(here[metric]["ranks"].items(), key=lambda pair: pair[1])
        for height, (name, rank) in enumerate(reversed(ranks)):
            panel.scatter([rank], [height], **_look(name, drawn))
        panel.set_yticks(range(len(ranks)), [drawn["titles"][name] for name, _ in reversed(ranks)], fontsize="x-small")
        critical = here[metric]["critical"]
        if critical is not None:
            best = ranks[0][1]
            panel.axvspan(best, best + critical, color="0.9", zorder=0)
        panel.set_title(f"{drawn['metrics'][metric]}\n{here[metric]['tables']} tables", fontsize="small")
        panel.set_xlim(0.5, len(ranks) + 0.5)
        panel.grid(axis="x", linewidth=0.5, alpha=0.5)
    figure.supxlabel(
        f"{group}, epsilon {epsilon:g}: mean rank; grey is within the critical difference of the best", fontsize="small"
    )
    figure.tight_layout()
    _save(figure, folder, f"ranks-{_stem(group)}-epsilon-{epsilon:g}")


def _stem(group: str) -> str:
    return group.lower().replace(" ", "-")


def _save(figure, folder: Path, stem: str) -> None:
    figure.savefig(folder / f"{stem}.svg")
    figure.savefig(folder / f"{stem}.png", dpi=120)
    plt.close(figure)


def _look(name: str, drawn: dict) -> dict:
    if name not in drawn["private"]:
        return {"marker": "|", "s": 90, "color": {"commonest": "0.75", "logistic": "0.45"}.get(name, "0.05")}
    place = drawn["private"].index(name)
    marker, colour = _MARKERS[place % len(_MARKERS)], _COLOURS[place % len(_COLOURS)]
    return {"marker": marker, "s": 34, "color": colour, "alpha": 0.9, "zorder": 9 - place / 20}


def main() -> None:
    path = Path(sys.argv[1])
    drawn = json.loads(path.read_text(encoding="utf-8"))
    for group in drawn["tables"]:
        for metric in drawn["metrics"]:
            draw(drawn, group, metric, path.parent)
        for epsilon in sorted({r["epsilon"] for r in drawn["ranks"]}):
            draw_ranks(drawn, group, epsilon, path.parent)


if __name__ == "__main__":
    main()
