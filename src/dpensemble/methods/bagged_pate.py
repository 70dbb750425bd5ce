"""PATE with teachers whose records are drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dpensemble.engine.planned import Analysis, Facts, store_params
from dpensemble.engine.voting import VotesInBlocks, VotingSteps
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import BaggedPATE
from dpensemble.relations import Relation


class DrawnSteps(VotingSteps):
    """Steps for teachers whose records are drawn at random."""

    def facts(self) -> Facts:
        """Return public facts. Equal records are separate records, because draws depend on no content."""
        if self.records.units is None:
            self.records = replace(self.records, identities=range(len(self.records.X)))
        return super().facts()

    def checked_analysis(self) -> Analysis:
        """Raise if a setting would have to be computed from the number of records, in which neighbours differ."""
        if self.relation is Relation.ADD_OR_REMOVE_ONE:
            settings = {"subsample": self.method.subsample, "max_labels": self.method.max_labels}
            lacking = [name for name, value in settings.items() if value is None]
            if self.design.choice.noise_is_open:
                lacking.append("law")
            if lacking:
                raise InvalidParameterError(
                    f"{lacking[0]}={settings.get(lacking[0], self.method.law)!r} would be computed from the number of "
                    "records, which an added or removed record changes: give subsample, max_labels and a law object "
                    "(plan finds them), or use relation='replace-one'."
                )
        return super().checked_analysis()

    def prepare(self) -> None:
        """Raise if the labels exceed the budget. A smaller number would depend on the number of records."""
        super().prepare()
        most, budget = self.method.max_labels, self.budget
        if self.relation is Relation.ADD_OR_REMOVE_ONE and self.meter.sure_queries < most:
            raise BudgetError(
                f"max_labels={most} exceeds what epsilon={budget.epsilon:g} and delta={budget.delta:g} "
                f"pay for, {self.meter.sure_queries}: request fewer, or use more noise."
            )


class BaggedPATEClassifier(BaggedPATE, VotesInBlocks):
    """Private classifier by a noisy vote of bagged teachers.

    Each teacher learns from records that are drawn for it in secret. A record that nobody drew costs nothing, and a
    record that several teachers hold costs more. The guarantee averages over both cases. With distinct draws of a part
    of the records, answers cost much less than from one partition of all records. This helps most if teachers hardly
    gain from more records. Overlapping draws (the other two schemes) let a record serve several teachers, at a
    price that rises fast. `dpensemble.plan` computes the price beforehand.

    Parameters
    ----------
    teacher, student, classes
        As for `SubsampleAggregateClassifier`.
    n_teachers : int, default=250
        Number of teachers.
    subsample : int, optional
        Records (or units) drawn for each teacher. By default half of a partition's share,
        ``n_units // (2 * n_teachers)``, and at least 1.
    scheme : {"distinct", "with-replacement", "subsets"}, default="distinct"
        Whether draws all differ (one teacher a record at most), may all repeat, or differ within each teacher.
    law : {"gnmax", "lnmax", "optimal", "randomized-response"} or ReleaseLaw, default="gnmax"
        As for `PATEClassifier`, without a gate.
    epsilon, delta
        As for `SubsampleAggregateClassifier`.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. The number of records is public under either. ``"add-or-remove-one"`` requires
        `subsample`, `max_labels` and a law object, because none of them may be computed from that number.
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
        Contains the public scheme of the draws. The draws are secret and are not stored.

    References
    ----------
    B. Balle, G. Barthe and M. Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 2. This library
    extends it to whole runs of bagged teachers (`dpensemble.accounting.subsampling`).

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
        delta: float | None = None,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())
