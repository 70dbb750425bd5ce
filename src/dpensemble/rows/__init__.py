"""Private rows: where they come from, which of them can be used, and whose they are."""
