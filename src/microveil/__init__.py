"""microveil releases numeric microdata that keep their statistics and hide their records."""

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from microveil.core.version import __version__

if TYPE_CHECKING:
    from microveil.assess import assess, assess_files, read_policy
    from microveil.assessment.assessment import Assessment, Sanity
    from microveil.assessment.policy import Policy, Verdict
    from microveil.catalogue import describe, example_file, measures, methods
    from microveil.core.errors import DisclosureWarning
    from microveil.measures.risk.closest import leakage_distribution
    from microveil.papers.reproduce import reproduce
    from microveil.private.budget import ExpectedError, expected_error
    from microveil.private.mechanism import Ledger
    from microveil.protection.in_memory import protect
    from microveil.protection.on_spark import protect_spark
    from microveil.release.release import ComponentTable, Dose, Release
    from microveil.studies.compare import compare
    from microveil.studies.recommend import Advice, recommend
    from microveil.studies.study import Study
    from microveil.workflow.protecting import protect_file
    from microveil.workflow.recipes import run

# Where each public name lives. They are imported on first use, so that `import microveil` and `--help` cost nothing
# that is not needed: the whole of it takes a second.
_HOMES = {
    "microveil.assess": "assess assess_files read_policy",
    "microveil.assessment.assessment": "Assessment Sanity",
    "microveil.assessment.policy": "Policy Verdict",
    "microveil.catalogue": "describe example_file measures methods",
    "microveil.core.errors": "DisclosureWarning",
    "microveil.measures.risk.closest": "leakage_distribution",
    "microveil.papers.reproduce": "reproduce",
    "microveil.private.budget": "ExpectedError expected_error",
    "microveil.private.mechanism": "Ledger",
    "microveil.protection.in_memory": "protect",
    "microveil.protection.on_spark": "protect_spark",
    "microveil.release.release": "ComponentTable Dose Release",
    "microveil.studies.compare": "compare",
    "microveil.studies.recommend": "Advice recommend",
    "microveil.studies.study": "Study",
    "microveil.workflow.protecting": "protect_file",
    "microveil.workflow.recipes": "run",
}
_MODULES = {"errors": "microveil.errors", "mos": "microveil.assessment.mos", "tables": "microveil.tables"}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Advice",
    "Assessment",
    "ComponentTable",
    "DisclosureWarning",
    "Dose",
    "ExpectedError",
    "Ledger",
    "Policy",
    "Release",
    "Sanity",
    "Study",
    "Verdict",
    "__version__",
    "assess",
    "assess_files",
    "compare",
    "describe",
    "example_file",
    "expected_error",
    "leakage_distribution",
    "measures",
    "methods",
    "protect",
    "protect_file",
    "protect_spark",
    "read_policy",
    "recommend",
    "reproduce",
    "run",
]


class _Package(ModuleType):
    """A public name wins over a submodule of that name: `microveil.methods` is the function, whatever was imported."""

    def __getattr__(self, name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name == "recipes":
            warnings.warn("microveil.recipes is now microveil.release.recipe", DeprecationWarning, stacklevel=2)
            return import_module("microveil.release.recipe")
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
