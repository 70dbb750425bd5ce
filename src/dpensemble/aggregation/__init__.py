"""Answers from votes that you bring: ballots, counts or log-probabilities, without teachers of this library."""

from dpensemble.aggregation.aggregator import Aggregator, DrawnRecords, Quote
from dpensemble.aggregation.answers import Answer

__all__ = ["Aggregator", "Answer", "DrawnRecords", "Quote"]
