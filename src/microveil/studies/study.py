"""What a comparison gives back: figures of every method over repeated releases, and ways to choose among them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.displayed import Displayed
from microveil.core.errors import ParameterError, did_you_mean
from microveil.measures.base import MeasureInfo
from microveil.report import study_map

RESAMPLES = 2_000
"""Resamples behind the interval of a mean."""

TAIL = 2.5
"""Per cent that an interval leaves out on either side."""

WORST = "worst_attack"
"""What the best of all attacks gains over chance, release by release: an intruder picks it."""

LOSS = "pil"
"""What is least in the best method, where nothing else is asked for."""

KEPT, UNPROTECTED = "sensitive_correlation", 0.9
"""Where it is measured, a method that leaves more of a sensitive column than this, on the average of its releases, does
not protect what it was asked to: it is in no ranking, however little it loses."""

FEWEST = 5
"""Releases from which on it is said where releases lie; that one or two agree says nothing."""


@dataclass(frozen=True)
class Summary:
    """One measure of one method over its releases.

    `low` and `high` hold 95 % of the releases (percentiles): where one more release will lie. `mean_low` and
    `mean_high` are a bootstrap interval of the mean: where the mean of many will. Of fewer than five releases there is
    no interval (None), unless the method draws nothing: then all releases are this one.
    """

    label: str
    measure: str
    mean: float
    low: float | None
    high: float | None
    mean_low: float | None
    mean_high: float | None
    repeats: int
    chance: float | None
    better: str


@dataclass(frozen=True, repr=False)
class Study(Displayed):
    """Methods by their label, with what was measured on each release; `failed` says why a method gave none.

    A figure that is infinite, or that a release does not allow, is missing: it has no mean, keeps no limit and is on no
    frontier. `requested` has the measures that were asked for, `fixed` the methods that draw nothing.
    """

    methods: Mapping[str, tuple[str, Mapping[str, Any]]]
    figures: Mapping[str, Sequence[Mapping[str, float]]]
    chances: Mapping[str, Mapping[str, float]]
    entries: Mapping[str, MeasureInfo]
    failed: Mapping[str, str] = field(default_factory=dict)
    make_frame: Callable[[Mapping[str, list[Any]]], Any] = dict
    requested: Sequence[str] = ()
    fixed: Collection[str] = ()

    def __repr__(self) -> str:
        releases = sum(len(found) for found in self.figures.values())
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<Study of {len(self.methods)} methods, {releases} releases, {len(self.measures)} measures{failed}>"

    @property
    def measures(self) -> list[str]:
        """The measures, in the order they were asked for, and the worst attack of all."""
        return list(dict.fromkeys(name for releases in self.figures.values() for one in releases for name in one))

    def values(self, label: str, measure: str) -> Array:
        """A measure of every release of a method."""
        self._check(label, measure)
        return np.array([release[measure] for release in self.figures[label] if measure in release])

    def summary(self, label: str, measure: str) -> Summary:
        """Mean and intervals of a measure that every release of the method has."""
        values = self.values(label, measure)
        if not self.has(label, measure):
            lacking = f"{len(self.figures[label]) - values.size} of {len(self.figures[label])} releases"
            raise ParameterError(
                f"measure: '{measure}' of '{label}' is infinite or missing in {lacking}", "choose another measure"
            )
        low, high, mean_low, mean_high = self._intervals(label, values)
        chance, better = self.chances.get(label, {}).get(measure), self.better(measure)
        return Summary(
            label, measure, float(values.mean()), low, high, mean_low, mean_high, values.size, chance, better
        )

    def has(self, label: str, measure: str) -> bool:
        """Does every release of the method have this figure?"""
        return all(measure in release for release in self.figures[label])

    def summaries(self) -> list[Summary]:
        """Every measure of every method that has it."""
        pairs = [(label, measure) for label in self.figures for measure in self.measures]
        return [self.summary(*pair) for pair in pairs if self.has(*pair)]

    @property
    def missing(self) -> dict[str, list[str]]:
        """By method, the measures that are infinite, or could not be taken, in some of its releases."""
        names = list(dict.fromkeys([*self.requested, *self.measures]))
        found = {label: [name for name in names if not self.has(label, name)] for label in self.figures}
        return {label: names for label, names in found.items() if names}

    @property
    def unprotected(self) -> dict[str, float]:
        """The methods that leave a sensitive column nearly as it was, with its mean correlation with the original."""
        measured = [label for label in self.figures if KEPT in self.measures and self.has(label, KEPT)]
        found = {label: self.summary(label, KEPT).mean for label in measured}
        return {label: mean for label, mean in found.items() if mean > UNPROTECTED}

    def to_frame(self) -> Any:
        """One row per method and measure, as a frame of the kind that was studied (polars for arrays)."""
        rows = self.summaries()
        return self.make_frame({name: [getattr(row, name) for row in rows] for name in Summary.__dataclass_fields__})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "methods": {
                label: {"method": name, "parameters": without_tables(given)}
                for label, (name, given) in self.methods.items()
            },
            "figures": [vars(row) for row in self.summaries()],
            "missing": self.missing,
            "unprotected": self.unprotected,
            "failed": dict(self.failed),
        }

    @property
    def has_map(self) -> bool:
        """Were the risk and the loss measured that a frontier is drawn of, where nothing else is asked for?"""
        return {WORST, LOSS} <= set(self.measures)

    def frontier(self, risk: str = WORST, loss: str = LOSS) -> list[str]:
        """The methods that no other beats in both risk and loss (the Pareto set), from the safest on.

        Those that do not protect what they were asked to are left out (`unprotected`).
        """
        self._check_measures(risk, loss)
        points = {
            label: (self._cost(label, risk), self._cost(label, loss))
            for label in self._protecting
            if self.has(label, risk) and self.has(label, loss)
        }
        kept = [label for label, mine in points.items() if not any(_dominates(one, mine) for one in points.values())]
        return sorted(kept, key=lambda label: points[label])

    def plot(  # there is one picture, which can be a file
        self, path: str | PathLike[str] | None = None, *, risk: str | None = None, loss: str | None = None
    ) -> Any:
        """The map of risk and loss with its frontier, as an altair chart, which notebooks show.

        Args:
            path: a file to write it to, too: .svg, or .html with nothing to be loaded from anywhere.
            risk: the measure along; by default the worst attack, or else a measure of risk that was taken.
            loss: the measure upwards; by default `pil`, or else a measure of utility that was taken.
        """
        return study_map(self, None if path is None else Path(path), risk, loss)

    def best(self, limit: Mapping[str, float], loss: str = LOSS, *, use: str = "high") -> str | None:
        """The method with the least loss among those that keep every limit; None if none does; else as `ranked`."""
        return next(iter(self.ranked(limit, loss, use=use)), None)

    def ranked(self, limit: Mapping[str, float], loss: str = LOSS, *, use: str = "high") -> list[str]:
        """The methods that protect what they were asked to (see `unprotected`) and keep every limit, least loss first.

        A limit is held against the upper end of where releases lie (`use="high"`), because it is one release that will
        be published; where they are too few for that, against the worst of them. "mean" holds it against the mean.
        """
        if use not in ("high", "mean"):
            raise ParameterError(f"use: '{use}' is unknown", "it is 'high' or 'mean'")
        self._check_measures(*limit, loss)
        met = [
            label
            for label in self._protecting
            if self.has(label, loss) and all(self.keeps(label, measure, most, use) for measure, most in limit.items())
        ]
        return sorted(met, key=lambda label: self._cost(label, loss))

    @property
    def _protecting(self) -> list[str]:
        left_out = self.unprotected
        return [label for label in self.figures if label not in left_out]

    def keeps(self, label: str, measure: str, most: float, use: str = "high") -> bool:
        """Does a method keep a limit, as `ranked` holds it?"""
        if not self.has(label, measure):
            return False
        found = self.worst(label, measure) if use == "high" else self.summary(label, measure).mean
        return found >= most if self.better(measure) == "high" else found <= most

    def worst(self, label: str, measure: str) -> float:
        """The bad end of where releases lie; where they are too few to say, the worst of them."""
        found, values = self.summary(label, measure), self.values(label, measure)
        if found.better == "high":
            return float(values.min()) if found.low is None else found.low
        return float(values.max()) if found.high is None else found.high

    def better(self, measure: str) -> str:
        """Which side of a measure is better: "low" or "high"."""
        entry = self.entries.get(measure)
        return "low" if entry is None else entry.better

    def _intervals(self, label: str, values: Array) -> list[float] | list[None]:
        """Low and high: where 95 % of the releases lie, and where the mean of many does; four None, if too few."""
        if values.size < FEWEST and label not in self.fixed:
            return [None] * 4
        # Always the same resamples: an interval is no place for luck.
        draws = np.random.default_rng(0).integers(values.size, size=(RESAMPLES, values.size))
        means = values[draws].mean(axis=1)
        return [float(end) for of in (values, means) for end in np.percentile(of, [TAIL, 100 - TAIL])]

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
        self._check_measures(measure)

    def _check_measures(self, *names: str) -> None:
        for name in names:
            if name not in self.measures and name not in self.requested:
                raise ParameterError(f"measure: '{name}' was not measured", did_you_mean(name, self.measures))


def is_table(value: Any) -> bool:
    """Is this setting a table, whose cells are to be shown nowhere?"""
    return getattr(value, "ndim", 0) == 2 or hasattr(value, "columns")


def without_tables(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as plain data."""
    return {name: "a table" if is_table(value) else value for name, value in settings.items()}


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Is it no worse in both, and better in one?"""
    return one[0] <= other[0] and one[1] <= other[1] and one != other
