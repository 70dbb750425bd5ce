"""The most that one answer can reveal, over all votes."""
