"""DP-SGD by Opacus: logistic regression and a small network, with settings from public facts only."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

CLIP = 1.0


def dp_sgd(
    private: np.ndarray,
    y: np.ndarray,
    test: np.ndarray,
    *,
    classes: int,
    epsilon: float,
    delta: float,
    seed: int,
    hidden: int,
    rate: float,
    epochs: int = 20,
    batches: int = 4,
    momentum: float = 0.9,
) -> np.ndarray:
    """Return class probabilities of test rows.

    `hidden` is the width of the one hidden layer, none if 0; each epoch has `batches` Poisson samples, so that one has
    a share ``1 / batches`` of the rows on average.
    """
    import torch  # noqa: PLC0415
    from opacus import PrivacyEngine  # noqa: PLC0415
    from torch.utils.data import DataLoader, TensorDataset  # noqa: PLC0415

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    data = TensorDataset(torch.as_tensor(private, dtype=torch.float32), torch.as_tensor(y))
    model = _network(torch, private.shape[1], hidden, classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    with warnings.catch_warnings():
        # Opacus warns that its randomness is not cryptographic, and torch about hooks.
        warnings.simplefilter("ignore")
        loader = DataLoader(data, batch_size=-(-len(private) // batches))
        # Ghost clipping: the same gradients, without keeping one for every row.
        model, optimizer, loss_of, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            criterion=torch.nn.CrossEntropyLoss(),
            data_loader=loader,
            noise_multiplier=_noise(epsilon, delta, len(loader), epochs),
            max_grad_norm=CLIP,
            grad_sample_mode="ghost",
        )
        for _ in range(epochs):
            for X_batch, y_batch in loader:
                optimizer.zero_grad()
                loss_of(model(X_batch), y_batch).backward()
                optimizer.step()
        with torch.no_grad():
            model.eval()
            found = torch.softmax(model(torch.as_tensor(test, dtype=torch.float32)), dim=1)
    return found.double().numpy()


@cache
def _noise(epsilon: float, delta: float, batches: int, epochs: int) -> float:
    """Return the noise, in clips, at which all steps spend the budget; the search takes seconds."""
    from opacus.accountants.utils import get_noise_multiplier  # noqa: PLC0415

    return get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=delta,
        sample_rate=1 / batches,
        steps=batches * epochs,
        accountant="prv",
        epsilon_tolerance=0.001,
    )


def _network(torch, columns: int, hidden: int, classes: int):
    if not hidden:
        return torch.nn.Sequential(torch.nn.Linear(columns, classes))
    # Bounded activations, as Papernot et al. 2021 advise.
    return torch.nn.Sequential(torch.nn.Linear(columns, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, classes))
