"""Differentially private ensembles.

Teachers are trained on parts of the private records and vote on public rows. Only a randomised answer with a known
privacy cost is released. A student trained on those answers is what you publish.
"""

from __future__ import annotations

from dpensemble import _early_interrupts

if _early_interrupts.is_the_command():
    _early_interrupts.heed_interrupts()

from importlib import import_module

from dpensemble import _moved

_moved.install()

# From here on, because a module that has lost names needs the finder when it is imported.
from dpensemble import methods  # noqa: E402

# As `typing` defines it. Importing `typing` takes long enough to be interrupted.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dpensemble._work import show_progress
    from dpensemble.aggregation import Aggregator
    from dpensemble.clusters import on_cluster
    from dpensemble.cost import PrivacyCost
    from dpensemble.datasets import (
        load_adult,
        load_digit_images,
        load_fashion_mnist,
        load_mnist,
        three_way_split,
    )
    from dpensemble.design import Plan, plan
    from dpensemble.engine.run import total_spent
    from dpensemble.guarantee import Budget, Guarantee
    from dpensemble.methods import (  # noqa: F401
        AutoClassifier,
        BaggedPATEClassifier,
        BaggingPrivacyClassifier,
        DiscriminantClassifier,
        DPBaggingClassifier,
        EncodedClassifier,
        LabelMomentsClassifier,
        PATEClassifier,
        PrivateMajorityClassifier,
        RandomSubspaceClassifier,
        SoftVotesClassifier,
        SubsampleAggregateClassifier,
        UpsamplingPATEClassifier,
        VanishingPATEClassifier,
        WeightingPATEClassifier,
    )
    from dpensemble.methods.label_moments_regressor import LabelMomentsRegressor
    from dpensemble.methods.label_moments_survival import LabelMomentsSurvival
    from dpensemble.methods.life_table import LifeTable
    from dpensemble.persistence import load_classifier, save_classifier
    from dpensemble.relations import Basis, Relation
    from dpensemble.server import Ledger
    from dpensemble.workflow.table_size import TableSizePlan, plan_label_moments

    __version__: str

__all__ = [
    "Aggregator",
    "Basis",
    "Budget",
    "Guarantee",
    "LabelMomentsRegressor",
    "LabelMomentsSurvival",
    "Ledger",
    "LifeTable",
    "Plan",
    "PrivacyCost",
    "Relation",
    "TableSizePlan",
    "load_adult",
    "load_classifier",
    "load_digit_images",
    "load_fashion_mnist",
    "load_mnist",
    "on_cluster",
    "plan",
    "plan_label_moments",
    "save_classifier",
    "show_progress",
    "three_way_split",
    "total_spent",
]
__all__ += methods.__all__

# Module of each name. Imported on first use, because scikit-learn takes a second.
_ROOMS = {
    "_work": ("show_progress",),
    "aggregation": ("Aggregator",),
    "clusters": ("on_cluster",),
    "cost": ("PrivacyCost",),
    "datasets": (
        "load_adult",
        "load_digit_images",
        "load_fashion_mnist",
        "load_mnist",
        "three_way_split",
    ),
    "design": ("Plan", "plan"),
    "guarantee": ("Budget", "Guarantee"),
    "server": ("Ledger",),
    "engine.run": ("total_spent",),
    "methods.label_moments_regressor": ("LabelMomentsRegressor",),
    "methods.label_moments_survival": ("LabelMomentsSurvival",),
    "methods.life_table": ("LifeTable",),
    "persistence": ("load_classifier", "save_classifier"),
    "relations": ("Basis", "Relation"),
    "workflow.table_size": ("TableSizePlan", "plan_label_moments"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            value = getattr(import_module(f"dpensemble.{_ROOM_OF.get(name, 'methods')}"), name)
        elif name == "load_cifar10":
            # The datasets' error states where the loader is now.
            value = import_module("dpensemble.datasets").load_cifar10
        elif name == "__version__":
            value = import_module("importlib.metadata").version("dpensemble")
        else:
            value = _room(name)
        globals()[name] = value
        return value


def _room(name: str) -> Any:
    """Return a part of the package by name, imported on first use."""
    unknown = AttributeError(f"module 'dpensemble' has no attribute {name!r}")
    if name.startswith("_"):
        raise unknown
    try:
        return import_module(f"dpensemble.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"dpensemble.{name}":
            raise
        raise unknown from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"} - {"TYPE_CHECKING", "annotations"})
