"""Random training runs that fail at random steps after their charge. `recover` has to finish each of them.

Run ``python benchmarks/failures_after_charge --runs 500 --seed 0`` in the root of a clone.
"""
