"""Personalised PATE by weighting: every group's teachers vote, with ballots of different weight."""

from dpensemble.engine.voting_by_group import PersonalisedPATEClassifier
from dpensemble.methods.designs import WeightingPATE


class WeightingPATEClassifier(WeightingPATE, PersonalisedPATEClassifier):
    """Private classifier by PATE with budgets by group: votes are weighted.

    Records are grouped by budget. Each group has its own teachers, as many as its share of the records. Ballots
    weigh more the larger the group's budget is, and 1 on average over teachers. With
    equal budgets this is `PATEClassifier`, label for label.

    Parameters
    ----------
    teacher, student, classes, n_teachers
        As for `SubsampleAggregateClassifier`.
    law : ReleaseLaw or str, default="gnmax"
        As for `PATEClassifier`. Noise and threshold are in votes of average weight.
    rule : {"solved", "published"} or InfluenceRule, default="solved"
        Weights at which all groups run out of budget on the same query under the chosen accounting, or proportional to
        epsilons. An object also sets the precision of the weights, and lets spent groups drop out at the end.
    analysis, accounting
        As for `PATEClassifier`, for each group at its own weight.
    epsilon : float, default=1.0
        Budget of every record if `fit` gets none.
    delta : float, default=1e-5
        Delta of every budget. Must be below 1 / n_records.
    relation, max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`. Neighbours differ within one group: group membership is public.

    Attributes
    ----------
    guarantee_ : Guarantee
        The guarantee, with one epsilon for each group in ``guarantee_.groups``.
    design_ : ByGroup
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
    >>> model = WeightingPATEClassifier(classes=[0, 1], random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)), budgets=consent,
    ...                   levels={"high": 0.5, "low": 1.0})
    >>> [(group.name, round(group.epsilon, 2)) for group in model.guarantee_.groups]
    [('high', 0.5), ('low', 1.0)]
    """
