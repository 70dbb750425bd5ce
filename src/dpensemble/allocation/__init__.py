"""Which records teach which teachers."""

from dpensemble.allocation.base import Allocation
from dpensemble.allocation.bootstrap import Bootstrap, BootstrapScheme
from dpensemble.allocation.everyone import everyone
from dpensemble.allocation.partition import partitions

__all__ = [
    "Allocation",
    "Bootstrap",
    "BootstrapScheme",
    "everyone",
    "partitions",
]
