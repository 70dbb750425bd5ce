"""Audits: exact losses of small laws, and lower bounds on epsilon from repeated runs."""

from dpensemble.audit.exact import LawAudit, audit_law, compose_outcomes, exact_epsilon, sampled_probabilities
from dpensemble.audit.sampled import AuditResult, audit_pipeline, audit_sampler

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
