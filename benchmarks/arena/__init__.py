"""The library's methods beside other private classifiers, on the same splits of public tables."""
