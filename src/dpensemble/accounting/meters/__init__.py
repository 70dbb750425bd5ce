"""Meters: they charge for answers before the answers are drawn."""
