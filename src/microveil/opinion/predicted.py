"""Predicted mean opinion scores, as a measure that is made from a link; without one there is no such measure."""

from __future__ import annotations

from collections.abc import Sequence

from microveil.core.table import Matrix
from microveil.measures.base import Estimate, Measure, MeasureSpec, gauge
from microveil.measures.utility.image import psnr, ssim
from microveil.opinion.link import Link

MEASURED: dict[str, MeasureSpec] = {"ssim": ssim, "psnr": psnr}


def predicted_mos(link: Link) -> MeasureSpec:
    """The measure `mos_predicted`, by this link."""

    @gauge(
        f"mean opinion score (0 to 100) predicted from {link.predictor}, not measured: nobody was asked",
        better="high",
        range=(0, 100),
        cost="fast",
        paired=True,
    )
    def mos_predicted(original: Matrix, released: Matrix) -> Estimate:
        """What observers would say of the release as a picture, by a link from a measure of pictures.

        The interval is where the score of one more stimulus would lie, by the residuals of the link.
        """
        value = MEASURED[link.predictor](original, released).value
        low, high = link.interval(value)
        notes = [f"predicted by a link fitted to {link.source}", *link.caveats]
        if not link.covers(value):
            notes.append(f"{link.predictor} is outside of the range that the link was fitted on")
        return Estimate(link.predict(value), low, high, note="; ".join(notes), parts={link.predictor: value})

    return mos_predicted


def prediction_notes(link: Link, decisive: Sequence[Measure]) -> list[str]:
    """What the owner of a release must know that was decided by predictions, those in `decisive`."""
    notes = [
        f"the mean opinion scores are predicted from {link.predictor}, by a link fitted to {link.source} (R² "
        f"{link.r2:.2f}, residual standard deviation {link.residual_sd:.1f}); they are not measured: nobody has rated "
        "this release",
        *link.caveats,
    ]
    outside = [found for found in decisive if not link.covers(found.parts[link.predictor])]
    if outside:
        notes.append(
            f"{len(outside)} of the {len(decisive)} predictions that decided how many components are removed have a "
            f"{link.predictor} outside of the range that the link was fitted on: there it is a guess"
        )
    return notes
