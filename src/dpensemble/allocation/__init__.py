"""Which records teach which teachers."""

from dpensemble.allocation.bootstrap import Bootstrap, BootstrapScheme
from dpensemble.allocation.partition import Allocation, everyone, partitions

__all__ = [
    "Allocation",
    "Bootstrap",
    "BootstrapScheme",
    "everyone",
    "partitions",
]
