"""The results of a comparison."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import mean, stdev
from typing import Any

WARNING = (
    "Every method had the whole budget. On real private records, the losses of all methods and repeats would add "
    "up, and the rows without privacy would void every guarantee. Compare on public data, then "
    "run one method."
)


@dataclass(frozen=True, kw_only=True)
class ComparedMethod:
    """The result of one method, or the reason why it could not run (`error`).

    Measures are means over repeats: ``auroc`` for two classes, ``balanced_accuracy`` for more, and ``brier``. Epsilon
    and delta are those of one repeat. `bought` is what the budget bought, and `text` is the same for people. `note`
    reports a budget that differs from the requested one.
    """

    method: str
    accuracies: tuple[float, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    bought: dict[str, Any]
    text: str
    released: str | None = None
    seconds: float
    note: str | None = None
    error: str | None = None

    @property
    def accuracy(self) -> float | None:
        """Mean over repeats."""
        return mean(self.accuracies) if self.accuracies else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over two or more repeats."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Rows of methods, and of two references without any privacy.

    Parameters
    ----------
    dataset, how : str
        Data, and the source of public and test rows.
    rows : dict
        Numbers of private, public and test rows.
    classes : tuple
        Declared labels.
    epsilon, delta : float
        Whole budget of each method.
    relation, learner : str
        Neighbouring relation, and base learner.
    n_teachers, repeats : int
        Number of teachers of voting methods, and number of repeats.
    methods, references : tuple of ComparedMethod
        In the requested order.
    for_release : bool
        False if noise came from a seed.
    warning : str
        What comparing would cost on private records.
    """

    dataset: str
    how: str
    rows: dict[str, int]
    classes: tuple[Any, ...]
    epsilon: float
    delta: float
    relation: str
    learner: str
    n_teachers: int
    repeats: int
    methods: tuple[ComparedMethod, ...]
    references: tuple[ComparedMethod, ...]
    for_release: bool
    warning: str = WARNING

    @property
    def together(self) -> dict[str, float]:
        """Epsilon and delta of all methods and repeats together on private records: the sums."""
        repeats = [(row.epsilon or 0.0, row.delta or 0.0, len(row.accuracies)) for row in self.methods]
        return {
            "epsilon": sum(epsilon * times for epsilon, _, times in repeats),
            "delta": sum(delta * times for _, delta, times in repeats),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, ready for JSON."""
        content = {"schema": 1} | asdict(self)
        for name, rows in (("methods", self.methods), ("references", self.references)):
            content[name] = [asdict(row) | {"accuracy": row.accuracy, "spread": row.spread} for row in rows]
        return content | {"together": self.together}
