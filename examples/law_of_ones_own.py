# %% [markdown]
# # A law of one's own
#
# A law turns counts of votes into the probabilities of a label. This one gives every class its share of the votes, and
# a few more for everybody. With two classes it is priced exactly, so every method, the plan and the audit take it.

# %%
from dataclasses import dataclass

import numpy as np
import pictures

from dpensemble import PATEClassifier, plan
from dpensemble.design import wrong_label_rate
from dpensemble.laws import ReleaseLaw


@dataclass(frozen=True)
class Proportional(ReleaseLaw):
    """A label with the probability of its share of the votes, after `extra` votes more for every class."""

    title = "share of the votes, and a few more for everybody"
    in_votes = ("extra",)
    usual = (1.0,)

    extra: float

    def probabilities(self, counts):
        raised = counts + self.extra
        return raised / raised.sum(axis=1, keepdims=True)


# %% [markdown]
# What it costs, and how often it errs, beside the Gaussian noise that gives as many labels.

# %%
own = plan(PATEClassifier(law=Proportional, n_teachers=100).design(n_classes=2), epsilon=1.0, delta=1e-5, labels=300)
usual = plan(PATEClassifier(n_teachers=100).design(n_classes=2), epsilon=1.0, delta=1e-5, labels=300)
margins = np.linspace(0, 100, 41)
errors = {
    name: [float(rate) for rate in wrong_label_rate(found.design.law, 100, margins, 2)]
    for name, found in (("own law", own), ("Gaussian", usual))
}
for name, found in (("own law", own), ("Gaussian", usual)):
    print(f"{name}: {found.design.law}, {found.labels} labels, wrong at 60 votes ahead: {errors[name][24]:.3f}")
assert own.labels == usual.labels == 300

# %%
pictures.lines(
    "law-of-ones-own",
    "300 labels of 100 teachers at epsilon 1",
    ("votes ahead of the runner-up", "label wrong"),
    {name: list(zip(margins.tolist(), rates, strict=True)) for name, rates in errors.items()},
    {"a guess": 0.5},
)
