"""skops, without the array libraries that its import would load."""

from __future__ import annotations

import sys
from types import ModuleType

# skops lists all estimators of scikit-learn, which imports all its packages, adapters of array libraries among them.
# PyTorch alone takes longer to import than the prediction of a file of rows.
_ADAPTERS = tuple(f"sklearn.externals.array_api_compat.{library}" for library in ("cupy", "dask", "torch"))


def skops_io() -> ModuleType:
    """Return ``skops.io``, without importing adapters that are not imported yet."""
    held_back = [] if "skops.io" in sys.modules else [name for name in _ADAPTERS if name not in sys.modules]
    for name in held_back:
        # To import it fails from now on, which the search for estimators passes over.
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        from skops import io  # noqa: PLC0415
    finally:
        for name in held_back:
            # Another thread may have put the module there meanwhile.
            if sys.modules.get(name, ...) is None:
                del sys.modules[name]
    return io
