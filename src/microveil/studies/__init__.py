"""Studies: many releases of one table, measured, so that somebody can choose."""

from microveil.studies.compare import compare, measures_for
from microveil.studies.published import ENTRIES
from microveil.studies.recommend import Advice, recommend
from microveil.studies.reproduce import Reproduction, about, reproduce, reproducible
from microveil.studies.study import FEWEST, Study, Summary

__all__ = [
    "ENTRIES",
    "FEWEST",
    "Advice",
    "Reproduction",
    "Study",
    "Summary",
    "about",
    "compare",
    "measures_for",
    "recommend",
    "reproduce",
    "reproducible",
]
