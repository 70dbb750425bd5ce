"""Differentially private bagging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpensemble.engine.planned import store_params
from dpensemble.engine.voting import VotesInBlocks
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import DPBagging


class DPBaggingClassifier(DPBagging, VotesInBlocks):
    """Private classifier by differentially private bagging (DPBag) with Laplace noisy-max.

    Like `SubsampleAggregateClassifier`, but the records are partitioned `n_partitions` times. So every record teaches
    that many teachers, and the noise grows in proportion. Votes are steadier at the same worst-case cost, and the
    data-dependent analysis answers more queries.

    Parameters
    ----------
    teacher, student, classes
        As for `SubsampleAggregateClassifier`.
    n_teachers : int, default=250
        Disjoint subsets in each partition. There are ``n_teachers * n_partitions`` teachers.
    n_partitions : int, default=10
        Number of partitions.
    law : ReleaseLaw or str, default="lnmax"
        As for `SubsampleAggregateClassifier`.
    analysis : {"worst-case", "data-dependent", "until-spent"}, default="worst-case"
        Worst case (DPBag-): a guarantee for every data set. Data-dependent (DPBag proper, the paper's personalised
        analysis): more labels for the same budget, but the spend must not be published. It requires `max_labels`, and a
        fit whose spend would exceed the budget releases nothing and raises. ``"until-spent"`` is data-dependent and
        answers until the budget of the most exposed unit is used up, as published. Their number is not protected.
    accounting, epsilon, delta
        As for `SubsampleAggregateClassifier`.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. It decides how records are allocated. With two classes, a data-dependent analysis gains
        nothing under add-or-remove-one, because an added record is charged for joining any teachers.
    max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, design_, classes_
        As for `SubsampleAggregateClassifier`. A data-dependent guarantee holds only for the data set of the fit.

    References
    ----------
    J. Jordon, J. Yoon and M. van der Schaar, "Differentially private bagging", NeurIPS 2019, Alg. 1, Thms. 1 to 6.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = DPBaggingClassifier(classes=[0, 1], n_teachers=100, n_partitions=5, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> len(model.labels_)
    180
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        n_partitions: int = 10,
        law: ReleaseLaw | str = "lnmax",
        analysis: str = "worst-case",
        accounting: str = "exact",
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
