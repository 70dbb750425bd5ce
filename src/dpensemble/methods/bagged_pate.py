"""PATE whose teachers learn records that were drawn by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dpensemble.engine.facts import Analysis, Facts
from dpensemble.engine.params import store_params
from dpensemble.engine.voting_in_blocks import VotesInBlocks
from dpensemble.engine.voting_steps import VotingSteps
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import BaggedPATE
from dpensemble.relations import Relation


class DrawnSteps(VotingSteps):
    """Teachers whose records were drawn by chance."""

    def facts(self) -> Facts:
        """Return public facts; equal records are records of their own, as draws are tied to nothing."""
        if self.records.units is None:
            self.records = replace(self.records, identities=range(len(self.records.X)))
        return super().facts()

    def check(self) -> Analysis:
        """Refuse to find what would differ between data sets of unlike size."""
        if self.relation is Relation.ADD_OR_REMOVE_ONE:
            given = {"subsample": self.method.subsample, "max_labels": self.method.max_labels}
            lacking = [name for name, value in given.items() if value is None]
            if self.design.choice.noise_is_open:
                lacking.append("law")
            if lacking:
                raise InvalidParameterError(
                    f"{lacking[0]}={given.get(lacking[0], self.method.law)!r} would be found from the number of "
                    "records, which an added or removed record changes; give subsample, max_labels and a law object "
                    "(plan finds them), or use relation='replace-one'."
                )
        return super().check()

    def prepare(self) -> None:
        """Refuse labels that do not fit the budget, as fewer would be found from the number of records."""
        super().prepare()
        method = self.method
        if self.relation is Relation.ADD_OR_REMOVE_ONE and self.meter.sure_queries < method.max_labels:
            raise BudgetError(
                f"max_labels={method.max_labels} do not fit epsilon={method.epsilon:g} at delta={method.delta:g}, "
                f"which pays for {self.meter.sure_queries}; ask for fewer, or use more noise."
            )


class BaggedPATEClassifier(BaggedPATE, VotesInBlocks):
    """Private classifier by a noisy vote of bagged teachers.

    Each teacher learns records that were drawn for it in secret. A record that nobody drew costs nothing, and one
    that several teachers hold costs more: the guarantee averages over both. With distinct draws of a part of the
    records, answers cost much less than from one partition of them all, which is worth most where teachers hardly
    gain by more records. Overlapping draws (the other two schemes) let a record serve several teachers, at a
    price that rises fast; `dpensemble.plan` tells it beforehand.

    Parameters
    ----------
    teacher, student, classes
        As for `SubsampleAggregateClassifier`.
    n_teachers : int, default=250
        Number of teachers.
    subsample : int, optional
        Records (or units) drawn for each teacher; by default half of what a partition would give it,
        ``n_units // (2 * n_teachers)``, and at least 1.
    scheme : {"distinct", "with-replacement", "subsets"}, default="distinct"
        Whether all draws differ (one teacher a record at most), every draw is among all records, or each teacher's are.
    law : {"gnmax", "lnmax", "optimal", "randomized-response"} or ReleaseLaw, default="gnmax"
        As for `PATEClassifier`, without a gate.
    epsilon, delta
        As for `SubsampleAggregateClassifier`.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. The number of records is public under either; ``"add-or-remove-one"`` needs
        `subsample`, `max_labels` and a law object, none of which may follow from that number.
    max_labels, random_state
        As for `SubsampleAggregateClassifier`. The seed does not seed the draws.
    on_bad_record : {"raise", "zero"}, default="raise"
        As for `SubsampleAggregateClassifier`.
    insecure_release_seed : int, optional
        Seeds the draws and the noise for a repeatable experiment and marks the guarantee "not for release".
    n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, classes_
        As for `SubsampleAggregateClassifier`.
    design_ : Drawn
        With the scheme of the draws, which is public, unlike the draws, which are not kept.

    References
    ----------
    B. Balle, G. Barthe and M. Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 2; that it
    holds for whole runs of bagged teachers is this library's (`dpensemble.accounting.subsampled`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = BaggedPATEClassifier(classes=[0, 1], epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> model.design_.scheme.subsample, len(model.labels_)
    (6, 199)
    """

    steps: ClassVar[type[VotingSteps]] = DrawnSteps

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        subsample: int | None = None,
        scheme: str = "distinct",
        law: ReleaseLaw | str = "gnmax",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())
