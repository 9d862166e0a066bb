"""Libraries that are slow to load: each is loaded when it is first used (SPEC 1 of Scientific Python).

`from microveil.core.late import pl` costs nothing, `pl.DataFrame` loads polars.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq
    from pyspark.sql import functions as sf
    from pyspark.sql import types as spark_types
    from scipy import optimize, special, stats
else:

    class _Late(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    pl, pa = _Late("polars"), _Late("pyarrow")
    pc, pa_csv, pq = (_Late(f"pyarrow.{name}") for name in ("compute", "csv", "parquet"))
    optimize, special, stats = (_Late(f"scipy.{name}") for name in ("optimize", "special", "stats"))
    sf, spark_types = _Late("pyspark.sql.functions"), _Late("pyspark.sql.types")

__all__ = ["optimize", "pa", "pa_csv", "pc", "pl", "pq", "sf", "spark_types", "special", "stats"]
