# %% [markdown]
# # A bank whose customers choose their own budgets
#
# Each customer says how much may be learned from their record: cautious ones allow epsilon 0.1, most 0.5, generous
# ones 2. Sums of all vectors weigh each record by what it allows, so that nobody is charged more. The rows are made up.

# %%
import numpy as np
import pandas as pd
import pictures

from dpensemble import LabelMomentsClassifier


def customers(n, seed):
    """Customers, and whether they will fall behind."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.lognormal(8, 0.5, n).round(),
            "debt": rng.lognormal(7, 1.0, n).round(),
            "years": rng.integers(0, 30, n),
            "job": rng.choice(["clerk", "nurse", "driver", "teacher", "other"], n),
        }
    )
    risk = np.log(table["debt"] / table["income"]) - 0.05 * (table["years"] - 10)
    return table, (risk + rng.logistic(size=n) > 0).astype(int)


private, behind = customers(1500, 1)
public, _ = customers(800, 2)
test, truth = customers(4000, 3)
allowed = np.random.default_rng(4).choice([0.1, 0.5, 2.0], len(private), p=[0.3, 0.5, 0.2])

# %%
settings = {"classes": [0, 1], "delta": 1e-5, "insecure_release_seed": 0}
personal = LabelMomentsClassifier(**settings).fit(private, behind, X_public=public, personal_epsilons=allowed)
strictest = LabelMomentsClassifier(epsilon=0.1, **settings).fit(private, behind, X_public=public)
for group in personal.guarantee_.groups:
    print(f"{group.name}: allowed {group.budget:g}, charged {group.epsilon:.3f}")
    assert group.epsilon <= group.budget * (1 + 1e-9)

# %%
commonest = max(truth.mean(), 1 - truth.mean())
scores = {"each their own": personal.score(test, truth), "all the strictest": strictest.score(test, truth)}
print(scores, "commonest label:", round(commonest, 3))
assert scores["each their own"] > commonest

pictures.bars(
    "bank-with-personal-budgets",
    "Nobody is charged more than they allow",
    {"personal budgets": {"right": scores["each their own"]}, "0.1 for all": {"right": scores["all the strictest"]}},
)
