"""One method, one short file: an allocation, a law and an accounting."""

from __future__ import annotations

from importlib import import_module

# As `typing` defines it. Importing `typing` takes long enough to be interrupted.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dpensemble.methods.auto import AutoClassifier
    from dpensemble.methods.bagged_pate import BaggedPATEClassifier
    from dpensemble.methods.bagging import BaggingPrivacyClassifier
    from dpensemble.methods.discriminant import DiscriminantClassifier
    from dpensemble.methods.dpbag import DPBaggingClassifier
    from dpensemble.methods.encoded import EncodedClassifier
    from dpensemble.methods.label_moments import LabelMomentsClassifier
    from dpensemble.methods.label_moments_regressor import LabelMomentsRegressor as LabelMomentsRegressor
    from dpensemble.methods.label_moments_survival import LabelMomentsSurvival as LabelMomentsSurvival
    from dpensemble.methods.pate import (
        PATEClassifier,
        UpsamplingPATEClassifier,
        VanishingPATEClassifier,
        WeightingPATEClassifier,
    )
    from dpensemble.methods.private_majority import PrivateMajorityClassifier
    from dpensemble.methods.random_subspace import RandomSubspaceClassifier
    from dpensemble.methods.saa import SubsampleAggregateClassifier
    from dpensemble.methods.soft_votes import SoftVotesClassifier

__all__ = [
    "AutoClassifier",
    "BaggedPATEClassifier",
    "BaggingPrivacyClassifier",
    "DPBaggingClassifier",
    "DiscriminantClassifier",
    "EncodedClassifier",
    "LabelMomentsClassifier",
    "PATEClassifier",
    "PrivateMajorityClassifier",
    "RandomSubspaceClassifier",
    "SoftVotesClassifier",
    "SubsampleAggregateClassifier",
    "UpsamplingPATEClassifier",
    "VanishingPATEClassifier",
    "WeightingPATEClassifier",
]

# Module of each class. Imported on first use, because scikit-learn takes a second and a plan needs none of it.
_MODULES = {
    "AutoClassifier": "auto",
    "BaggedPATEClassifier": "bagged_pate",
    "BaggingPrivacyClassifier": "bagging",
    "DiscriminantClassifier": "discriminant",
    "DPBaggingClassifier": "dpbag",
    "EncodedClassifier": "encoded",
    "LabelMomentsClassifier": "label_moments",
    # Two are not among the classifiers that `__all__` lists.
    "LabelMomentsRegressor": "label_moments_regressor",
    "LabelMomentsSurvival": "label_moments_survival",
    "PATEClassifier": "pate",
    "PrivateMajorityClassifier": "private_majority",
    "RandomSubspaceClassifier": "random_subspace",
    "SubsampleAggregateClassifier": "saa",
    "SoftVotesClassifier": "soft_votes",
    "UpsamplingPATEClassifier": "pate",
    "VanishingPATEClassifier": "pate",
    "WeightingPATEClassifier": "pate",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> type:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = vars(import_module(f"{__name__}.{_MODULES[name]}"))[name]
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations"})
