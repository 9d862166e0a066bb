"""The link: a rising curve from a measure to the mean opinion score, to predict scores where nobody looks.

    MOS(x) = bottom + (top - bottom) / (1 + exp(-slope (x - middle))),  0 ≤ bottom < top ≤ 100, slope > 0

It is fitted to the stimuli of a session, and holds for stimuli like these: what it says is predicted, never measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from pydantic import Field, model_validator

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError, one_of
from microveil.core.table import Matrix
from microveil.core.threads import single_threaded_blas
from microveil.io.config_files import Strict, checked, read_strictly
from microveil.measures.base import Estimate, Measure, MeasureSpec, gauge
from microveil.measures.utility.image import psnr, ssim
from microveil.opinion.ratings import SCALE, Kind
from microveil.opinion.score import CONFIDENCE, Opinion, OpinionScores
from microveil.opinion.session import panel

HINT = "`microveil mos fit` writes one"

FEWEST, ENOUGH = 5, 10
"""Four parameters need five stimuli to leave a residual; below ten the curve follows single stimuli."""

FAINT = 0.5
"""Share of the variance below which a link explains little."""

Predictor = Literal["ssim", "psnr"]
PREDICTORS: tuple[str, ...] = get_args(Predictor)

LOW, HIGH = np.array([0.0, 0.0, -1.0, 0.1]), np.array([SCALE, 1.0, 2.0, 100.0])
"""Bounds of bottom, of the share of what is above it, and of middle and slope where the stimuli go from 0 to 1."""

AT_BOUND = 1e-3
"""A parameter so near to a bound, in widths of its range, was stopped by it."""

MEASURED: dict[str, MeasureSpec] = {"ssim": ssim, "psnr": psnr}


class Link(Strict):
    """A fitted link with its pedigree: on which range, stimuli and observers it rests, and how well it fits."""

    version: Literal[1] = 1
    predictor: Predictor
    bottom: float = Field(ge=0, le=SCALE)
    top: float = Field(ge=0, le=SCALE)
    middle: float = Field(allow_inf_nan=False)
    slope: float = Field(gt=0, allow_inf_nan=False)
    lowest: float = Field(allow_inf_nan=False)
    highest: float = Field(allow_inf_nan=False)
    r2: float = Field(le=1, allow_inf_nan=False)
    residual_sd: float = Field(ge=0, allow_inf_nan=False)
    stimuli: int = Field(ge=FEWEST)
    observers: int = Field(ge=2)
    scores: Kind
    simulated: bool
    at_bound: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.bottom >= self.top:
            raise ValueError("bottom must be below top")
        if self.lowest >= self.highest:
            raise ValueError("lowest must be below highest")
        return self

    def predict(self, value: float) -> float:
        """The mean opinion score at a value of the predictor."""
        theta = np.array([self.bottom, (self.top - self.bottom) / (SCALE - self.bottom), self.middle, self.slope])
        return float(_curve(theta, np.array([value]))[0])

    def interval(self, value: float) -> tuple[float, float]:
        """Where the score of another stimulus like those it was fitted to would lie, 19 times of 20, within the scale.

        By the residuals alone: that the curve itself is not known exactly is not in it.
        """
        from scipy.stats import t

        reach = float(t.ppf((1 + CONFIDENCE) / 2, self.stimuli - 4)) * self.residual_sd
        found = self.predict(value)
        return max(found - reach, 0.0), min(found + reach, SCALE)

    def covers(self, value: float) -> bool:
        """Is it within the range of the stimuli that the link was fitted to?"""
        return self.lowest <= value <= self.highest

    @property
    def source(self) -> str:
        """What the predictions rest on."""
        return f"{self.stimuli} stimuli rated by {self.observers} {panel(self.simulated)}"

    @property
    def caveats(self) -> list[str]:
        """What speaks against relying on it."""
        found = []
        if self.simulated:
            found.append("the observers were simulated: it says nothing about people")
        if self.stimuli < ENOUGH:
            found.append(f"{self.stimuli} stimuli are few for four parameters")
        if self.at_bound:
            found.append(f"not identified, as stopped by a bound: {', '.join(self.at_bound)}")
        if self.r2 < FAINT:
            found.append(f"{self.predictor} explains only {100 * self.r2:.0f} % of the variance of the scores")
        return found

    def to_dict(self) -> dict[str, Any]:
        """What the file holds."""
        return {"link": {**self.model_dump(), "at_bound": list(self.at_bound)}}


class _LinkFile(Strict):
    link: Link


def read_link(source: Mapping[str, Any] | str | Path) -> Link:
    """A link from its file, or from a dict of the same shape."""
    return read_strictly(_LinkFile, "link", source, HINT).link


def fit_link(scores: OpinionScores, predictor: str = "ssim") -> Link:
    """Least squares within bounds, the best of many starts; hidden references are a control, and not fitted."""
    if predictor not in PREDICTORS:
        raise ParameterError(f"predictor: '{predictor}' is unknown", f"it is {one_of(PREDICTORS)}")
    x, y = _points(scores.opinions, predictor)
    lowest, width = float(x.min()), float(np.ptp(x))
    theta, left = _fitted((x - lowest) / width, y)
    if np.ptp(_curve(theta, np.array([0.0, 1.0]))) < 1:
        raise DataError(f"the opinions do not rise with {predictor}", "no link can be fitted; try the other predictor")
    bottom, share, middle, slope = theta.tolist()
    near = np.minimum(theta - LOW, HIGH - theta) <= AT_BOUND * (HIGH - LOW)
    content = {
        "predictor": predictor,
        "bottom": bottom,
        "top": min(bottom + share * (SCALE - bottom), SCALE),
        "middle": lowest + middle * width,
        "slope": slope / width,
        "lowest": lowest,
        "highest": float(x.max()),
        "r2": 1 - left / float(np.square(y - y.mean()).sum()),
        "residual_sd": math.sqrt(left / (y.size - 4)),
        "stimuli": y.size,
        "observers": scores.observers,
        "scores": scores.kind,
        "simulated": scores.simulated,
        "at_bound": [name for name, hit in zip(("bottom", "top", "middle", "slope"), near, strict=True) if hit],
    }
    return checked(Link, "link", content, "check the scores")


def _fitted(x: Array, y: Array) -> tuple[Array, float]:
    """The best curve for points with x from 0 to 1, and the sum of squares that it leaves."""
    from scipy.optimize import least_squares

    def misfit(theta: Array) -> Array:
        return _curve(theta, x) - y

    def slopes(theta: Array) -> Array:
        bottom, share, middle, slope = theta
        risen = _curve(np.array([0.0, 1.0, middle, slope]), x) / SCALE
        bend = share * (SCALE - bottom) * risen * (1 - risen)
        return np.column_stack([1 - share * risen, (SCALE - bottom) * risen, -slope * bend, (x - middle) * bend])

    inside = (HIGH - LOW) * 1e-6
    ends = product((0.0, float(y.min())), (SCALE, float(y.max())), (0.2, 0.5, 0.8), (2.0, 8.0, 30.0))
    starts = (
        np.clip([floor, (top - floor) / max(SCALE - floor, 1.0), middle, slope], LOW + inside, HIGH - inside)
        for floor, top, middle, slope in ends
    )
    with single_threaded_blas():  # figures must not depend on the number of threads
        fits = [least_squares(misfit, start, slopes, bounds=(LOW, HIGH), x_scale="jac") for start in starts]
    best = min(fits, key=lambda fit: float(fit.cost))
    return best.x, 2 * float(best.cost)


def _curve(theta: Array, x: Array) -> Array:
    """The logistic curve; the exponent is kept where a double can hold its power."""
    bottom, share, middle, slope = theta
    curve: Array = bottom + share * (SCALE - bottom) / (1 + np.exp(np.clip(-slope * (x - middle), -700, 700)))
    return curve


def _points(opinions: tuple[Opinion, ...], predictor: str) -> tuple[Array, Array]:
    """Predictor and score of each stimulus that was rated."""
    pairs = [(getattr(opinion.stimulus, predictor), opinion.mos) for opinion in opinions if opinion.mos is not None]
    if len(pairs) < FEWEST:
        raise DataError(f"{len(pairs)} stimuli are too few for a link", f"it takes {FEWEST}, and better {ENOUGH}")
    x, y = np.array(pairs, dtype=float).T
    if not np.isfinite(x).all():
        raise DataError(f"a stimulus has an infinite {predictor}, so nothing was changed", "mark it as hidden")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        what = predictor if np.ptp(x) == 0 else "mean opinion score"
        raise DataError(f"every stimulus has the same {what}", "a link needs stimuli that differ")
    return x, y


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
