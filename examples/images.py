# %% [markdown]
# # Digits, by sums and by votes
#
# Scans of handwritten threes and eights, 8 x 8 pixels, which come with scikit-learn. One student is fitted to noisy
# sums of features of images (`ImageMap`), another to noisy votes of twenty teachers.

# %%
import numpy as np
import pictures

from dpensemble import LabelMomentsClassifier, SubsampleAggregateClassifier, load_digit_images
from dpensemble.moments import ImageMap

digits = load_digit_images(classes=(3, 8))
private, public = digits.scaled(digits.X_train), digits.scaled(digits.X_test)
truth = digits.y_test  # for scores only: no method sees labels of public rows


# %%
def score(kind, *given, **more):
    """Return the mean accuracy of three seeded runs."""
    seeds = [{"insecure_release_seed": seed, "random_state": seed} for seed in range(3)]
    models = [kind(*given, classes=digits.classes, delta=1e-3, **one, **more) for one in seeds]
    return float(np.mean([m.fit(private, digits.y_train, X_public=public).score(public, truth) for m in models]))


sums, votes = [], []
for epsilon in (1.0, 3.0, 8.0):
    sums.append((epsilon, score(LabelMomentsClassifier, ImageMap((8, 8)), epsilon=epsilon)))
    votes.append((epsilon, score(SubsampleAggregateClassifier, n_teachers=20, epsilon=epsilon)))
    print(f"epsilon {epsilon:g}: sums {sums[-1][1]:.3f}, votes {votes[-1][1]:.3f}")
assert min(sums[-1][1], votes[-1][1]) > 0.75

# %%
pictures.lines(
    "images",
    f"Threes and eights, {len(private)} private scans",
    ("epsilon", "right"),
    {"sums": sums, "votes": votes},
    {"commonest": float(max(np.mean(truth == 3), np.mean(truth == 8)))},
)
