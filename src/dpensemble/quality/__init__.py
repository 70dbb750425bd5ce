"""How good a student is, from one noisy histogram of held-back units: figures, bands, and thresholds for decisions."""
