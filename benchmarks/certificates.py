"""Certificates and what the independent verifier makes of them: labels claimed and confirmed, CPU seconds, bytes.

Run ``python benchmarks/certificates.py``. Parts of names as arguments choose cases. ``refusals`` as the only argument
compares the time that damaged files take with that of the good file.
"""

import json
import resource
import sys
import tempfile
from pathlib import Path

from dpensemble import BaggedPATEClassifier, PATEClassifier, WeightingPATEClassifier, plan
from dpensemble.accounting import Group
from dpensemble.allocation import BootstrapScheme
from dpensemble.certificates import (
    certificate_of,
    certificate_of_draws,
    certificate_of_majority,
    certificate_of_sums,
    confirmed,
)
from dpensemble.darrm import optimise_gamma
from dpensemble.design import Census
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, OptimalVote
from dpensemble.releases import SumsMeter

DELTA = 1e-5


def votes(law, epsilon, n_classes=2, n_teachers=250):
    planned = plan(
        PATEClassifier(law=law, n_teachers=n_teachers).design(n_classes=n_classes), epsilon=epsilon, delta=DELTA
    )
    return planned.labels, certificate_of(planned.design, planned.labels)


def bagged(scheme, subsample, noise, epsilon):
    model = BaggedPATEClassifier(law=GaussianNoisyMax(noise), n_teachers=250, scheme=scheme, subsample=subsample)
    planned = plan(model.design(n_classes=2, n_records=16_281), epsilon=epsilon, delta=DELTA)
    return planned.labels, certificate_of(planned.design, planned.labels)


def personal():
    census = Census(
        names=("careful", "open"),
        budgets=(Budget(epsilon=0.5, delta=DELTA), Budget(epsilon=2.0, delta=DELTA)),
        shares=(8_000, 8_000),
    )
    planned = plan(WeightingPATEClassifier(n_teachers=250).design(n_classes=2, census=census))
    return planned.labels, certificate_of(planned.design, planned.labels)


def majority(n_teachers):
    solution = optimise_gamma(n_teachers, epsilon=0.05, m=10)
    return 1, certificate_of_majority(solution.law, solution.allowance)


def sums():
    groups = (Group("all", Budget(epsilon=1.0, delta=DELTA)),)
    rounds = [{"sigma": SumsMeter(groups).sigma(0.2), "variance": 2**60, "entries": 500}] * 5
    return 5, certificate_of_sums(groups, rounds)


CASES = {
    "Laplace, scale 125, epsilon 1": lambda: votes(LaplaceNoisyMax(125.0), 1.0),
    "Laplace, scale 125, epsilon 5": lambda: votes(LaplaceNoisyMax(125.0), 5.0),
    "Laplace, scale 125, three classes, epsilon 1": lambda: votes(LaplaceNoisyMax(125.0), 1.0, 3),
    "Gaussian, sigma 40, epsilon 1": lambda: votes(GaussianNoisyMax(40.0), 1.0),
    "exponential mechanism, scale 50, epsilon 1": lambda: votes(ExponentialVote(50.0), 1.0),
    "optimal vote, reach 250, shape 0.3, epsilon 1": lambda: votes(OptimalVote(250.0, 0.3), 1.0),
    "gate: Confident-GNMax, threshold 200, sigma 150 and 40, epsilon 1": lambda: votes(
        ConfidentNoisyMax(200.0, 150.0, 40.0), 1.0
    ),
    "gate: the same, epsilon 3": lambda: votes(ConfidentNoisyMax(200.0, 150.0, 40.0), 3.0),
    "three classes, Gaussian, sigma 40, epsilon 1": lambda: votes(GaussianNoisyMax(40.0), 1.0, 3),
    "three classes, Gaussian, sigma 40, epsilon 3": lambda: votes(GaussianNoisyMax(40.0), 3.0, 3),
    "three classes, optimal vote, reach 250, epsilon 3": lambda: votes(OptimalVote(250.0, 0.3), 3.0, 3),
    "three classes, the gate, epsilon 1": lambda: votes(ConfidentNoisyMax(200.0, 150.0, 40.0), 1.0, 3),
    "three classes, the gate, epsilon 3": lambda: votes(ConfidentNoisyMax(200.0, 150.0, 40.0), 3.0, 3),
    "personal budgets 0.5 and 2, weighting, usual law": personal,
    "bagged: distinct draws of 32, sigma 40, epsilon 1": lambda: bagged("distinct", 32, 40.0, 1.0),
    "bagged: 8 with replacement, sigma 40, epsilon 1": lambda: bagged("with-replacement", 8, 40.0, 1.0),
    "majority of 11 private teachers": lambda: majority(11),
    "majority of 99 private teachers": lambda: majority(99),
    "label moments: five rounds of sums": sums,
    "bagging alone: 300 of 60,000, one model": lambda: (
        1,
        certificate_of_draws(BootstrapScheme("with-replacement", n_models=1, subsample=300), 60_000),
    ),
}


def seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def large(text, **fields):
    """Return a certificate of a single part with more work stated than the verifier does."""
    certificate = json.loads(text)
    certificate["parts"][0]["body"].update(fields)
    return json.dumps(certificate)


REFUSED = {
    "cut in the middle": lambda text: text[: len(text) // 2],
    "another version": lambda text: text.replace('"version": 2', '"version": 3'),
    "nested 100,000 times": lambda _: "[" * 100_000 + "]" * 100_000,
    "six megabytes": lambda _: " " * 6_000_000,
    "a number of 10,000 digits": lambda text: text.replace('"ratio": ', '"ratio": ' + "9" * 10_000),
    "a block of 2,000 wide functions": lambda text: large(
        text, answers=2001, block=[1, 2000], windows=[[0, 0], [-60_000, 2000]]
    ),
    "20,000 windows": lambda text: large(text, windows=[[-1, 1]] * 20_000),
}


def refusals():
    """Print the processor time of refusals, as a share of that of the same certificate without damage."""
    _, certificate = votes(LaplaceNoisyMax(125.0), 5.0)
    text = json.dumps(certificate)

    def time_of(path, text):
        path.write_text(text)
        start = seconds(resource.RUSAGE_CHILDREN)
        yes, sentence = confirmed(path)
        return yes, sentence, seconds(resource.RUSAGE_CHILDREN) - start

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        _, sentence, good = time_of(path, text)
        print(f"{'the good certificate':34}{1:6.2f}  {sentence}")
        for name, damage in REFUSED.items():
            yes, sentence, took = time_of(path, damage(text))
            if yes:
                raise SystemExit(f"{name}: confirmed")
            print(f"{name:34}{took / good:6.2f}  {sentence}", flush=True)


def main():
    parts = sys.argv[1:]
    if parts == ["refusals"]:
        refusals()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        print("| case | claimed | confirmed | written in | verified in CPU seconds | kB |\n|---|---|---|---|---|---|")
        for name, make in CASES.items():
            if parts and not any(part in name for part in parts):
                continue
            start = seconds(resource.RUSAGE_SELF)
            claimed, certificate = make()
            wrote = seconds(resource.RUSAGE_SELF) - start
            path.write_text(json.dumps(certificate, separators=(",", ":")))
            start = seconds(resource.RUSAGE_CHILDREN)
            yes, sentence = confirmed(path)
            took = seconds(resource.RUSAGE_CHILDREN) - start
            size = path.stat().st_size / 1000
            print(
                f"| {name} | {claimed:,} | {claimed if yes else sentence} | {wrote:.1f} | {took:.1f} | {size:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
