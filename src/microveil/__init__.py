"""microveil releases numeric microdata that keep their statistics and hide their records."""

from microveil.api import (
    assess,
    describe,
    example_file,
    leakage_distribution,
    measures,
    methods,
    protect,
    read_policy,
)
from microveil.core.assessment import Assessment, Sanity
from microveil.core.policy import Policy, Verdict
from microveil.core.results import ComponentTable, Dose, Release
from microveil.large import assess_files, protect_file, protect_spark
from microveil.recipes import run
from microveil.studies import Advice, Study, compare, recommend, reproduce

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "Assessment",
    "ComponentTable",
    "Dose",
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
