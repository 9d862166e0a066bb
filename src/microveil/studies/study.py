"""What a comparison gives back: figures of every method over repeated releases, and ways to choose among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from microveil import api
from microveil.core.assessment import Entry
from microveil.core.errors import ParameterError, did_you_mean

RESAMPLES = 2_000
"""Resamples behind the interval of a mean."""

TAIL = 2.5
"""Per cent that an interval leaves out on either side."""

WORST = "worst_attack"
"""What the best of all attacks gains over chance, release by release: an intruder picks it."""


@dataclass(frozen=True)
class Summary:
    """One measure of one method over its releases.

    `low` and `high` hold 95 % of the releases (percentiles): where one more release will lie. `mean_low` and
    `mean_high` are a bootstrap interval of the mean: where the mean of many will.
    """

    label: str
    measure: str
    mean: float
    low: float
    high: float
    mean_low: float
    mean_high: float
    repeats: int
    chance: float | None
    better: str


@dataclass(frozen=True, repr=False)
class Study:
    """Methods by their label, with what was measured on each release; `failed` says why a method gave none."""

    methods: Mapping[str, tuple[str, Mapping[str, Any]]]
    figures: Mapping[str, Sequence[Mapping[str, float]]]
    chances: Mapping[str, Mapping[str, float]]
    entries: Mapping[str, Entry]
    failed: Mapping[str, str] = field(default_factory=dict)
    make_frame: Callable[[Mapping[str, list[Any]]], Any] = dict

    def __repr__(self) -> str:
        releases = sum(len(found) for found in self.figures.values())
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<Study of {len(self.methods)} methods, {releases} releases, {len(self.measures)} measures{failed}>"

    @property
    def measures(self) -> list[str]:
        """The measures, in the order they were asked for, and the worst attack of all."""
        found: dict[str, None] = {}
        for releases in self.figures.values():
            for release in releases:
                found |= dict.fromkeys(release)
        return list(found)

    def values(self, label: str, measure: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A measure of every release of a method."""
        self._check(label, measure)
        return np.array([release[measure] for release in self.figures[label] if measure in release])

    def summary(self, label: str, measure: str) -> Summary:
        """Mean and intervals of a measure."""
        values = self.values(label, measure)
        low, high = np.percentile(values, [TAIL, 100 - TAIL])
        # Always the same resamples: an interval is no place for luck.
        draws = np.random.default_rng(0).integers(values.size, size=(RESAMPLES, values.size))
        mean_low, mean_high = np.percentile(values[draws].mean(axis=1), [TAIL, 100 - TAIL])
        entry = self.entries.get(measure)
        return Summary(
            label=label,
            measure=measure,
            mean=float(values.mean()),
            low=float(low),
            high=float(high),
            mean_low=float(mean_low),
            mean_high=float(mean_high),
            repeats=values.size,
            chance=self.chances.get(label, {}).get(measure),
            better="low" if entry is None else entry.better,
        )

    def summaries(self) -> list[Summary]:
        """Every measure of every method."""
        return [
            self.summary(label, measure)
            for label, releases in self.figures.items()
            for measure in self.measures
            if any(measure in release for release in releases)
        ]

    def to_frame(self) -> Any:
        """One row per method and measure, as a frame of the kind that was studied (polars for arrays)."""
        rows = self.summaries()
        columns = ("label", "measure", "mean", "low", "high", "mean_low", "mean_high", "repeats", "chance", "better")
        return self.make_frame({name: [getattr(row, name) for row in rows] for name in columns})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "methods": {
                label: {"method": name, "parameters": dict(given)} for label, (name, given) in self.methods.items()
            },
            "figures": [{**vars(row)} for row in self.summaries()],
            "failed": dict(self.failed),
        }

    def frontier(self, risk: str = WORST, loss: str = "pil") -> list[str]:
        """The methods that no other beats in both risk and loss (the Pareto set), from the safest on."""
        points = {label: (self._cost(label, risk), self._cost(label, loss)) for label in self.figures}
        kept = [
            label
            for label, mine in points.items()
            if not any(_dominates(other, mine) for name, other in points.items() if name != label)
        ]
        return sorted(kept, key=lambda label: points[label])

    def plot(self, path: str | PathLike[str] | None = None, *, risk: str | None = None, loss: str | None = None) -> Any:
        """The map of risk and loss with its frontier, as an altair chart, which notebooks show.

        Args:
            path: a file to write it to, too: .svg, or .html with nothing to be loaded from anywhere.
            risk: the measure along; by default the worst attack, or else a measure of risk that was taken.
            loss: the measure upwards; by default `pil`, or else a measure of utility that was taken.
        """
        return api.study_map(self, None if path is None else Path(path), risk, loss)

    def best(
        self,
        limit: Mapping[str, float],
        loss: str = "pil",
        *,
        use: str = "high",
        among: Sequence[str] | None = None,
    ) -> str | None:
        """The method with the least loss among those that keep every limit; None if none does.

        A limit is held against the upper end of where releases lie (`use="high"`), because it is one release that will
        be published; "mean" holds it against the mean.
        """
        if use not in ("high", "mean"):
            raise ParameterError(f"use: '{use}' is unknown", "it is 'high' or 'mean'")
        met = [
            label
            for label in (self.figures if among is None else among)
            if all(self._within(label, measure, most, use) for measure, most in limit.items())
        ]
        return min(met, key=lambda label: self._cost(label, loss), default=None)

    def _within(self, label: str, measure: str, most: float, use: str) -> bool:
        found = self.summary(label, measure)
        if found.better == "high":
            return (found.low if use == "high" else found.mean) >= most
        return (found.high if use == "high" else found.mean) <= most

    def _cost(self, label: str, measure: str) -> float:
        """The mean, with the sign that makes less of it better."""
        found = self.summary(label, measure)
        return -found.mean if found.better == "high" else found.mean

    def _check(self, label: str, measure: str) -> None:
        if label not in self.figures:
            reason = self.failed.get(label)
            raise ParameterError(
                f"label: '{label}' gave no release ({reason})" if reason else f"label: there is no '{label}'",
                did_you_mean(label, self.figures),
            )
        if measure not in self.measures:
            raise ParameterError(f"measure: '{measure}' was not measured", did_you_mean(measure, self.measures))


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Is it no worse in both, and better in one?"""
    return one[0] <= other[0] and one[1] <= other[1] and one != other
