"""The public terms of a run of several sites, which every site reads before it signs them."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from dpensemble._checks import (
    declared_labels,
    delta_of,
    integer_between,
    member,
    printable,
    real_between,
    round_up,
    shown,
)
from dpensemble._files import JSON
from dpensemble._same_code import versions
from dpensemble.cost import GaussianCost
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.moments.learning import statistics_of
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.moments.maps.tables import MANY_COLUMNS
from dpensemble.moments.residuals import NumberRange
from dpensemble.relations import Relation
from dpensemble.releases.parts import MOST_SITES, SiteNoise, SiteSumsMeter, epsilon_at
from dpensemble.workflow.life_tables import DeclaredLifeTable
from dpensemble.workflow.targets import BOTH

#: Name of the party that adds masked sums.
COORDINATOR = "coordinator"
#: Units of all sites together, at most: their sum is then below 2**62 whole units in every entry.
MOST_UNITS = 2**28
# Bytes of all declared columns, so that the terms fit into one message.
_MOST_DECLARED = 2**19
# Codes, strata or bins that terms list, at most.
_MOST_LISTED = 1000
# A name is also a part of a file's name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, kw_only=True)
class RunTerms:
    """What the sites of a run agree on. Public.

    Parameters
    ----------
    sites : tuple of str
        Names of the sites, at least ``colluding + 2``. No site joins later.
    most_units : tuple of int
        Most units of each site. Their sum is at most ``2**28``. A site with more units than that does not refuse, since
        a refusal would show its number.
    target : str
        Column of every private table that holds the label, the number, or the code of an event.
    classes : tuple
        All possible labels.
    range : tuple of float, optional
        The smallest and the largest number that can occur, if a number is predicted in place of a label.
    times : dict, optional
        Declarations of times until an event: of a life table, or with public rows of the risk given a row. ``time`` is
        the column of times. ``events``, ``censored`` and ``competing`` are codes. ``bins``, ``at`` and ``time_unit``
        are as the options of ``dpensemble lifetable``, and ``strata`` of a life table has the values of each column.
        ``time``, ``events`` and ``bins`` are needed.
    epsilon, delta : float
        Budget of a run in which no attempt is lost.
    colluding : int, default=1
        Number of sites that may show everything to each other and to the coordinator.
    at_sites : int, default=1
        Number of sites at which one person may have records. The certificate states the privacy of such a person.
    attempts : int, default=2
        Most attempts. A lost attempt costs each site up to one sum more.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under the first the number of units of all sites together is public.
    unit : str, optional
        Column that names the person, if a person can have several records.
    drop : tuple of str
        Columns to leave out.
    statistics : tuple of str
        More released statistics. See `LabelMomentsClassifier`.
    holdout_score : float, optional
        Share of the units of each site, up to one half, that teach nothing. One noisy histogram of the model's
        probabilities for them is one more sum. Only for labels under replace-one.
    rounds : int, optional
        Number of noisy sums of labels. See `LabelMomentsClassifier`.
    public_digest : str or None
        SHA-256 of the file of public rows. None if columns are declared instead, and for a life table.
    declared_columns : dict of str to list, optional
        The range or the categories of each column, in place of public rows. See `LabelMomentsClassifier`. The terms
        contain them, so all sites sign the same ones.
    versions : dict of str to str
        Versions of this library and of those that fit the model, which are the same at every site.
    run : str
        Random name of the run.
    """

    sites: tuple[str, ...]
    most_units: tuple[int, ...]
    target: str
    epsilon: float
    delta: float
    public_digest: str | None
    versions: dict[str, str]
    run: str
    classes: tuple[JSON, ...] = ()
    range: tuple[float, ...] | None = None
    times: dict[str, JSON] | None = None
    colluding: int = 1
    at_sites: int = 1
    attempts: int = 2
    relation: str = Relation.REPLACE_ONE.value
    unit: str | None = None
    drop: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    rounds: int | None = None
    holdout_score: float | None = None
    declared_columns: dict[str, JSON] | None = None

    def __post_init__(self) -> None:
        self._check_sites()
        real_between("epsilon", self.epsilon, 1e-3, 100.0)
        delta_of(self.delta)
        member("relation", self.relation, Relation)
        self._check_target()
        if self.holdout_score is not None:
            real_between("holdout_score", self.holdout_score, 0.01, 0.5)
            if self.relation != Relation.REPLACE_ONE.value:
                raise InvalidParameterError(
                    "holdout_score requires relation='replace-one', in which places are public: set it.",
                    parameter="holdout_score",
                )
        statistics_of(list(self.statistics))
        integer_between("attempts", self.attempts, 1, 20)
        integer_between("at_sites", self.at_sites, 1, len(self.sites))
        if self.rounds is not None:
            integer_between("rounds", self.rounds, 1, 100)
        for name in (self.target, *self.drop, *(() if self.unit is None else (self.unit,))):
            if not (isinstance(name, str) and 0 < len(name) <= 1000):
                raise InvalidParameterError(f"a column of the terms must be named by a text; got {name!r}.")
        digests = (
            {"run": self.run} if self.public_digest is None else {"public_digest": self.public_digest, "run": self.run}
        )
        for name, value in digests.items():
            if not (isinstance(value, str) and _DIGEST.fullmatch(value)):
                raise InvalidParameterError(f"{name} of the terms must have 64 hexadecimal digits.", parameter=name)
        plain = all(isinstance(text, str) for pair in self.versions.items() for text in pair)
        if not plain or len(self.versions) > 20:
            raise InvalidParameterError("versions of the terms must be a few texts.", parameter="versions")
        if self.times is None and (self.declared_columns is None) is (self.public_digest is None):
            raise InvalidParameterError(
                "a run needs public rows or declared_columns, and not both: give one of them.",
                parameter="declared_columns",
            )
        if self.declared_columns is not None:
            self._check_columns(self.declared_columns)

    def _check_target(self) -> None:
        if self.range is None and self.times is None:
            declared_labels(list(self.classes))
            return
        if self.classes or (self.range is not None and self.times is not None):
            raise InvalidParameterError(BOTH if self.times is None else _ONE_TARGET, parameter="range")
        given: dict[str, JSON] = {
            "rounds": self.rounds,
            "statistics": self.statistics,
            "declared_columns": self.declared_columns,
            "holdout_score": self.holdout_score,
        }
        if self.times is None:
            self._check_range()
        else:
            declared = _life_table_of(self)
            declared.model()
            given |= {"drop": self.drop} if self.public_digest is None else {"strata": declared.strata}
        for name, value in given.items():
            if value:
                of_times = "a life table" if self.public_digest is None else "risks given a row"
                what = of_times if self.range is None else "a number in a range"
                more = ", and give public rows." if name == "declared_columns" and self.times is None else "."
                raise InvalidParameterError(f"{name} is not for {what}: leave it out{more}", parameter=name)

    def _check_range(self) -> None:
        if not isinstance(self.range, tuple) or len(self.range) != 2:
            raise InvalidParameterError(
                f"range={shown(self.range)} must be two numbers, the smallest and the largest that can occur.",
                parameter="range",
            )
        NumberRange.of(*self.range)

    @property
    def declared_times(self) -> DeclaredLifeTable | None:
        """What is declared about times until an event, if they are: of a life table, or of risks given a row."""
        return None if self.times is None else _life_table_of(self)

    @property
    def number(self) -> NumberRange | None:
        """The declared range, if a number is predicted."""
        return None if self.range is None else NumberRange.of(*self.range)

    def _check_columns(self, columns: dict[str, JSON]) -> None:
        integer_between("number of declared_columns", len(columns), 1, MANY_COLUMNS)
        declared_grid(columns)
        plain = all(isinstance(one, str | int | float) for declared in columns.values() for one in declared)
        if not plain or not all(isinstance(name, str) and 0 < len(name) <= 1000 for name in columns):
            raise InvalidParameterError(
                "declared_columns of a run must name columns by texts, and list numbers and texts only.",
                parameter="declared_columns",
            )
        for name in (self.target, *self.drop, *(() if self.unit is None else (self.unit,))):
            if name in columns:
                raise InvalidParameterError(
                    f"declared_columns={shown(name)} is not a feature: declare features only.",
                    parameter="declared_columns",
                )
        size = len(json.dumps(columns))
        if size > _MOST_DECLARED:
            raise InvalidParameterError(
                f"declared_columns take {size:,} bytes, and at most {_MOST_DECLARED:,} are possible: declare fewer "
                "categories.",
                parameter="declared_columns",
            )

    def _check_sites(self) -> None:
        for name in self.sites:
            if not (isinstance(name, str) and _NAME.fullmatch(name)) or name.lower() == COORDINATOR:
                raise InvalidParameterError(
                    f"sites has the name {printable(str(name))!r}: use letters, digits and hyphens, at most 40, and "
                    f"not {COORDINATOR!r}.",
                    parameter="sites",
                )
        if len({name.lower() for name in self.sites}) < len(self.sites):
            raise InvalidParameterError("sites names a site twice, or two names differ only in capitals.")
        # Checks their number and the number of colluding ones.
        self.noise()
        if len(self.most_units) != len(self.sites):
            raise InvalidParameterError("most_units must have one number for each site.", parameter="most_units")
        for most in self.most_units:
            integer_between("most_units", most, 1, MOST_UNITS)
        if sum(self.most_units) > MOST_UNITS:
            raise InvalidParameterError(
                f"most_units add up to {sum(self.most_units):,}, but the sites may have {MOST_UNITS:,} units together: "
                "declare smaller numbers.",
                parameter="most_units",
            )

    @classmethod
    def of(
        cls,
        *,
        sites: Sequence[str],
        target: str,
        classes: Sequence[JSON] = (),
        range: Sequence[float] | None = None,
        times: Mapping[str, JSON] | None = None,
        public: bytes | None = None,
        declared_columns: Mapping[str, Sequence[JSON]] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        most_units: Sequence[int] | None = None,
        **others: JSON,
    ) -> RunTerms:
        """Return new terms with the versions of this process. By default all sites may have the same many units."""
        names = tuple(sites)
        most = [MOST_UNITS // max(len(names), 1)] * len(names) if most_units is None else most_units
        more: dict[str, JSON] = {name: tuple(one) if isinstance(one, list) else one for name, one in others.items()}
        if declared_columns is not None:
            more["declared_columns"] = _as_lists(declared_columns)
        return cls(
            sites=names,
            most_units=tuple(most),
            classes=tuple(declared_labels(list(classes))) if range is None and times is None else tuple(classes),
            range=None if range is None else tuple(range),
            times=None if times is None else _plain_times(times),
            target=target,
            epsilon=epsilon,
            delta=delta,
            public_digest=None if public is None else digest_of(public),
            versions=versions(),
            run=secrets.token_hex(32),
            **more,
        )

    @classmethod
    def from_dict(cls, given: JSON) -> RunTerms:
        """Return the terms of plain values, or raise an error that states what is wrong with them."""
        names = {field.name for field in fields(cls)}
        if not isinstance(given, Mapping) or set(given) != names:
            raise InvalidParameterError(
                "the terms of the run have other entries than this version of dpensemble knows."
            )
        plain: dict[str, JSON] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
        plain["declared_columns"] = _columns_of_pairs(given["declared_columns"])
        for name in ("sites", "most_units", "classes", "drop", "statistics"):
            if not isinstance(plain[name], tuple) or len(plain[name]) > MOST_SITES:
                raise InvalidParameterError(f"{name} of the terms must be a short list.", parameter=name)
        if not isinstance(plain["versions"], dict):
            raise InvalidParameterError("versions of the terms must be a few texts.", parameter="versions")
        return cls(**plain)

    def to_dict(self) -> dict[str, JSON]:
        """Return the terms as plain values. Declared columns are pairs, since messages lose the order of names."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        if self.declared_columns is not None:
            plain["declared_columns"] = [[name, list(one)] for name, one in self.declared_columns.items()]
        return plain

    def noise(self, least: Sequence[float] = ()) -> SiteNoise:
        """Return how the sites share the noise. `least` is what each site insists on."""
        return SiteNoise(len(self.sites), self.colluding, tuple(least))

    @property
    def budget(self) -> Budget:
        """Budget of a run in which no attempt is lost."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def words(self) -> list[str]:
        """Return the terms in sentences, for the people who must agree to them."""
        meter = SiteSumsMeter(self.budget, self.attempts)
        worst = meter.groups[0].budget.epsilon
        named = ", ".join(self.sites)
        lost = f", and at most {round_up(worst, 3):g} if all {self.attempts} attempts are needed"
        lines = [
            f"Sites: {named}. Up to {self.colluding} of them may collude with the coordinator.",
            f"Epsilon {self.epsilon:g} at delta {self.delta:g} for a person with records at one site"
            f"{lost if self.attempts > 1 else ''}.",
        ]
        if self.at_sites > 1:
            most = epsilon_at(GaussianCost(meter.mu**2), self.delta, sites=self.at_sites)
            lines.append(f"Epsilon at most {round_up(most, 3):g} for a person with records at {self.at_sites} sites.")
        if self.range is None and self.times is None:
            lines.append(f"{self.target!r} is a label, which is one of {_listed(self.classes)}.")
        if self.range is not None:
            low, high = self.range
            ends = f"from {low:.15g} to {high:.15g}"
            lines.append(f"{self.target!r} is a number {ends}, and numbers outside count as the end.")
        if (declared := self.declared_times) is not None:
            strata = "".join(f", by {name} ({', '.join(values)})" for name, values in declared.strata.items())
            ends = ", ".join(f"{end:.15g}" for end in declared.bins)
            what = "A life table" if self.public_digest is None else "Risks given a row,"
            lines.append(f"{what} of {declared.time!r} until {declared.facts()['what']}{strata}, at {ends}.")
            lines.append(
                f"Codes of {declared.event!r}: {_listed(declared.events)} for the event, {_listed(declared.censored)} "
                f"for a censoring, {_listed(declared.competing)} for competing events."
            )
        if self.declared_columns is not None:
            lines.append(f"No rows are public. {len(self.declared_columns)} columns are declared.")
        if self.holdout_score is not None:
            lines.append(
                f"About {self.holdout_score:.0%} of the units of each site are held back, to measure the model by one "
                "more sum."
            )
        if self.relation == Relation.REPLACE_ONE.value:
            lines.append("The number of units of all sites together becomes public. That of one site does not.")
        # The coordinator wrote the names and values.
        return [printable(line) for line in lines]


def _listed(values: Sequence[JSON]) -> str:
    """Return values as people compare them by telephone. A text has quotation marks."""
    return ", ".join(map(repr, values)) or "none"


# Entries of `times`, and what stands for those that are left out.
_TIMES: dict[str, JSON] = {
    "time": None,
    "events": None,
    "bins": None,
    "censored": ["0"],
    "competing": [],
    "strata": [],
    "at": None,
    "time_unit": None,
}
_CODES = ("events", "censored", "competing")
_ONE_TARGET = "classes and range are not for times until an event, so only one of them can be given."


def _plain_times(given: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return declarations of a life table as messages have them: strata are pairs, and codes are texts."""
    unknown = [name for name in given if name not in _TIMES]
    if unknown:
        raise InvalidParameterError(
            f"times has the entry {unknown[0]!r}, but takes {', '.join(_TIMES)}: correct it.", parameter="times"
        )
    plain = {**_TIMES, **given}
    for name in ("events", "censored", "competing"):
        codes = plain[name]
        plain[name] = (
            [str(one) for one in codes] if isinstance(codes, Sequence) and not isinstance(codes, str) else codes
        )
    for name in ("bins", "at"):
        plain[name] = list(plain[name]) if isinstance(plain[name], Sequence) else plain[name]
    strata = plain["strata"]
    if isinstance(strata, Mapping):
        plain["strata"] = [
            [name, values if isinstance(values, str) else [str(one) for one in values]]
            for name, values in strata.items()
        ]
    return plain


def _life_table_of(terms: RunTerms) -> DeclaredLifeTable:
    """Return what terms declare about a life table. Raise for entries of other types."""
    given = terms.times
    texts = isinstance(given, dict) and set(given) == set(_TIMES) and all(_texts(given[one]) for one in _CODES)
    if not texts or given is None or not (isinstance(given["time"], str) and 0 < len(given["time"]) <= 1000):
        raise InvalidParameterError(
            "times must name the column of times as time, and list codes of events as texts.", parameter="times"
        )
    numbers = [given["bins"], [] if given["at"] is None else given["at"]]
    unit, strata = given["time_unit"], given["strata"]
    plain = isinstance(strata, list) and all(isinstance(one, list) and len(one) == 2 for one in strata)
    if not plain or not all(isinstance(name, str) and _texts(values) for name, values in strata):
        raise InvalidParameterError("strata of times must list texts for each column.", parameter="strata")
    if not all(map(_numbers, numbers)) or not (unit is None or isinstance(unit, str)):
        raise InvalidParameterError(
            "bins and at of times must be lists of numbers, and time_unit a text.", parameter="bins"
        )
    budget = {"epsilon": terms.epsilon, "delta": terms.delta, "relation": terms.relation}
    more = {name: given[name] for name in ("time", "events", "censored", "competing", "bins", "at", "time_unit")}
    declared = DeclaredLifeTable(event=terms.target, strata=dict(strata), budget=budget, **more)
    columns = [
        declared.time,
        declared.event,
        *(name for name, _ in strata),
        *(() if terms.unit is None else (terms.unit,)),
    ]
    if len(set(columns)) < len(columns):
        raise InvalidParameterError("times, event, strata and unit must be different columns.", parameter="times")
    return declared


def _texts(given: JSON) -> bool:
    return isinstance(given, list) and len(given) <= _MOST_LISTED and all(isinstance(one, str) for one in given)


def _numbers(given: JSON) -> bool:
    plain = isinstance(given, list) and len(given) <= _MOST_LISTED
    return plain and all(isinstance(one, int | float) and not isinstance(one, bool) for one in given)


def _as_lists(columns: Mapping[str, Sequence[JSON]]) -> dict[str, JSON]:
    """Return declared columns whose declarations are lists, as messages have them."""
    if not isinstance(columns, Mapping) or any(isinstance(one, str) for one in columns.values()):
        # Raises, with the name of what is wrong.
        declared_grid(columns)
    return {name: list(one) if isinstance(one, Sequence) else one for name, one in columns.items()}


def _columns_of_pairs(pairs: JSON) -> dict[str, JSON] | None:
    """Return declared columns of the pairs in a message, each column once."""
    if pairs is None:
        return None
    plain = isinstance(pairs, list) and all(isinstance(one, list) and len(one) == 2 for one in pairs)
    if not plain or not all(isinstance(name, str) and isinstance(declared, list) for name, declared in pairs):
        raise InvalidParameterError("declared_columns of the terms must be pairs of a name and a list.")
    columns: dict[str, JSON] = dict(pairs)
    if len(columns) < len(pairs):
        raise InvalidParameterError("declared_columns of the terms name a column twice.")
    return columns
