"""Audits: exact losses of small laws, and lower bounds on epsilon from repeated runs."""

from dpensemble.audit.bounds import AuditResult
from dpensemble.audit.every_pair import LawAudit, audit_law
from dpensemble.audit.exact import compose_outcomes, exact_epsilon, sampled_probabilities
from dpensemble.audit.sampled import audit_pipeline, audit_sampler

__all__ = [
    "AuditResult",
    "LawAudit",
    "audit_law",
    "audit_pipeline",
    "audit_sampler",
    "compose_outcomes",
    "exact_epsilon",
    "sampled_probabilities",
]
