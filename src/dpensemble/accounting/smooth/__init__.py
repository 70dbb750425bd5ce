"""Publishing a data-dependent epsilon by its smooth sensitivity."""
