import subprocess
import sys

import numpy as np
import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.neural import TorchClassifier, bagging_cnn, stacking_obstacle


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.parametrize(
    "use",
    [
        lambda: TorchClassifier().fit(np.eye(4), [0, 1, 0, 1]),
        lambda: bagging_cnn((1, 28, 28), 10),
        lambda: stacking_obstacle(TorchClassifier(), 4, 2),
    ],
    ids=["fit", "network", "obstacle"],
)
def test_a_missing_torch_is_one_sentence_that_names_the_extra(no_torch, use):
    with pytest.raises(InvalidParameterError, match=r'pip install "dpensemble\[torch\]"') as caught:
        use()
    assert str(caught.value).count(".") == 1


def test_settings_need_no_torch(no_torch):
    from sklearn.base import clone

    assert clone(TorchClassifier(epochs=3)).get_params()["epochs"] == 3


def test_importing_leaves_torch_alone():
    code = "import sys, dpensemble, dpensemble.neural; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
