"""The published bounds, for comparison and reproduction."""
