"""An estimator of every kind, for promises that each kind keeps. A new method is tried without another line."""

from dpensemble import EncodedClassifier, PATEClassifier, methods

#: Methods whose records have budgets of their own, which `fit` takes.
PERSONALISED = ("upsampling-pate", "vanishing-pate", "weighting-pate")
_WITHOUT_VOTES = {"auto", "discriminant", "label-moments", "private-majority"}


def estimators(sums, votes, own):
    """Return an estimator of each method by the method's name, and ``encoded``, which is PATE behind an encoder.

    Parameters
    ----------
    sums, votes : dict
        Settings of methods that release sums, and of those whose teachers vote. Bagging takes the classes and seeds.
    own : dict of dict
        More settings by the name of a method.
    """
    of_bagging = {key: sums[key] for key in ("classes", "random_state", "insecure_release_seed")}
    made = {"encoded": EncodedClassifier(PATEClassifier(**votes))}
    for kind in (getattr(methods, name) for name in methods.__all__ if name != "EncodedClassifier"):
        shared = of_bagging if kind.name == "bagging" else sums if kind.name in _WITHOUT_VOTES else votes
        made[kind.name] = kind(**shared | own.get(kind.name, {}))
    return made
