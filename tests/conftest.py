"""Makes `tests/reference.py` importable from every folder of tests: pytest puts the folder of this file on the path."""

import os

from hypothesis import settings

# At home, every run tries new examples; a landing must not depend on the luck of the draw.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
