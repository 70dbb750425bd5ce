"""What answering costs: from a law, an allocation and (where asked for) the votes to a privacy cost."""

from dpensemble.accounting.base import Meter, largest_affordable
from dpensemble.accounting.moments import WorstCaseMeter, laplace_moments
from dpensemble.accounting.personalised import PersonalisedMeter

__all__ = ["Meter", "PersonalisedMeter", "WorstCaseMeter", "laplace_moments", "largest_affordable"]
