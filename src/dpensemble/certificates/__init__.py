"""Certificates: the claims of a plan or a run, in a file that a program without this library can check."""

from dpensemble.certificates.certificate import (
    certificate_of,
    certificate_of_draws,
    certificate_of_fit,
    certificate_of_majority,
    certificate_of_sites,
    certificate_of_sums,
    confirmed,
    release_stated,
)

__all__ = [
    "certificate_of",
    "certificate_of_draws",
    "certificate_of_fit",
    "certificate_of_majority",
    "certificate_of_sites",
    "certificate_of_sums",
    "confirmed",
    "release_stated",
]
