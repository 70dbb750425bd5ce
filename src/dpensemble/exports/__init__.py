"""Students of label moments in other languages: SQL, a score card, and a Python file without dependencies."""
