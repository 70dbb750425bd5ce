"""A service for private predictions over HTTP, from posted votes or hosted teachers."""

from dpensemble.errors import DPEnsembleError

try:
    import uvicorn  # noqa: F401  `serve` needs it

    from dpensemble.service.app import create_app
    from dpensemble.service.settings import read_settings
except ImportError as error:
    missing = (error.name or "").partition(".")[0]
    if missing == "dpensemble":
        raise
    raise DPEnsembleError(
        f'the service needs {missing}, which is not installed: run pip install "dpensemble[service]".'
    ) from error

__all__ = [
    "create_app",
    "read_settings",
]
