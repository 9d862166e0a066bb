"""Makes `tests/reference.py` importable from every folder of tests: pytest puts the folder of this file on the path."""

from hypothesis import HealthCheck, settings
from properties import FUZZED

# A verdict depends neither on the luck of the draw nor on how busy the machine is; `make fuzz` looks for new examples.
anywhere = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **anywhere)
settings.register_profile("fuzz", max_examples=FUZZED or 100, print_blob=True, **anywhere)
settings.load_profile("fuzz" if FUZZED else "repeatable")
