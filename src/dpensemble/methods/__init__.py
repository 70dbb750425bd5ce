"""One method, one short file: an allocation, a law and an accounting."""

from dpensemble.methods.auto import AutoClassifier
from dpensemble.methods.bagged_pate import BaggedPATEClassifier
from dpensemble.methods.bagging import BaggingPrivacyClassifier
from dpensemble.methods.dpbag import DPBaggingClassifier
from dpensemble.methods.encoded import EncodedClassifier
from dpensemble.methods.label_moments import LabelMomentsClassifier
from dpensemble.methods.pate import PATEClassifier
from dpensemble.methods.private_majority import PrivateMajorityClassifier
from dpensemble.methods.random_subspace import RandomSubspaceClassifier
from dpensemble.methods.saa import SubsampleAggregateClassifier
from dpensemble.methods.soft_votes import SoftVotesClassifier
from dpensemble.methods.upsampling import UpsamplingPATEClassifier
from dpensemble.methods.vanishing import VanishingPATEClassifier
from dpensemble.methods.weighting import WeightingPATEClassifier

__all__ = [
    "AutoClassifier",
    "BaggedPATEClassifier",
    "BaggingPrivacyClassifier",
    "DPBaggingClassifier",
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
