"""One model of several organisations that share no records: what each site adds, and what they add up to."""

from dpensemble.sites.run import SiteRun
from dpensemble.sites.terms import RunTerms
from dpensemble.sites.web import HTTPMessages

__all__ = ["HTTPMessages", "RunTerms", "SiteRun"]
