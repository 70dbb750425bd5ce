"""Personalised PATE by upsampling: more teachers learn from records with a larger budget."""

from dpensemble.engine.voting_by_group import PersonalisedPATEClassifier
from dpensemble.methods.designs import UpsamplingPATE


class UpsamplingPATEClassifier(UpsamplingPATE, PersonalisedPATEClassifier):
    """Private classifier by PATE with budgets by group: records are copied.

    Each record is given to a number of distinct teachers, and to more teachers the larger its budget is. The number of
    teachers, the noise and the threshold grow with the number of copies. So each teacher learns from as many records as
    in `PATEClassifier`, and votes are as clear. With equal budgets this is `PATEClassifier`, label for label.

    Parameters
    ----------
    teacher, student, classes
        As for `SubsampleAggregateClassifier`.
    n_teachers : int, default=250
        Number of teachers without copies. ``design_.seats.n_teachers`` is the actual number.
    law : ReleaseLaw or str, default="gnmax"
        As for `PATEClassifier`. Noise and threshold are for `n_teachers` votes.
    rule : {"solved", "published"} or InfluenceRule, default="solved"
        Copies at which all groups run out of budget as nearly on the same query as whole
        numbers allow, or copies proportional to epsilons. A finer precision takes more copies, and so more teachers.
        Groups with a spent budget cannot vanish, because the teachers know records of every group.
    analysis, accounting
        As for `PATEClassifier`, for each group at its own number of copies. Exact for two classes. With
        more classes, several copies are charged by pure privacy or the Gaussian mechanism.
    epsilon, delta, relation, max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `WeightingPATEClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, classes_
        As for `WeightingPATEClassifier`.
    design_ : ByGroup
        Copies of each group, and the number of teachers.

    References
    ----------
    C. Mühl and F. Boenisch, "Personalized PATE: differential privacy for machine learning with individual
    privacy guarantees" (2022), sections 3.1 and 5.1, Proposition 2 and Theorem 1; appendix B for the scaling.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> budgets = rng.choice([0.5, 1.0], size=3000)
    >>> model = UpsamplingPATEClassifier(classes=[0, 1], random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)), budgets=budgets)
    >>> model.design_.seats.copies, model.design_.seats.n_teachers
    ((1, 2), 373)
    """
