"""A service for private predictions over HTTP, from posted votes or hosted teachers."""

from dpensemble.errors import DPEnsembleError

try:
    from dpensemble.service.app import create_app
    from dpensemble.service.settings import read_settings
except ModuleNotFoundError as error:
    if (error.name or "").startswith("dpensemble"):
        raise
    raise DPEnsembleError(
        f"the service requires {error.name} and other packages: install dpensemble[service]."
    ) from error

__all__ = [
    "create_app",
    "read_settings",
]
