"""Libraries that are slow to load: each is loaded when it is first used (SPEC 1 of Scientific Python).

`from microveil.core.late import pl` costs nothing, `pl.DataFrame` loads polars. Libraries that need not be installed
are imported by the functions that use them.
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
    from scipy import optimize, special, stats
else:

    class _Late(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    pl, pa = _Late("polars"), _Late("pyarrow")
    pc, pa_csv, pq = (_Late(f"pyarrow.{name}") for name in ("compute", "csv", "parquet"))
    optimize, special, stats = (_Late(f"scipy.{name}") for name in ("optimize", "special", "stats"))

__all__ = ["optimize", "pa", "pa_csv", "pc", "pl", "pq", "special", "stats"]
