"""Differentially private ensembles.

Teachers are trained on parts of the private records and vote on public rows;
only a randomised answer of known privacy cost is released; a student trained
on those answers is what you publish.
"""

from importlib.metadata import version

from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.datasets import load_adult, load_digit_images, load_fashion_mnist, load_mnist, three_way_split
from dpensemble.guarantee import Guarantee
from dpensemble.methods import (
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    DPBaggingClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
)
from dpensemble.persistence import load_classifier, save_classifier
from dpensemble.planning import Plan, plan, plan_labels
from dpensemble.relations import Basis, Relation

__version__ = version("dpensemble")

__all__ = [
    "BaggedPATEClassifier",
    "BaggingPrivacyClassifier",
    "Basis",
    "Budget",
    "DPBaggingClassifier",
    "Guarantee",
    "PATEClassifier",
    "Plan",
    "PrivacyCost",
    "PrivateMajorityClassifier",
    "Relation",
    "SubsampleAggregateClassifier",
    "UpsamplingPATEClassifier",
    "VanishingPATEClassifier",
    "WeightingPATEClassifier",
    "load_adult",
    "load_classifier",
    "load_digit_images",
    "load_fashion_mnist",
    "load_mnist",
    "plan",
    "plan_labels",
    "save_classifier",
    "three_way_split",
]
