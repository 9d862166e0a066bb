"""Engines: where the rows are while the pipeline runs."""

from microveil.engines.memory import ROWS_PER_COLUMN, Outcome, run
from microveil.engines.pipeline import Progress, Spectrum

ENGINES = ("auto", "memory")

__all__ = ["ENGINES", "ROWS_PER_COLUMN", "Outcome", "Progress", "Spectrum", "run"]
