"""One method, one short file: an allocation, a law and an accounting."""

from dpensemble.methods.dpbag import DPBaggingClassifier
from dpensemble.methods.pate import PATEClassifier
from dpensemble.methods.saa import SubsampleAggregateClassifier

__all__ = ["DPBaggingClassifier", "PATEClassifier", "SubsampleAggregateClassifier"]
