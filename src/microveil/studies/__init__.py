"""Studies: many releases of one table, measured, so that somebody can choose."""

from microveil.studies.compare import compare
from microveil.studies.published import ENTRIES
from microveil.studies.recommend import Advice, recommend
from microveil.studies.reproduce import Reproduction, about, reproduce, reproducible
from microveil.studies.study import Study

__all__ = ["ENTRIES", "Advice", "Reproduction", "Study", "about", "compare", "recommend", "reproduce", "reproducible"]
