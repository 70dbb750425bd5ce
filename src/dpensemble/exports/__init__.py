"""Students of label moments in other languages: SQL, ONNX, a score card, and a Python file without dependencies."""
