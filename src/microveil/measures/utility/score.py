"""Scores: a few measures in one figure, as the papers weigh them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from microveil.core.errors import ParameterError
from microveil.measures.base import Better, Cost, Kind, Measure, MeasureInfo


@dataclass(frozen=True, kw_only=True)
class Score(MeasureInfo):
    """A weighted mean of other measures, risks among them: it is worked out from figures measured before.

    All parts are between 0 and 1, and low is better in all; some are slow, and some compare pairs. The ends of the
    interval are the weighted means of the parts' ends, as if all were off in the same direction.
    """

    kind: Kind = "score"
    better: Better = "low"
    range: tuple[float, float] = (0.0, 1.0)
    cost: Cost = "slow"
    paired: bool = True
    weights: tuple[float, ...] = ()
    default: bool = True
    of_whole: bool = False
    """Are its risks those of all columns, also where only some are sensitive?"""

    @property
    def own_weights(self) -> dict[str, float]:
        """The paper's weights, by part; equal ones, if it has none."""
        return dict(zip(self.parts, self.weights or (1.0,) * len(self.parts), strict=True))

    def __call__(self, measured: Mapping[str, Measure], weights: Mapping[str, float] | None = None) -> Measure:
        """The score of these figures; with the paper's weights (equal ones, if it has none) unless others are given."""
        missing = [part for part in self.parts if part not in measured]
        if missing:
            raise ParameterError(f"{self.id}: needs {', '.join(missing)}", "measure them too")
        weights = self.own_weights if weights is None else weights
        if set(weights) != set(self.parts) or min(weights.values()) < 0 or not sum(weights.values()) > 0:
            raise ParameterError(f"{self.id}: weights must be for {', '.join(self.parts)}, none negative")

        def mean(which: str) -> float:
            total = sum(weights[part] * float(getattr(measured[part], which)) for part in self.parts)
            return total / sum(weights.values())

        value, low, high = map(mean, ("value", "low", "high"))
        note = "; ".join(f"{part}: {measured[part].note}" for part in self.parts if measured[part].note)
        parts = {part: measured[part].value for part in self.parts}
        return Measure(self.id, value, low, high, None, self.better, self.range, self.summary, note, parts)


score_2 = Score(
    "score_2",
    "mean of propensity (squares and products), information loss, linkage and interval disclosure (Calviño 2017)",
    parts=("propensity_2", "pil", "dbrl", "interval_disclosure"),
)

score_3 = Score(
    "score_3",
    "mean of propensity (with cubes), information loss, linkage and interval disclosure (Calviño 2017)",
    parts=("propensity_3", "pil", "dbrl", "interval_disclosure"),
)

summary = Score(
    "summary",
    "mean of information loss (7 groups), propensity, linkage and own-record interval disclosure (Calviño, Aldeguer "
    "and Domingo-Ferrer 2017, eq. 1)",
    parts=("pil7", "propensity_2", "dbrl", "interval_disclosure_own"),
)

overall = Score(
    "overall",
    "mean of information loss (7 groups), propensity, linkage, own-record interval disclosure, all of the whole table, "
    "and, twice, selectivity (Calviño, Aldeguer and Domingo-Ferrer 2017, eq. 4)",
    parts=(*summary.parts, "selectivity"),
    weights=(1.0, 1.0, 1.0, 1.0, 2.0),
    default=False,
    of_whole=True,
)

overall_sensitive = replace(
    overall,
    id="overall_sensitive",
    summary="`overall` with linkage and interval disclosure of the sensitive columns alone, as attacks are measured "
    "where such columns are named; not the papers' score",
    of_whole=False,
)
