"""Libraries that are slow to load, or not always there: each is loaded when it is first used (SPEC 1 of Scientific
Python).

`from microveil.core.late import pl` costs nothing, `pl.DataFrame` loads polars.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from microveil.core.errors import ParameterError

if TYPE_CHECKING:
    import duckdb
    import openpyxl
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq
    import pyreadstat
    from pyspark.sql import functions as sf
    from pyspark.sql import types as spark_types
    from scipy import optimize, sparse, special, stats
else:

    class _Late(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    pl, pa = _Late("polars"), _Late("pyarrow")
    pc, pa_csv, pq = (_Late(f"pyarrow.{name}") for name in ("compute", "csv", "parquet"))
    optimize, sparse, special, stats = (_Late(f"scipy.{name}") for name in ("optimize", "sparse", "special", "stats"))
    openpyxl, pyreadstat, duckdb = (_Late(name) for name in ("openpyxl", "pyreadstat", "duckdb"))
    sf, spark_types = _Late("pyspark.sql.functions"), _Late("pyspark.sql.types")

EXTRAS: Final = {
    "arrow": ("pyarrow",),
    "report": ("altair", "vl-convert-python"),
    "formula": ("formulaic",),
    "excel": ("defusedxml", "openpyxl"),
    "stat": ("pyreadstat",),
    "db": ("adbc-driver-postgresql", "duckdb"),
    "tables": ("highspy",),
    "spark": ("pyspark",),
    "privacy": ("opendp",),
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


def has_arrow() -> bool:
    """Is Arrow installed? It is large, and the core does without."""
    with suppress(ValueError):  # a name that is barred has no place
        return sys.modules.get("pyarrow") is not None or find_spec("pyarrow") is not None
    return False


def is_arrow(column: Any) -> bool:
    """Is this a column of Arrow?"""
    return sys.modules.get("pyarrow") is not None and isinstance(column, pa.ChunkedArray | pa.Array)


__all__ = [
    "EXTRAS", "duckdb", "has_arrow", "is_arrow", "needed", "openpyxl", "optimize", "pa", "pa_csv", "pc", "pl", "pq",
    "pyreadstat", "sf", "spark_types", "sparse", "special", "stats",
]  # fmt: skip
