"""Engines: where the rows are while the pipeline runs."""

from microveil.engines.memory import Outcome, run
from microveil.engines.pipeline import Spectrum
from microveil.engines.rows import Progress

ENGINES = ("auto", "memory", "stream", "spark")
