import sys

import pytest


@pytest.fixture(autouse=True)
def _one_thread():
    """Small networks on a busy machine: threads would mostly wait for each other."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
