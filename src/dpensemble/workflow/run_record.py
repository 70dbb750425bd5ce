"""The record of one run: its result, its tables, its scores and the quality of its student.

The tables are converted for the method by rules that come from public rows and are published. The record also states
groups with their own budgets, decisions, shares of released labels, and warnings about teachers for their owner.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import pandas as pd

from dpensemble._units import number_units
from dpensemble.allocation.budget_groups import PersonalBudgets
from dpensemble.engine.result import Result
from dpensemble.guarantee import Guarantee
from dpensemble.report import RunRecord
from dpensemble.workflow.tables import Tables


def _personal_fields(result: Result, personal: PersonalBudgets | None) -> dict[str, Any]:
    """Return the fields of a run's record about groups, or no fields if there is only one group."""
    if personal is None or not result.guarantee.groups:
        return {}
    records = np.bincount(personal.group_of_record, minlength=personal.n_groups).tolist()
    groups = []
    for index, stated in enumerate(result.guarantee.groups):
        settings = result.design.group_settings(index)
        del settings["share"]
        groups.append(
            {"name": stated.name, "budget": stated.budget, "epsilon": stated.epsilon, "records": records[index]}
            | settings
        )
    spend = [[count, list(epsilons)] for count, epsilons in result.spend or ()]
    # The length of a curve must not reveal a secret number of labels.
    most = result.labels.n_asked if result.guarantee.fixed_number else 1
    return {"groups": groups, "group_spend": spend} | result.design.plain_fields(most)


class _Conversion(Protocol):
    """How tables were converted for the method."""

    blanks: str

    def kinds(self, public: pd.DataFrame) -> str:
        """Describe how each column of the public rows was read."""
        ...


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Measures of a run besides its result."""

    student: dict[str, float] | None = None
    baseline: dict[str, float] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    #: What the guarantee of a score assumes besides.
    assumptions: tuple[str, ...] = ()
    has_baseline: bool = False


def run_record(
    result: Result, tables: Tables, reader: _Conversion, measured: Measured, personal: PersonalBudgets | None = None
) -> RunRecord:
    """Return the record of a run."""
    labels, budget = result.labels, max((g.budget for g in result.design.groups), key=lambda one: one.epsilon)
    groups = _personal_fields(result, personal)
    return RunRecord(
        method=result.design.name,
        guarantee=_stated(result, measured.assumptions).to_dict(),
        budget={"epsilon": budget.epsilon, "delta": budget.delta},
        labels=len(labels),
        asked=labels.n_asked,
        label_accuracy=_label_accuracy(tables.y_public, labels.indices, labels.labels),
        student=measured.student,
        baseline=measured.baseline,
        # A run with groups has a curve for each group instead.
        worst_case_spend=[] if groups or not result.voted else _worst_case_spend(result),
        effects=_in_declared_order(result.effects, list(result.classes), tables.classes),
        data=_describe(tables, result.n_features, reader) | _about_fit(result) | measured.facts,
        settings=_settings(result, tables),
        versions=_versions(),
        seconds={stage: round(value, 3) for stage, value in measured.seconds.items()},
        experiment=_reasons(result, tables, measured.has_baseline),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        releases=[asdict(one) for one in result.releases],
        **groups,
    )


def _in_declared_order(effects: list[dict[str, Any]], present: list[Any], declared: list[Any]) -> list[dict[str, Any]]:
    """Return effects on classes in the order of the declared classes, which the record uses."""
    if not declared:
        # A number, or a risk.
        return effects
    places = [present.index(label) for label in declared]

    def moved(values: list[float]) -> list[float]:
        if len(places) > 2:
            return [values[place] for place in places]
        # Two classes have only the second logit. The first is its negative.
        return values if places == [0, 1] else [-value for value in values]

    in_order = []
    for one in effects:
        changed = one | {"points": [[name, moved(values)] for name, values in one["points"]]}
        if "deviations" in one:
            changed["deviations"] = [list(map(abs, moved(values))) for values in one["deviations"]]
        in_order.append(changed)
    return in_order


def _stated(result: Result, of_score: Sequence[str]) -> Guarantee:
    """Return the guarantee, with the assumptions of a score if there is one. Its epsilon and delta cover both."""
    stated = result.guarantee
    more = [text for text in of_score if text not in stated.assumptions]
    return replace(stated, assumptions=(*stated.assumptions, *more))


def _label_accuracy(truth: pd.Series | None, rows: Any, labels: Any) -> float | None:
    return None if truth is None or not len(rows) else float(np.mean(truth.to_numpy()[rows] == labels))


def _worst_case_spend(result: Result) -> list[list[float]]:
    """Return the data-independent spend up to the answered labels or, if their number is secret, up to the budget."""
    # The curve of a gated run counts queries, since unanswered queries cost something too.
    curve, design = result.spend, result.design
    if curve is None:
        most = result.labels.n_asked if result.guarantee.fixed_number else design.meter().sure_queries
        curve = design.spend_curve(most)
    return [[count, epsilon] for count, (epsilon,) in curve]


def _describe(tables: Tables, n_features: int, reader: _Conversion) -> dict[str, Any]:
    owners = tables.public_units
    return {
        "name": tables.name,
        "target": tables.target,
        "private_records": tables.n_records,
        "private_units": tables.n_units,
        "public_rows": len(tables.X_public),
        "test_rows": 0 if tables.X_test is None else len(tables.X_test),
        "columns": tables.X_public.shape[1],
        "features": n_features,
        "classes": [str(label) for label in tables.classes],
        "most_common_label": _majority_share(tables),
        "test_is_public": tables.test_is_public,
        "data_is_public": tables.data_is_public,
        "unit_column": tables.unit_column,
        "kinds_of_columns": reader.kinds(tables.X_public),
        "blanks": reader.blanks,
        **({} if owners is None else {"public_units": len(number_units(owners)[0])}),
    }


def _about_fit(result: Result) -> dict[str, Any]:
    """Return facts about a result: which class the areas refer to, and a warning about public rows."""
    facts: dict[str, Any] = {}
    if len(result.classes) == 2:
        facts["positive_class"] = str(result.classes[1])
    drift, readable = result.drift, result.readable_share
    if drift is not None:
        facts["public_rows_unlike"] = drift.outcome
        if not drift.trusted:
            facts["unlike"] = drift.warning(replaced=bool(result.settings.get("synthetic_rows")))
    if readable is not None:
        facts |= {"readable_share": round(readable.share, 4), "readable_share_error": round(readable.error, 6)}
    return facts


def _settings(result: Result, tables: Tables) -> dict[str, Any]:
    """Return the settings as plain values: those of the design, of randomness and of the learners."""
    settings = dict(result.settings)
    if result.recommendation is not None:
        settings["chosen_because"] = result.recommendation.why
    if tables.group_shares is not None:
        settings["group_shares"] = dict(tables.group_shares)
    return {name: _plain(value) for name, value in (settings | result.learners).items()}


def _majority_share(tables: Tables) -> float | None:
    """Return the accuracy of always giving the test rows' most common label."""
    if tables.y_test is None or not tables.classes:
        return None
    return float(tables.y_test.value_counts(normalize=True).max())


def _plain(value: Any) -> Any:
    """Return a setting in a form that JSON can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else " ".join(repr(value).split())


def _versions() -> dict[str, str]:
    packages = ("dpensemble", "numpy", "scipy", "scikit-learn", "pandas", "joblib")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _reasons(result: Result, tables: Tables, baseline: bool) -> list[str]:
    reasons = {
        "A baseline without privacy was trained on the private records.": baseline,
        "The noise came from a seed, so it can be removed.": not result.guarantee.for_release,
        "Budgets were assigned to records at random, not by consent.": tables.budgets_at_random,
        "The private records are a published data set, split for demonstration.": tables.data_is_public,
    }
    return [reason for reason, holds in reasons.items() if holds]
