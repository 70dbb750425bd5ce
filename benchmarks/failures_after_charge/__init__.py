"""Random training runs that fail at random steps after their charge, each of which `recover` has to finish.

Run ``python benchmarks/failures_after_charge --runs 500 --seed 0`` in the root of a clone.
"""
