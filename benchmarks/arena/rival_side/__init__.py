"""What runs in the rivals' environments. Of the arena it imports only what needs the standard library alone."""
