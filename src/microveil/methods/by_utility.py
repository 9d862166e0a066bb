"""How many of the largest components to perturb: as many as a measure of utility allows (D'Acquisto and Naldi)."""

from __future__ import annotations

import os
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from microveil.core.errors import did_you_mean
from microveil.core.table import Matrix
from microveil.decompose import Offer, Selection
from microveil.measures.base import IF_THERE, Measure, MeasureSpec
from microveil.measures.utility import MEASURES
from microveil.opinion.link import Link, predicted_mos, prediction_notes, read_link

USABLE: dict[str, MeasureSpec] = {
    name: gauge
    for name, gauge in MEASURES.items()
    if gauge.better != "neither" and not gauge.takes("sensitive") and gauge.needs not in IF_THERE
}
"""Measures with a better direction; not those that ask which columns are sensitive, for they count change as a gain."""

OPINION = "mos"
"""Not among the measures: nobody is asked while a loop runs, so it takes a link that predicts what people would say."""

TIED = 1e-8
"""Gap between neighbouring eigenvalues, over the largest, below which it is chance which component is which."""

WHOLE_PATH = 1_000_000
"""Cells up to which the utility is measured for every number of components; in larger tables, until it is lost."""

NO_PROTECTION = (
    "removing components does not protect records: what is left of each is exact and at right angles to what was "
    "removed, so that in the decomposed columns its nearest released record is its own (records link to 100 %), and "
    "whoever knows {known} of its values and the columns' standard deviations can compute the others"
)


def _opened(value: Any) -> Any:
    """A link may come as the path of its file; a recipe then holds what the file says."""
    return read_link(os.fspath(value)) if isinstance(value, str | os.PathLike) else value


class WhileUseful(Selection):
    """Take the largest components, one after the other, as long as the utility of what is left is good enough.

    Steps 2 to 6 of the paper (§III). Columns are standardised once, so that one decomposition serves all steps: taking
    out the largest component again and again is the same as taking out the k largest at once. The last component always
    stays. The utility is that of all columns, those that follow from others among them. A distance counts as useful
    below the threshold. If even the first component costs too much, none is taken. With `utility="mos"` the utility is
    what a link predicts that people would say.
    """

    looks_at_rows: ClassVar[bool] = True

    utility: str = Field(
        default="vector_correlation",
        description="the measure of utility, between the original and what is left of it",
        json_schema_extra={"allowed": ", ".join([*USABLE, OPINION])},
    )
    threshold: float = Field(
        default=0.5,
        allow_inf_nan=False,
        description="utility that must be left, in the unit of the measure: at least this much, or at most, if the "
        "measure is a distance; to be given with any other measure than the default",
    )
    literal: bool = Field(
        default=False,
        description="stop as the paper's steps do, when the utility is lost, and not one component before",
    )
    link: Annotated[Link | None, BeforeValidator(_opened)] = Field(
        default=None,
        description="for utility='mos': how opinions follow from a measure, as fitted to those of observers",
        json_schema_extra={"allowed": "a link, or the path of a file that `microveil mos fit` wrote", "path": True},
    )

    @field_validator("utility")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in USABLE and value != OPINION:
            raise ValueError(f"no measure of utility '{value}', {did_you_mean(value, [*USABLE, OPINION])}")
        return value

    @model_validator(mode="after")
    def _threshold_has_a_unit(self) -> Self:
        default = type(self).model_fields["utility"].default
        if self.utility != default and "threshold" not in self.model_fields_set:
            raise ValueError(f"{self.utility} has a unit of its own; give a threshold")
        return self

    @model_validator(mode="after")
    def _opinions_are_predicted_by_a_link(self) -> Self:
        if self.utility != OPINION:
            if self.link is not None:
                raise ValueError(f"a link goes with utility='{OPINION}' only")
            return self
        if self.link is None:
            raise ValueError(f"{OPINION} can only be predicted here, and needs a link: `microveil mos fit` makes one")
        if not self.link.bottom < self.threshold < self.link.top:
            bottom, top = self.link.bottom, self.link.top
            raise ValueError(f"the link never leaves {bottom:.4g} to {top:.4g}; the threshold must be in between")
        return self

    def choose(self, offer: Offer) -> list[int]:
        """The first k components; the utility of every k is noted, and what the owner must know is remarked."""
        most = offer.axes.count - 1
        original = offer.without([])
        small = original.shape[0] * original.shape[1] <= WHOLE_PATH
        lost = most + 1  # the number of components whose removal is the first to cost too much
        decisive = []
        for count in range(1, most + 1):
            if count > lost and not small:
                break
            found = self._measured(original, offer.without(list(range(count))))
            offer.notes[count - 1] = f"{found.id} {found.value:.4g} without the components up to this one"
            if count <= lost:
                decisive.append(found)
            if not self.is_useful(found):
                lost = min(lost, count)
        removed = min(lost if self.literal else lost - 1, most)
        if self.link is not None:
            offer.remarks.extend(prediction_notes(self.link, decisive))
        self._tell(offer, removed)
        return list(range(removed))

    def is_useful(self, found: Measure) -> bool:
        """Is the threshold met? Distances are turned around."""
        return found.utility >= (-self.threshold if found.better == "low" else self.threshold)

    def _measured(self, original: Matrix, left: Matrix) -> Measure:
        gauge = USABLE[self.utility] if self.link is None else predicted_mos(self.link)
        # A fixed seed, for measures that draw: the release is a function of the data alone.
        return gauge(original, left, **gauge.seeded(0))

    def _tell(self, offer: Offer, count: int) -> None:
        if count == 0:
            offer.remarks.append(
                "nothing was removed, because even the largest component costs more utility than the threshold allows: "
                "the release is the original"
            )
            return
        offer.remarks.append(NO_PROTECTION.format(known=("one" if count == 1 else f"{count}")))
        variance = offer.axes.variance
        if variance[count - 1] - variance[count] < TIED * variance[0]:
            offer.remarks.append(
                "the last component removed and the first one left have the same variance: which is which is chance"
            )
