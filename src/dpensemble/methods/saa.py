"""Subsample-and-aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpensemble.engine.planned import store_params
from dpensemble.engine.voting import VotesInBlocks
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import SubsampleAggregate


class SubsampleAggregateClassifier(SubsampleAggregate, VotesInBlocks):
    """Private classifier by subsample-and-aggregate with Laplace noisy-max.

    The private records are partitioned into `n_teachers` disjoint subsets, with one teacher each. A noisy majority of
    the teachers labels public rows for as long as the budget lasts. A student is trained on those labels, and predicts.

    Parameters
    ----------
    teacher, student : scikit-learn classifier, optional
        Base learners, logistic regression by default. Plain logistic-regression teachers are fitted in fast batches.
        The default student is penalised more, because labels are few and noisy. Any student needs ``predict_proba``.
    classes : sequence
        All possible labels. They must be declared, because reading them from private labels would leak information.
    n_teachers : int, default=250
        Number of disjoint subsets, one teacher each.
    law : ReleaseLaw or str, default="lnmax"
        How votes become a label: an object such as ``LaplaceNoisyMax(125)``, or a short name of
        `dpensemble.laws.LAWS`. For a name, the noise is the usual one (here, as published, a scale of half the
        ballots). The noise is lower if the public rows would leave some of the budget, and as high as `max_labels`
        requires.
    accounting : {"exact", "published"}, default="exact"
        Charge only for what the released label reveals, or for the noisy counts too, as the papers do.
    epsilon : float, default=1.0
        Budget of one fit.
    delta : float, optional
        Most probability beyond epsilon (usually 1e-5). It must be below 1 / n_records. A given delta is never changed.
        Without it, delta under replace-one is the smaller of 1e-5 and 0.2 / n_records, rounded down to one digit. With
        `units` the number of units counts, unless bad records add zeros: then delta is 1e-5. Under add-or-remove-one
        the number of records is private. So delta is 1e-5, or follows from `fewest_units` in the same way.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. It decides how records are allocated.
    max_labels : int, optional
        Number of public rows to query. By default all, as far as the budget lasts.
    random_state : int, RandomState or None
        Public seed of allocation, teachers, the order of public rows and the student. It does not seed the noise.
    on_bad_record : {"raise", "zero"}, default="raise"
        What happens if a record has an undeclared label, or an infinite or missing entry. ``"raise"`` stops the run, so
        one person can cause an error. ``"zero"``: no teacher learns from the record, but the record still counts.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee "not for release".
    n_jobs : int, optional
        Number of parallel workers, as in joblib; -1 uses all cores.

    Attributes
    ----------
    guarantee_ : Guarantee
        The guarantee. It may be published if it is worst-case, and so may the following attributes.
    labels_ : ReleasedLabels
        Answered public rows and their released labels.
    student_ : scikit-learn classifier
        Trained on ``labels_`` only.
    design_ : VotingDesign
        Everything public about the run, including the computed noise.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    J. Jordon, J. Yoon and M. van der Schaar, "Differentially private bagging",
    NeurIPS 2019, supplement, section 4, Algorithm 1; K. Nissim, S. Raskhodnikova and A. Smith, STOC 2007.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = SubsampleAggregateClassifier(classes=[0, 1], n_teachers=250, epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(2000, 2)))
    >>> len(model.labels_)
    1122
    >>> model.guarantee_.basis.value
    'worst-case'
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        law: ReleaseLaw | str = "lnmax",
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
