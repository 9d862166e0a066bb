"""Studies: many releases of one table, measured, so that somebody can choose."""

from microveil.studies.compare import compare
from microveil.studies.study import Study

__all__ = ["Study", "compare"]
