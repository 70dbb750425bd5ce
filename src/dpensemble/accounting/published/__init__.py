"""What the papers charge, for comparison and reproduction."""
