"""Studies: many releases of one table, measured, so that somebody can choose."""

from microveil.studies.compare import compare, measures_for
from microveil.studies.recommend import Advice, recommend
from microveil.studies.study import FEWEST, Study, Summary

__all__ = ["FEWEST", "Advice", "Study", "Summary", "compare", "measures_for", "recommend"]
