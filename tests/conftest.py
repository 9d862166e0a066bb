"""Makes `tests/reference.py` importable from every folder of tests: pytest puts the folder of this file on the path."""
