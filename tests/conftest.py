"""Makes the helpers of this folder importable from every folder of tests (pytest puts it on the path); what is slow."""

from collections import defaultdict
from fnmatch import fnmatchcase
from importlib import import_module

import pytest
from chromium import browser  # noqa: F401 - a fixture of all tests
from hypothesis import HealthCheck, settings
from properties import FUZZED

# A verdict depends neither on the luck of the draw nor on how busy the machine is; `make fuzz` looks for new examples.
anywhere = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", max_examples=40, derandomize=True, **anywhere)
settings.register_profile("fuzz", max_examples=FUZZED or 100, print_blob=True, **anywhere)
settings.load_profile("fuzz" if FUZZED else "repeatable")

SLOW_PAGES = {"reports.md", "assess.md", "mos.md", "recipes.md", "scale.md", "spectral-variants.md", "veil.md"}
SLOW_PAGES |= {
    "tutorial.md",
    "howto-policy.md",
    "howto-business.md",
    "howto-hospital.md",
    "how-it-works.md",
    "roles.md",
}
"""Pages whose examples take long; those of README.md and the other pages run in `make test`."""

ROOMS_OF_FEW_EXCHANGES = {"cli", "engines", "intake", "io", "report"}
"""Folders whose tests look at files, words, kinds and rules, not at how near `veil` comes."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow: long pages, and the cases of a test with `@pytest.mark.quick(...)` that it does not name."""
    cases = defaultdict(list)
    for item in items:
        if item.path.name in SLOW_PAGES:
            item.add_marker(pytest.mark.slow)
        named = item.get_closest_marker("quick")
        if named is not None:
            is_quick = any(fnmatchcase(item.callspec.id, pattern) for pattern in named.args)
            cases[item.path, item.originalname].append(is_quick)
            if not is_quick:
                item.add_marker(pytest.mark.slow)
    for (path, name), quick in cases.items():
        if len(quick) > 1 and not any(quick):
            raise pytest.UsageError(f"{path.name}: the quick marker of {name} names none of its cases")


@pytest.fixture
def few_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the passes in which `veil` arranges values: for tests that do not look at how near they come."""
    monkeypatch.setattr(import_module("microveil.restore.arrange"), "MOST_PASSES", 20)


@pytest.fixture(autouse=True)
def _few_exchanges_in_these_rooms(request: pytest.FixtureRequest) -> None:
    if request.path.parent.name in ROOMS_OF_FEW_EXCHANGES and "all_exchanges" not in request.fixturenames:
        request.getfixturevalue("few_exchanges")


@pytest.fixture
def all_exchanges() -> None:
    """For tests of those rooms that look at how near `veil` comes all the same."""


@pytest.fixture
def few_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the descriptions that `singling_out` tries: as good for tests of what all measures have in common."""
    monkeypatch.setattr(import_module("microveil.measures.risk.singling_out"), "DESCRIPTIONS", 200)
