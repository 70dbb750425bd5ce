"""Privacy costs: curves and dominating pairs that add up, and their conversion to epsilon and delta."""

from dpensemble.cost.gated import GatedComposition
from dpensemble.cost.gaussian import (
    GaussianCost,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    noise_variance,
    pure_mu,
)
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.privacy_cost import (
    DEFAULT_ORDERS,
    Conversion,
    Cost,
    GatedCost,
    Part,
    PrivacyCost,
    PureCost,
    optimal_composition,
)

__all__ = [
    "DEFAULT_ORDERS",
    "Conversion",
    "Cost",
    "DominatingPairs",
    "GatedComposition",
    "GatedCost",
    "GaussianCost",
    "Part",
    "PrivacyCost",
    "PureCost",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "noise_variance",
    "optimal_composition",
    "pure_mu",
]
