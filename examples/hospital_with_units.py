# %% [markdown]
# # A hospital whose patients come several times
#
# The registry has a row for each visit. What has to be protected is a patient, with all visits together, so the
# patients are the `units`. Volunteers gave rows without a diagnosis; they are public. A volunteer has several rows, so
# the volunteers are the `public_units`. The rows are made up here.

# %%
import numpy as np
import pandas as pd
import pictures

from dpensemble import LabelMomentsClassifier


def visits(n_patients, seed):
    """Two to four visits of each patient, with blanks, as registries have them."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), rng.integers(2, 5, n_patients))
    n = len(patient)
    age = rng.integers(20, 90, n_patients)[patient].astype(float)
    table = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.05, np.nan, age),
            "ward": rng.choice(["surgery", "medicine", "emergency"], n),
            "pressure": rng.normal(115 + 0.4 * age, 12).round(),
            "smokes": rng.choice(["yes", "no", None], n, p=[0.25, 0.65, 0.1]),
        }
    )
    risk = 0.06 * (age - 60) + 0.05 * (table["pressure"] - 140) + 1.2 * (table["smokes"] == "yes")
    return table, np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "ill", "well"), patient


private, diagnosis, patient = visits(400, 1)
public, _, volunteer = visits(300, 2)
test, truth, _ = visits(1000, 3)

# %% [markdown]
# One fit a budget is drawn below to show the trade. On real records their losses would add up: choose one.

# %%
curve = []
for epsilon in (0.1, 0.3, 1.0, 3.0):
    model = LabelMomentsClassifier(classes=["ill", "well"], epsilon=epsilon, delta=1e-4, insecure_release_seed=0)
    model.fit(private, diagnosis, X_public=public, units=patient, public_units=volunteer)
    curve.append((epsilon, model.score(test, truth)))
    print(f"epsilon {epsilon:g}: {curve[-1][1]:.3f} right")

commonest = max(np.mean(truth == "ill"), np.mean(truth == "well"))
print(model.guarantee_)
assert curve[-1][1] > commonest + 0.02

# %%
pictures.lines(
    "hospital-with-units",
    f"{len(set(patient)):,} patients, {len(private):,} visits: a patient is protected",
    ("epsilon", "right on other patients' visits"),
    {"student": curve},
    {"commonest": commonest},
)
