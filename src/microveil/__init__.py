"""microveil releases numeric microdata that keep their statistics and hide their records."""

from microveil.api import describe, example_file, leakage_distribution, methods, protect
from microveil.core.results import ComponentTable, Dose, Release

__version__ = "0.1.0"

__all__ = [
    "ComponentTable",
    "Dose",
    "Release",
    "__version__",
    "describe",
    "example_file",
    "leakage_distribution",
    "methods",
    "protect",
]
