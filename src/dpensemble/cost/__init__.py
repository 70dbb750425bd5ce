"""What answering cost: curves and dominating pairs that add up, and their conversion to epsilon and delta."""

from dpensemble.cost.gated import GatedComposition
from dpensemble.cost.gated_cost import GatedCost
from dpensemble.cost.optimal import optimal_composition
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.privacy_cost import DEFAULT_ORDERS, Conversion, Part, PrivacyCost, largest_count

__all__ = [
    "DEFAULT_ORDERS",
    "Conversion",
    "DominatingPairs",
    "GatedComposition",
    "GatedCost",
    "Part",
    "PrivacyCost",
    "largest_count",
    "optimal_composition",
]
