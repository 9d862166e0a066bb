"""What is installed only where it is needed, and the one line that says how to have it."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from microveil.core.errors import ParameterError

EXTRAS: Final = {
    "report": ("altair", "vl-convert-python"),
    "formula": ("formulaic",),
    "excel": ("defusedxml", "openpyxl"),
    "stat": ("pyreadstat",),
    "db": ("adbc-driver-postgresql", "duckdb"),
    "tables": ("highspy",),
    "spark": ("pyspark",),
    "app": ("starlette", "uvicorn"),
}
"""The extras of the package, `pip install 'microveil[report]'`, and what each brings; `all` brings all of them. A test
holds them against pyproject.toml."""


def needed(module: str, extra: str, what: str) -> Any:
    """A module of an extra; where it is not installed, one line says what (`what` for) to install."""
    try:
        return import_module(module)
    except ImportError:
        raise ParameterError(f"{what} needs {module.partition('.')[0]}", f"pip install 'microveil[{extra}]'") from None
