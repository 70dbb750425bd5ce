"""Old paths of modules, names and saved classes, and the place of each today.

An old path works, and a `DeprecationWarning` names the new path at the line that uses the old path. The three tables
are all that a move has to fill in: no other module has code for its old names.

A module of an old path is an object of its own that passes each name on. So a class has one identity through both
paths, and no file is executed twice. Type checkers read files. For them, a room that is gone leaves ``ROOM.pyi``, which
imports all names from the new place.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder

# As `typing` defines it. `import dpensemble` reads this module, so it imports nothing that takes time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, ModuleType
else:
    ModuleType = type(sys)

#: Module that is gone -> module that has most of its names now.
MODULES: dict[str, str] = {
    "dpensemble.accounting.bagging": "dpensemble.accounting.subsampling",
    "dpensemble.accounting.change": "dpensemble.accounting.worst_case",
    "dpensemble.accounting.data_dependent": "dpensemble.accounting.meters.data_dependent",
    "dpensemble.accounting.fresh": "dpensemble.accounting.subsampling",
    "dpensemble.accounting.gaussian_sum": "dpensemble.laws.base",
    "dpensemble.accounting.group": "dpensemble.accounting.base",
    "dpensemble.accounting.published.pate": "dpensemble.accounting.published",
    "dpensemble.accounting.smooth.grid": "dpensemble.accounting.smooth",
    "dpensemble.accounting.smooth.listed": "dpensemble.accounting.smooth",
    "dpensemble.accounting.smooth.release": "dpensemble.accounting.smooth",
    "dpensemble.accounting.smooth.sensitivity": "dpensemble.accounting.smooth",
    "dpensemble.accounting.sparse": "dpensemble.accounting.price",
    "dpensemble.accounting.subsampled": "dpensemble.accounting.subsampling",
    "dpensemble.accounting.worst_case.gates": "dpensemble.accounting.price",
    "dpensemble.accounting.sums": "dpensemble.releases.sums",
    "dpensemble.accounting.worst_case.lattice": "dpensemble.accounting.worst_case",
    "dpensemble.accounting.worst_case.listed": "dpensemble.accounting.worst_case",
    "dpensemble.accounting.worst_case.several_votes": "dpensemble.accounting.worst_case",
    "dpensemble.accounting.worst_case.two_gaps": "dpensemble.accounting.two_gaps",
    "dpensemble.accounting.worst_case.two_gaps.covering": "dpensemble.accounting.two_gaps",
    "dpensemble.accounting.worst_case.two_gaps.dominating": "dpensemble.accounting.two_gaps",
    "dpensemble.accounting.worst_case.two_gaps.rows": "dpensemble.accounting.two_gaps",
    "dpensemble.aggregation.answers": "dpensemble.aggregation.aggregator",
    "dpensemble.aggregation.drawn": "dpensemble.aggregation.aggregator",
    "dpensemble.allocation.base": "dpensemble.allocation.partition",
    "dpensemble.allocation.everyone": "dpensemble.allocation.partition",
    "dpensemble.audit.bounds": "dpensemble.audit.sampled",
    "dpensemble.audit.every_pair": "dpensemble.audit.exact",
    "dpensemble.budget": "dpensemble.guarantee",
    "dpensemble.budget_groups": "dpensemble.allocation.budget_groups",
    "dpensemble.certificates.verifier": "dpensemble.certificates.certificate",
    "dpensemble.cli.plan_plot": "dpensemble.cli.output",
    "dpensemble.client": "dpensemble.server.client",
    "dpensemble.clusters.base": "dpensemble.clusters.cluster",
    "dpensemble.cost.base": "dpensemble.cost.privacy_cost",
    "dpensemble.cost.conversion": "dpensemble.cost.privacy_cost",
    "dpensemble.cost.gated_cost": "dpensemble.cost.privacy_cost",
    "dpensemble.cost.loss_curve": "dpensemble.cost.composition",
    "dpensemble.cost.merging": "dpensemble.cost.pairs",
    "dpensemble.cost.optimal": "dpensemble.cost.privacy_cost",
    "dpensemble.cost.trade_off": "dpensemble.cost.gaussian",
    "dpensemble.darrm.answers": "dpensemble.design.private_answers",
    "dpensemble.darrm.optimise": "dpensemble.darrm.gamma",
    "dpensemble.darrm.priors": "dpensemble.darrm.gamma",
    "dpensemble.darrm.solution": "dpensemble.darrm.gamma",
    "dpensemble.datasets.adult": "dpensemble.datasets.published",
    "dpensemble.datasets.csv_files": "dpensemble.datasets.csv",
    "dpensemble.datasets.encoding": "dpensemble.datasets.preparation",
    "dpensemble.datasets.images": "dpensemble.datasets.published",
    "dpensemble.datasets.parquet": "dpensemble.datasets.arrow",
    "dpensemble.datasets.parts": "dpensemble.datasets.partitions",
    "dpensemble.datasets.row_checksums": "dpensemble.rows.checksums",
    "dpensemble.datasets.spark_parts": "dpensemble.datasets.partitions",
    "dpensemble.datasets.splits": "dpensemble.datasets.published",
    "dpensemble.design.aggregators": "dpensemble.design.private_answers",
    "dpensemble.design.averages": "dpensemble.methods.soft_votes",
    "dpensemble.design.bagged_models": "dpensemble.methods.bagging",
    "dpensemble.design.base": "dpensemble.design.voting",
    "dpensemble.design.budget_request": "dpensemble.allocation.budget_groups",
    "dpensemble.design.drawn": "dpensemble.design.voting",
    "dpensemble.design.influence": "dpensemble.design.by_group",
    "dpensemble.design.least_error": "dpensemble.design.plan",
    "dpensemble.design.noisy_sums": "dpensemble.design.sums",
    "dpensemble.design.partitioned": "dpensemble.design.voting",
    "dpensemble.design.private": "dpensemble.design.private_majority",
    "dpensemble.design.quality": "dpensemble.design.plan",
    "dpensemble.design.smallest": "dpensemble.design.plan",
    "dpensemble.engine.facts": "dpensemble.engine.planned",
    "dpensemble.engine.recommendation": "dpensemble.engine.result",
    "dpensemble.engine.repeats": "dpensemble.engine.run",
    "dpensemble.laws.by_law": "dpensemble.laws.base",
    "dpensemble.laws.exponential": "dpensemble.laws.noisy_max",
    "dpensemble.laws.gates": "dpensemble.laws.noisy_max",
    "dpensemble.laws.gaussian": "dpensemble.laws.noisy_max",
    "dpensemble.ledger": "dpensemble.server",
    "dpensemble.ledger.account_state": "dpensemble.server.account",
    "dpensemble.ledger.accounts": "dpensemble.server.account",
    "dpensemble.ledger.files": "dpensemble.server.witness",
    "dpensemble.ledger.filters": "dpensemble.server.filters",
    "dpensemble.ledger.ledger": "dpensemble.server.ledger",
    "dpensemble.ledger.restoring": "dpensemble.server.ledger",
    "dpensemble.ledger.verify": "dpensemble.server.entry_log",
    "dpensemble.methods.upsampling": "dpensemble.methods.pate",
    "dpensemble.methods.vanishing": "dpensemble.methods.pate",
    "dpensemble.methods.weighting": "dpensemble.methods.pate",
    "dpensemble.moments.base_rate": "dpensemble.moments.fits",
    "dpensemble.moments.class_sums": "dpensemble.moments.discriminant",
    "dpensemble.moments.drift": "dpensemble.moments.public_rows",
    "dpensemble.moments.evidence": "dpensemble.moments.fits",
    "dpensemble.moments.explanation": "dpensemble.moments.model",
    "dpensemble.moments.grid": "dpensemble.moments.maps.grid",
    "dpensemble.moments.linear": "dpensemble.moments.softmax",
    "dpensemble.moments.maps.exact_products": "dpensemble.moments.maps.directions",
    "dpensemble.moments.maps.general": "dpensemble.moments.maps.base",
    "dpensemble.moments.maps.landmarks": "dpensemble.moments.maps.curved",
    "dpensemble.moments.maps.snapped": "dpensemble.moments.maps.grid",
    "dpensemble.moments.queries": "dpensemble.moments.learning",
    "dpensemble.moments.rounds": "dpensemble.moments.learning",
    "dpensemble.neural.augmentation": "dpensemble.neural.training",
    "dpensemble.neural.optimizers": "dpensemble.neural.training",
    "dpensemble.neural.together": "dpensemble.neural.blocks",
    "dpensemble.persistence.files": "dpensemble.persistence",
    "dpensemble.releases.base": "dpensemble.releases.answers",
    "dpensemble.releases.choice": "dpensemble.releases.answers",
    "dpensemble.releases.labels": "dpensemble.releases.answers",
    "dpensemble.releases.mean": "dpensemble.releases.answers",
    "dpensemble.releases.noise": "dpensemble.releases.sums",
    "dpensemble.releases.queries": "dpensemble.releases.sums",
    "dpensemble.releases.sparse": "dpensemble.releases.answers",
    "dpensemble.report.drawing": "dpensemble.report.charts",
    "dpensemble.service": "dpensemble.server",
    "dpensemble.service.app": "dpensemble.server.app",
    "dpensemble.service.serve": "dpensemble.server.app",
    "dpensemble.service.settings": "dpensemble.server.settings",
    "dpensemble.student.fitting": "dpensemble.student",
    "dpensemble.student.published": "dpensemble.student",
    "dpensemble.teachers.accountants": "dpensemble.teachers.private",
    "dpensemble.teachers.batched_lbfgs": "dpensemble.teachers.logistic",
    "dpensemble.teachers.gradient_perturbed": "dpensemble.teachers.private_logistic",
    "dpensemble.teachers.noisy_descent": "dpensemble.teachers.private_logistic",
    "dpensemble.teachers.soft": "dpensemble.teachers.ensemble",
    "dpensemble.voting_schedule": "dpensemble.accounting.schedule",
    "dpensemble.workflow.comparison_results": "dpensemble.workflow.comparison",
    "dpensemble.workflow.files": "dpensemble.workflow.tables",
    "dpensemble.workflow.predicted_columns": "dpensemble.workflow.predict",
}

#: "module:name" -> "module:name", for a name that left its neighbours, has a new name, or whose old module stays.
NAMES: dict[str, str] = {
    "dpensemble.accounting.worst_case.two_gaps.covering:GapLaw": "dpensemble.accounting.two_gaps:_GapLaw",
    "dpensemble.accounting:SumsMeter": "dpensemble.releases.sums:SumsMeter",
    "dpensemble.accounting:gaussian_delta": "dpensemble.cost.gaussian:gaussian_delta",
    "dpensemble.accounting:gaussian_epsilon": "dpensemble.cost.gaussian:gaussian_epsilon",
    "dpensemble.accounting:gaussian_mu": "dpensemble.cost.gaussian:gaussian_mu",
    "dpensemble.budget_groups:whole_number_ratios": "dpensemble.design.by_group:_whole_number_ratios",
    "dpensemble.accounting:weighted_groups": "dpensemble.releases.sums:weighted_groups",
    "dpensemble.darrm:MajorityAggregator": "dpensemble.design.private_answers:MajorityAggregator",
    "dpensemble.design.averages:answers_of": "dpensemble.methods.soft_votes:_answers_of",
    "dpensemble.design.noisy_sums:noisy_sums": "dpensemble.methods.label_moments:_noisy_sums",
    "dpensemble.design.quality:quality_table": "dpensemble.cli.plan:_quality_table",
    "dpensemble.design:AggregatorComparison": "dpensemble.design.private_answers:AggregatorComparison",
    "dpensemble.design:Answers": "dpensemble.methods.soft_votes:Answers",
    "dpensemble.design:BaggedModels": "dpensemble.methods.bagging:BaggedModels",
    "dpensemble.design:BudgetRequest": "dpensemble.allocation.budget_groups:BudgetRequest",
    "dpensemble.design:ComparedAggregator": "dpensemble.design.private_answers:ComparedAggregator",
    "dpensemble.design:FittedAnswer": "dpensemble.design.private_answers:FittedAnswer",
    "dpensemble.design:GivenVotes": "dpensemble.design.given_votes:GivenVotes",
    "dpensemble.design:LeastError": "dpensemble.design.plan:LeastError",
    "dpensemble.design:MajorityRule": "dpensemble.design.private_majority:MajorityRule",
    "dpensemble.design:NoisySums": "dpensemble.design.sums:NoisySums",
    "dpensemble.design:PrivateTeachersDesign": "dpensemble.design.private_majority:PrivateTeachersDesign",
    "dpensemble.design:Sampling": "dpensemble.design.given_votes:Sampling",
    "dpensemble.design:SmallestEnsemble": "dpensemble.design.plan:SmallestEnsemble",
    "dpensemble.design:TeacherAverages": "dpensemble.methods.soft_votes:TeacherAverages",
    "dpensemble.design:answers_of": "dpensemble.methods.soft_votes:_answers_of",
    "dpensemble.design:fitted_answer": "dpensemble.design.private_answers:fitted_answer",
    "dpensemble.design:noisy_sums": "dpensemble.methods.label_moments:_noisy_sums",
    "dpensemble.design:parse_budgets": "dpensemble.allocation.budget_groups:parse_budgets",
    "dpensemble.design:quality_table": "dpensemble.cli.plan:_quality_table",
    "dpensemble.teachers.noisy_descent:noisy_descent": "dpensemble.teachers.private_logistic:_binary_descent",
    "dpensemble.moments.queries:Moments": "dpensemble.moments.fits:Moments",
}

#: The same for the classes of ours that files of earlier versions may name. Loading a file follows no other old path.
SAVED_CLASSES: dict[str, str] = {
    "dpensemble.moments.maps.landmarks:KernelDirections": "dpensemble.moments.maps.curved:KernelDirections",
    "dpensemble.moments.maps.landmarks:WhitenedNumbers": "dpensemble.moments.maps.curved:WhitenedNumbers",
    "dpensemble.moments.maps.snapped:SnappedMap": "dpensemble.moments.maps.grid:SnappedMap",
    "dpensemble.student.published:NamedPipeline": "dpensemble.student:NamedPipeline",
}

# Code between an import and the line that asks for it.
_BETWEEN = {"dpensemble", __name__, "importlib", "importlib._bootstrap", "_frozen_importlib"}


class Finder:
    """Finds modules that are gone, and prepares modules that have lost names or submodules."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        """Return how to load a module that the tables name, and None for all others."""
        if not name.startswith("dpensemble."):
            return None
        if name in MODULES:
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        spec = PathFinder.find_spec(name, path) if name in _HOSTS else None
        if spec is not None and spec.loader is not None:
            # Still a loader of its kind, which tools ask for the source code.
            spec.loader.create_module = _host  # type: ignore[method-assign]
        return spec

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """Return a module for an old path."""
        return Gone(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Import what has taken the module's place, and warn."""
        place = MODULES[module.__name__]
        module.__doc__ = import_module(place).__doc__
        vars(module)["_loaded_at"] = _user()
        _warn(module.__name__, place)


class Host(ModuleType):
    """A module that also answers to names and submodules that have moved away."""

    def __getattr__(self, name: str) -> object:
        old = self.__name__
        if entry := NAMES.get(f"{old}:{name}") or SAVED_CLASSES.get(f"{old}:{name}"):
            module, _, new = entry.partition(":")
            value = _value(module, new)
            if MODULES.get(old) == module and new == name:
                # As of its neighbours, so that one import shows one warning.
                _warn(old, module)
            else:
                _warn(f"{old}.{name}", f"{module}.{new}")
            return value
        if f"{old}.{name}" in MODULES and not self._keeps(name):
            return import_module(f"{old}.{name}")
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        # The import of a submodule sets its name. A function of the same name stays what it is.
        path = f"{self.__name__}.{name}"
        if not (path in MODULES and value is sys.modules.get(path) and self._keeps(name)):
            super().__setattr__(name, value)

    def _keeps(self, name: str) -> bool:
        """Return whether a name is that of something else than a submodule."""
        return not isinstance(vars(self).get(name, self), ModuleType)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)


class Gone(Host):
    """What an import of an old path returns. Its names are those of the module that has taken its place."""

    def __getattr__(self, name: str) -> object:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name == "__all__":
                return [one for one in dir(self) if not one.startswith("_")]
            place = MODULES[self.__name__]
            try:
                value = _value(place, name)
            except AttributeError:
                raise error from None
        # An import of names has warned of the module already. Python may have forgotten that, because libraries that
        # are imported meanwhile change its filters.
        if not name.startswith("__") and vars(self).get("_loaded_at") != _user():
            _warn(self.__name__, place)
        return value

    def __dir__(self) -> list[str]:
        place = import_module(MODULES[self.__name__])
        moved = {key.partition(":")[2] for key in (*NAMES, *SAVED_CLASSES) if key.startswith(f"{self.__name__}:")}
        return sorted({*vars(place).get("__all__", dir(place)), *moved})

    def _keeps(self, name: str) -> bool:
        return not isinstance(vars(import_module(MODULES[self.__name__])).get(name, self), ModuleType)


def _value(module: str, name: str) -> object:
    value: object = getattr(import_module(module), name)
    return value


def _host(spec: ModuleSpec) -> ModuleType:
    module = Host(spec.name)
    if spec.submodule_search_locations is None:
        # It may have been a package, and imports ask only packages for submodules.
        module.__path__ = []
    return module


def _hosts() -> frozenset[str]:
    """Return the modules that names or submodules have left."""
    names = {key.partition(":")[0] for key in (*NAMES, *SAVED_CLASSES)}
    return frozenset(names | {module.rpartition(".")[0] for module in MODULES})


_HOSTS = _hosts()


def install() -> None:
    """Let imports find old paths. The finder is the first, because it prepares modules that others would find."""
    sys.meta_path.insert(0, Finder())


def _user() -> tuple[object, int]:
    """Return the line that uses an old path."""
    frame = _frame()
    return frame.f_code, frame.f_lineno


def _frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame


def _warn(old: str, new: str) -> None:
    """Warn at the line that uses an old path. Python shows each line once."""
    frame = _frame()
    warnings.warn_explicit(
        f"{old} has moved, and a later version removes this old path: use {new}.",
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        # Code that is evaluated may have no name, and Python shows no warning of a nameless module.
        frame.f_globals.get("__name__") or "<string>",
        frame.f_globals.setdefault("__warningregistry__", {}),
    )
