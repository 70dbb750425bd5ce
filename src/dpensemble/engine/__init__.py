"""What all methods share: one recipe for a run, its result, and the checks of what `fit` is given."""
