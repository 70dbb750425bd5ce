"""Personalised PATE by vanishing: teachers of records with a larger budget vote more often."""

from dpensemble.engine.voting_by_group import PersonalisedPATEClassifier
from dpensemble.methods.designs import VanishingPATE


class VanishingPATEClassifier(VanishingPATE, PersonalisedPATEClassifier):
    """Private classifier by PATE with budgets by group: votes are left out.

    Records are grouped by budget. Each group has its own teachers, as many as its share of the records, and only
    some of them vote on each query, in turns. The number of voters is the same on every query, and noise and threshold
    are in proportion to it. With equal budgets this is `PATEClassifier`, label for label.

    Parameters
    ----------
    teacher, student, classes, n_teachers
        As for `SubsampleAggregateClassifier`.
    law : ReleaseLaw or str, default="gnmax"
        As for `PATEClassifier`. Noise and threshold are for `n_teachers` votes, and lower if fewer vote.
    rule : {"solved", "published"} or InfluenceRule, default="solved"
        Frequencies at which all groups run out of budget on the same query, as nearly as whole numbers of voters allow,
        or proportional to the squares of epsilons. A precision cannot be set, because voters are whole teachers.
    analysis, accounting
        As for `PATEClassifier`, for each teacher on the queries that it votes on.
    epsilon, delta, relation, max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `WeightingPATEClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, classes_
        As for `WeightingPATEClassifier`. A group's epsilon is that of its teacher with the most votes.
    design_ : ByGroup
        Teachers of each group and how often they vote.

    References
    ----------
    C. Mühl and F. Boenisch, "Personalized PATE: differential privacy for machine learning with individual
    privacy guarantees" (2022), sections 3.2 and 5.1, Proposition 3 and Theorem 1; appendix B for the turns.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> budgets = rng.choice([0.5, 1.0], size=3000)
    >>> model = VanishingPATEClassifier(classes=[0, 1], random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)), budgets=budgets)
    >>> [round(share, 1) for share in model.design_.seats.frequencies]
    [0.2, 1.0]
    """
