"""Personalised PATE by upsampling: records with a larger budget are taught to more teachers."""

from typing import ClassVar

from dpensemble.methods.personalised import PersonalisedPATEClassifier
from dpensemble.planning import Personalisation


class UpsamplingPATEClassifier(PersonalisedPATEClassifier):
    """Private classifier by PATE in which records have budgets of their own: upsampling.

    Each record is taught to a number of distinct teachers, more the larger its budget is. The number of teachers,
    the noise and the threshold grow with the number of copies, so that each teacher learns as many
    records as in `PATEClassifier` and votes are as clear. With equal budgets this is `PATEClassifier`, label for
    label.

    Parameters
    ----------
    teacher, student, classes, levels, group_shares
        As for `WeightingPATEClassifier`.
    rule : {"solved", "published"}, default="solved"
        ``"solved"`` finds the copies at which all groups run out of budget as nearly on the same query as whole
        numbers allow; ``"published"`` takes copies proportional to epsilons.
    precision : float, optional
        Largest relative error of the numbers of copies; 0.1 by default. A finer one takes more
        copies, and so more teachers.
    vanish_at_end : bool, default=False
        Not for this variant: its teachers know records of every group, so none of them can go on alone.
    n_teachers : int, default=250
        Number of teachers without copies; ``personalised_.n_teachers`` says how many there are.
    aggregator, sigma, scale, reach, threshold, threshold_sigma, batch_size, student_confidence
        As for `PATEClassifier`; noise and threshold for `n_teachers` votes.
    analysis, stop_when_spent, accounting
        As for `PATEClassifier`, for each group at its own number of copies. Exact for two classes; with
        more, several copies are charged by pure privacy or the Gaussian mechanism.
    epsilon, delta, relation, max_labels, random_state, insecure_release_seed, n_jobs, progress,
    private_diagnostics
        As for `WeightingPATEClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, classes_
        As for `WeightingPATEClassifier`.
    personalised_ : Personalised
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
    >>> model.personalised_.copies, model.personalised_.n_teachers
    ((1, 2), 373)
    """

    _kind: ClassVar[Personalisation] = Personalisation.UPSAMPLING
