"""Optimised private majorities: time, rounds and constraints by size, the cost of monotony, the paper's settings.

Run ``python benchmarks/darrm.py``. Errors are expected total-variation distances to the true majority.
"""

from __future__ import annotations

from dpensemble.darrm import AlikeTeachers, IndependentTeachers, VotePrior, expected_error, optimise_gamma
from dpensemble.darrm.allowance import check_gamma
from dpensemble.design.private_answers import general_composition
from dpensemble.laws import RandomizedResponseMajority

EPSILON = 0.1
# Uniform on [1/2, 1], then uniform on [0.7, 1], the paper's second, then one common probability in [0, 1].
PRIORS: dict[str, VotePrior] = {
    "mean 0.75": IndependentTeachers(0.75),
    "mean 0.85": IndependentTeachers(0.85),
    "alike": AlikeTeachers(),
}


def sizes() -> None:
    print("Time by size, constraints='monotone', m = 10 (3 for K = 11), delta = m Delta")
    print("     K  epsilon    Delta  prior        seconds  rounds  rows of all corners  gap to bound  shrunk by")
    for k in (11, 35, 101, 201, 501, 1001):
        m = 3 if k == 11 else 10
        for epsilon in (0.01, 0.1, 1.0):
            for slack in (0.0, 1e-5):
                for name in ("mean 0.75", "alike"):
                    solution = optimise_gamma(k, epsilon=epsilon, m=m, Delta=slack, delta=m * slack, prior=PRIORS[name])
                    print(
                        f"  {k:4d}  {epsilon:7g}  {slack:7g}  {name:10s}  {solution.seconds:8.2f}  "
                        f"{solution.rounds:6d}  "
                        f"{solution.n_constraints:4d} of {solution.certificate.n_placements:11,}  "
                        f"{solution.upper_bound - solution.objective:12.1e}  {solution.certificate.shrunk_by:9.1e}"
                    )


def monotony() -> None:
    print("What monotony costs: share of the objective of constraints='all' that 'monotone' gives up")
    print("     K  epsilon    m    Delta  prior            share  seconds all  seconds monotone")
    for k, m, slack in [
        (9, 3, 0.0),
        (11, 3, 0.0),
        (11, 3, 1e-5),
        (15, 2, 0.0),
        (15, 4, 1e-5),
        (21, 5, 1e-3),
        (35, 5, 0.0),
        (101, 10, 0.0),
    ]:
        for epsilon in (0.1, 1.0):
            for name in ("mean 0.75", "alike"):
                rising, every = (
                    optimise_gamma(
                        k,
                        epsilon=epsilon,
                        m=m,
                        Delta=slack,
                        delta=m * slack,
                        prior=PRIORS[name],
                        constraints=constraints,
                    )
                    for constraints in ("monotone", "all")
                )
                print(
                    f"  {k:4d}  {epsilon:7g}  {m:3d}  {slack:7g}  {name:10s}  "
                    f"{1 - rising.objective / every.objective:10.2e}  {every.seconds:11.2f}  "
                    f"{rising.seconds:16.2f}"
                )


def settings() -> list[tuple[int, int, float, float, float]]:
    """Return teachers, teachers drawn, allowance in teachers, Delta and delta of each setting of the paper."""
    listed: list[tuple[int, int, float, float, float]] = []
    for m in (1, 3, 5, 7):
        listed += [(11, m, m, 1e-5, m * 1e-5), (11, m, m, 0.0, 0.0)]
    for m in (10, 13, 15, 20):
        total, delta = general_composition(EPSILON, 1e-5, m, 0.1)
        listed.append((35, m, total / EPSILON, 1e-5, delta))
    return listed + [(101, m, m, 0.0, 0.0) for m in range(10, 81, 10)]


def paper() -> None:
    print(f"The paper's settings, epsilon {EPSILON:g} (DSub for Delta = 0 only; 'private' by an independent check)")
    print("    K   m  allowance  Delta    prior       optimised        Sub       DSub         RR  private")
    for k, drawn, m, slack, delta in settings():
        ballots = general_composition(EPSILON, slack, k, 0.1 if k == 35 else 0.0)
        laws = {
            "Sub": RandomizedResponseMajority.subsampling(k, drawn),
            "RR": RandomizedResponseMajority.constant(
                k, ballots_epsilon=ballots[0], ballots_delta=ballots[1], epsilon=EPSILON * m, delta=delta
            ),
        }
        if slack == 0:
            laws["DSub"] = RandomizedResponseMajority.double_subsampling(k, drawn)
        for name, prior in PRIORS.items():
            solution = optimise_gamma(k, epsilon=EPSILON, m=m, Delta=slack, delta=delta, prior=prior)
            errors = {law: expected_error(laws[law], prior) for law in laws}
            checked = check_gamma(solution.law, epsilon=EPSILON, m=m, Delta=slack, delta=delta)
            how = "every corner" if checked.exhaustive else "search"
            verdict = "yes" if checked.load <= 1 else "NO"
            dsub = f"{errors['DSub']:9.3e}" if "DSub" in errors else "        -"
            print(
                f"  {k:3d}  {drawn:2d}  {m:9.4f}  {slack:5.0e}  {name:10s}  {solution.error:9.3e}  "
                f"{errors['Sub']:9.3e}  {dsub}  {errors['RR']:9.3e}  {verdict}, {how}"
            )


if __name__ == "__main__":
    sizes()
    monotony()
    paper()
