"""A service that answers: private prediction over HTTP, from posted votes or from teachers in the house."""

from dpensemble.errors import DPEnsembleError

try:
    from dpensemble.service.app import create_app
    from dpensemble.service.settings import read_settings
except ModuleNotFoundError as error:
    if (error.name or "").startswith("dpensemble"):
        raise
    raise DPEnsembleError(f"the service needs {error.name} and others; install dpensemble[service].") from error

__all__ = [
    "create_app",
    "read_settings",
]
