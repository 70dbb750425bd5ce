"""Private aggregation of teacher ensembles (PATE), and its three variants in which groups have their own budgets.

By upsampling, more teachers learn from records with a larger budget. By vanishing, teachers of such records vote more
often. By weighting, the teachers of every group vote, with ballots of different weight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import real_between, shown
from dpensemble._units import number_units
from dpensemble.allocation.budget_groups import PersonalBudgets, personal_budgets
from dpensemble.design import Census, InfluenceRule
from dpensemble.engine import classifier
from dpensemble.engine.planned import Facts, store_params
from dpensemble.engine.records import DeclaredBudgets, TeacherRecords
from dpensemble.engine.run import run
from dpensemble.engine.voting import PrivateDiagnostics, VotesInBlocks, VotingEnsembleClassifier, VotingSteps
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import GroupGuarantee, Guarantee
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import PATE, UpsamplingPATE, VanishingPATE, WeightingPATE
from dpensemble.relations import Basis, Relation
from dpensemble.rows import arguments as inputs
from dpensemble.rows.arguments import one_per_record


class _GroupSteps(VotingSteps):
    """A vote in which groups of records have their own budgets. Without budgets, it is an ordinary vote."""

    def facts(self) -> Facts:
        """Return public facts, with the groups by their public shares."""
        if self.budgets is None:
            return super().facts()
        personal = self._personal_budgets(self.budgets)
        identities = _identities(self.records, personal, self.relation)
        self.records = replace(self.records, identities=identities, group_of_record=personal.group_of_record)
        census = _census(personal, identities, self.budgets)
        return replace(super().facts(), n_units=None, census=census)

    def _personal_budgets(self, budgets: DeclaredBudgets) -> PersonalBudgets:
        values, shares = one_per_record("budgets", budgets.values, len(self.records.X)), budgets.group_shares
        if shares is not None and not (isinstance(shares, Mapping) and shares):
            raise InvalidParameterError(
                f"group_shares must map budgets to shares, e.g. {{'low': 0.8, 'high': 0.2}}; got {shown(shares)}."
            )
        if shares is None and self.relation is Relation.ADD_OR_REMOVE_ONE:
            raise InvalidParameterError(
                "relation='add-or-remove-one' requires group_shares, the public share of each budget among records, "
                "because shares that are read from the records would change when one is added: give group_shares."
            )
        return personal_budgets(values, delta=self.budget.delta, levels=budgets.levels, declared=shares)

    def guarantee(self) -> Guarantee:
        """Return the guarantee, with a separate one for each group."""
        stated = super().guarantee()
        if self.budgets is None:
            return stated
        worst_case = self.meter.basis is Basis.WORST_CASE
        groups = tuple(
            GroupGuarantee(
                name=group.name, epsilon=epsilon if worst_case else group.budget.epsilon, budget=group.budget.epsilon
            )
            for group, epsilon in zip(self.design.groups, self.meter.group_epsilons, strict=True)
        )
        membership = classifier.MEMBERSHIP[self.allocation.relation]
        return replace(stated, groups=groups, assumptions=(*stated.assumptions, membership))


class _PersonalisedPATEClassifier(VotingEnsembleClassifier):
    """Template of the personalised variants. A subclass names its kind. Parameters: see `WeightingPATEClassifier`."""

    takes_budgets: ClassVar[bool] = True
    steps: ClassVar[type[VotingSteps]] = _GroupSteps

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        law: ReleaseLaw | str = "gnmax",
        rule: InfluenceRule | str = "solved",
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

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        budgets: ArrayLike | None = None,
        levels: Mapping[Any, float] | None = None,
        group_shares: Mapping[Any, float] | None = None,
        diagnostics: PrivateDiagnostics | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> VotingEnsembleClassifier:
        """Fit teachers on private records, label public rows within everybody's budget, and fit the student.

        Parameters
        ----------
        X, y, X_public, units, diagnostics, ledger, fewest_units, **others
            As for `PATEClassifier.fit`.
        budgets : array-like of shape (n_records,), optional
            Epsilon of each record, or the name of its consent level if `levels` is given. All records of a unit have
            the same one. Assumed to be public. By default every record has `epsilon`.
        levels : mapping, optional
            Epsilon of each consent level, such as ``{"low": 2.0, "medium": 1.0, "high": 0.5}``.
        group_shares : mapping, optional
            Public share of the records with each epsilon (or level). By default read from the records. Replacing
            a record by another of its group does not change it, but under add-or-remove-one it must be given.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, DataError, BudgetError, TeacherError
            As for `PATEClassifier.fit`, and if a group is too small for a teacher, or a record's budget is missing.
        """
        inputs.refuse_others(others)
        declared = None
        if budgets is not None:
            declared = DeclaredBudgets(budgets, levels, group_shares)
        elif levels is not None or group_shares is not None:
            raise InvalidParameterError(
                "levels and group_shares define what budgets mean, but fit got no budgets: pass budgets=, one for each "
                "record."
            )
        arguments = (X, y, X_public, units, fewest_units, diagnostics, declared)
        return run(self, lambda: self._checked(*arguments), ledger=ledger, records=(X, y, X_public))


def _identities(records: TeacherRecords, personal: PersonalBudgets, relation: Relation) -> Sequence[Hashable]:
    """Return the unit of each record. Equal records of different groups are different units."""
    if records.units is not None or relation is Relation.REPLACE_ONE or personal.n_groups == 1:
        return records.identities
    groups = personal.group_of_record.tolist()
    return [repr((identity, group)) for identity, group in zip(records.identities, groups, strict=True)]


def _census(personal: PersonalBudgets, identities: Sequence[Hashable], budgets: DeclaredBudgets) -> Census:
    """Return the groups by their public shares: declared shares, or shares of units."""
    if budgets.group_shares is None:
        groups = personal.group_of_unit(number_units(identities)[1])
        shares = np.bincount(groups, minlength=personal.n_groups).astype(np.float64)
    else:
        shares = _declared_shares(budgets.group_shares, personal, budgets.levels)
    return Census(names=personal.names, budgets=personal.budgets, shares=tuple(shares.tolist()))


def _declared_shares(
    shares: Mapping[Any, float], personal: PersonalBudgets, levels: Mapping[Any, float] | None
) -> NDArray[np.float64]:
    """Return the declared share of each group. Levels with the same epsilon are added up."""
    totals = np.zeros(personal.n_groups)
    for key, share in shares.items():
        epsilon = float(key if levels is None else levels[key])
        totals[int(np.searchsorted(personal.epsilons, epsilon))] += real_between(
            f"group_shares[{key!r}]", share, 1e-9, 1e12
        )
    return totals


class PATEClassifier(PATE, VotesInBlocks):
    """Private classifier by private aggregation of teacher ensembles (PATE).

    The private records are partitioned into `n_teachers` disjoint subsets, with one teacher each. A noisy plurality of
    the teachers labels public rows. A student is trained on those labels, and predicts.

    Parameters
    ----------
    teacher, student, classes, n_teachers
        As for `SubsampleAggregateClassifier`.
    law : ReleaseLaw or str, default="gnmax"
        Gaussian (``"gnmax"``) or Laplace noisy-max (``"lnmax"``), or one that answers only if the highest noisy count
        passes a threshold (``"confident-gnmax"``) or exceeds the student's expectation (``"interactive-gnmax"``). Or
        any other law of `dpensemble.laws.LAWS`: for example ``"optimal"`` adds no noise to counts and errs less often
        at the same cost. Or an object. The published settings are a scale of 0.08, a sigma of 0.16, a threshold of 0.8
        and its noise of 0.6, each times the number of teachers. `SubsampleAggregateClassifier` describes when other
        noise is used.
    analysis : {"worst-case", "data-dependent", "until-spent"}, default="worst-case"
        Data-dependent charges for the actual votes, exactly for every query and record. It gives many more labels if
        teachers agree, but the spend must not be published, and it requires `max_labels`.
        ``"until-spent"`` answers until the budget is used up. The number of answers then depends on secret votes and
        is not protected. Neither can be used with laws that compare with a student.
    accounting, epsilon, delta, relation, max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, design_, classes_
        As for `SubsampleAggregateClassifier`. ``labels_.n_asked`` counts unanswered queries too.

    References
    ----------
    N. Papernot, M. Abadi, U. Erlingsson, I. Goodfellow and K. Talwar, "Semi-supervised knowledge
    transfer for deep learning from private training data", ICLR 2017 (LNMax).
    N. Papernot et al., "Scalable private learning with PATE", ICLR 2018 (the others, Algorithms 1 and 2).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = PATEClassifier(classes=[0, 1], law="gnmax", epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> len(model.labels_)
    88
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        law: ReleaseLaw | str = "gnmax",
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


class UpsamplingPATEClassifier(UpsamplingPATE, _PersonalisedPATEClassifier):
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


class VanishingPATEClassifier(VanishingPATE, _PersonalisedPATEClassifier):
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


class WeightingPATEClassifier(WeightingPATE, _PersonalisedPATEClassifier):
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
    delta : float, optional
        Delta of every budget (usually 1e-5). As for `SubsampleAggregateClassifier`.
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
