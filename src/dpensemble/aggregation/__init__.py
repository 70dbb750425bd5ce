"""Answers from votes that you bring: ballots, counts or log-probabilities, without teachers of this library."""

from dpensemble.aggregation.aggregator import Aggregator, Quote
from dpensemble.aggregation.answers import Answer
from dpensemble.aggregation.drawn import DrawnRecords

__all__ = ["Aggregator", "Answer", "DrawnRecords", "Quote"]
