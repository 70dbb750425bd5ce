"""Personalised PATE by weighting: every group's teachers vote, with ballots of different weight."""

from typing import ClassVar

from dpensemble.methods.personalised import PersonalisedPATEClassifier
from dpensemble.planning import Personalisation


class WeightingPATEClassifier(PersonalisedPATEClassifier):
    """Private classifier by PATE in which records have budgets of their own: weighting.

    Records are grouped by budget; each group has teachers of its own, as many as its share of the
    records, and their ballots weigh more the larger the group's budget is: 1 on average over teachers. With
    equal budgets this is `PATEClassifier`, label for label.

    Parameters
    ----------
    teacher, student, classes
        As for `PATEClassifier`.
    levels : mapping, optional
        Epsilon of each consent level, such as ``{"low": 2.0, "medium": 1.0, "high": 0.5}``; `fit` is then given
        the name of each record's level.
    group_shares : mapping, optional
        Public share of the records with each epsilon (or level). By default read off the records, which replacing
        a record by another of its group does not change; must be given under add-or-remove-one.
    rule : {"solved", "published"}, default="solved"
        ``"solved"`` finds the weights at which all groups run out of budget on the same query under the
        accounting in use; ``"published"`` takes weights proportional to epsilons.
    precision : float, optional
        Largest relative error of the weights, which are made whole numbers; 0.002 by default.
    vanish_at_end : bool, default=False
        Worst-case analysis without a gate only: groups that have spent their budget drop out, and the others go
        on, with noise in proportion to the ballots that are left.
    n_teachers, aggregator, sigma, scale, reach, threshold, threshold_sigma, batch_size, student_confidence
        As for `PATEClassifier`; noise and threshold in votes of average weight.
    analysis, stop_when_spent, accounting
        As for `PATEClassifier`, for each group at its own weight.
    epsilon : float, default=1.0
        Budget of every record where `fit` is given none.
    delta : float, default=1e-5
        Delta of every budget.
    relation, max_labels, random_state, insecure_release_seed, n_jobs, progress, private_diagnostics
        As for `PATEClassifier`. Neighbouring data sets differ within one group: who is in which is public.

    Attributes
    ----------
    guarantee_ : Guarantee
        What is promised, with one epsilon for each group in ``guarantee_.groups``.
    personalised_ : Personalised
        Teachers and weight of each group.
    labels_, student_, classes_
        As for `PATEClassifier`.

    References
    ----------
    C. Mühl and F. Boenisch, "Personalized PATE: differential privacy for machine learning with individual
    privacy guarantees" (2022), sections 3.3 and 5.1, Proposition 4 and Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> consent = rng.choice(["high", "low"], size=3000)
    >>> model = WeightingPATEClassifier(classes=[0, 1], levels={"high": 0.5, "low": 1.0}, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)), budgets=consent)
    >>> [(group.name, round(group.epsilon, 2)) for group in model.guarantee_.groups]
    [('high', 0.5), ('low', 1.0)]
    """

    _kind: ClassVar[Personalisation] = Personalisation.WEIGHTING
