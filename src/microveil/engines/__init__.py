"""Engines: where the rows are while the pipeline runs."""

from microveil.engines.context import Progress
from microveil.engines.memory import Outcome, run
from microveil.engines.pipeline import Spectrum

ENGINES = ("auto", "memory", "stream", "spark")

__all__ = ["ENGINES", "Outcome", "Progress", "Spectrum", "run"]
