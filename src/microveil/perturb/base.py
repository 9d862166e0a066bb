"""What a perturbation is: a rule that turns columns of scores into others, one by one or all together."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from microveil.core.arrays import Array, Index
from microveil.core.errors import ParameterError
from microveil.core.keys import Codes
from microveil.core.linalg import square_root
from microveil.core.moments import Moments, moments
from microveil.core.parameters import Step
from microveil.core.rng import Stream


def _matrix(dtype: type) -> Any:
    """A validator for a two-dimensional array given from outside."""

    def check(value: Any) -> Any:
        if value is None:
            return None
        array = np.asarray(value)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.dtype.kind not in "iuf":
            raise ValueError("must be a two-dimensional array of numbers, a row per record")
        if dtype is np.int64 and array.dtype.kind == "f":
            raise ValueError("must hold whole numbers")
        if not np.isfinite(array).all():
            raise ValueError("must hold finite numbers only")
        return array.astype(dtype)

    return BeforeValidator(check)


Draws = Annotated[
    Array | None,
    _matrix(np.float64),
    Field(
        repr=False,
        description="normal deviates to use instead of drawn ones, a column per perturbed component",
        json_schema_extra={"allowed": "an n x c array, for tests", "for_tests": True},
    ),
]
Permutations = Annotated[
    NDArray[np.int64] | None,
    _matrix(np.int64),
    Field(
        repr=False,
        description="rows each score is taken from (counted from 0), instead of drawn ones",
        json_schema_extra={"allowed": "an n x c array of whole numbers, for tests", "for_tests": True},
    ),
]


@dataclass(frozen=True, repr=False)
class Column:
    """One column to perturb: its values, its own random stream, its place among the perturbed ones, survey weights.

    `free` is how many dimensions its values have: the rows, less the constant and the public columns.
    """

    values: Array
    stream: Stream
    position: int = 0
    weights: Array | None = None
    notes: list[str] = field(default_factory=list)
    free: int | None = None
    known: tuple[float, float] | None = None
    """Mean and standard deviation, where they have been measured already."""

    rows: slice | None = None
    """The rows that the values are of, where they are a part of the column; by default, all."""

    rows_in_all: int | None = None

    @property
    def count(self) -> int:
        """The rows of the whole column."""
        return self.values.size if self.rows_in_all is None else self.rows_in_all

    def normal(self) -> Array:
        """A standard normal deviate for each value."""
        return self.stream.normal(self.values.size, 0 if self.rows is None else self.rows.start)

    def uniform(self) -> Array:
        """A uniform deviate on [0, 1) for each value."""
        return self.stream.uniform(self.values.size, 0 if self.rows is None else self.rows.start)

    @property
    def dimensions(self) -> int:
        """Dimensions of the values; without public columns, one less than the rows."""
        return self.count - 1 if self.free is None else self.free

    @cached_property
    def mean(self) -> float:
        """The mean, weighted if there are weights."""
        if self.known is not None:
            return self.known[0]
        return float(np.average(self.values, weights=self.weights))

    @cached_property
    def sd(self) -> float:
        """The population standard deviation, weighted if there are weights."""
        if self.known is not None:
            return self.known[1]
        return math.sqrt(float(np.average(np.square(self.values - self.mean), weights=self.weights)))

    def quantiles(self, levels: Array) -> Array:
        """Quantiles: R's type 7, or with weights the values at which the cumulated weight passes the levels."""
        if self.weights is None:
            return np.quantile(self.values, levels) if levels.size < MANY_LEVELS else _at_levels(self.values, levels)
        order = np.argsort(self.values, kind="stable")
        cumulated = np.cumsum(self.weights[order])
        places = np.searchsorted(cumulated, levels * cumulated[-1])
        found: Array = self.values[order[np.minimum(places, order.size - 1)]]
        return found

    def brought_to_own_moments(self, drawn: Array) -> Array:
        """Values drawn elsewhere, shifted and stretched to exactly this column's mean and standard deviation."""
        centred = drawn - np.average(drawn, weights=self.weights)
        spread = math.sqrt(float(np.average(np.square(centred), weights=self.weights)))
        return self.mean + centred * (self.sd / spread)


MANY_LEVELS = 1_000
"""From so many quantiles on the values are sorted: numpy looks for each of them in all values."""


def _at_levels(values: Array, levels: Array) -> Array:
    """Quantiles as `np.quantile` has them, to the last bit."""
    ordered, places = np.sort(values), levels * (values.size - 1)
    below = np.minimum(np.floor(places).astype(np.intp), values.size - 1)
    low, high, part = ordered[below], ordered[np.minimum(below + 1, values.size - 1)], places - below
    found: Array = np.where(part >= 0.5, high - (high - low) * (1 - part), low + (high - low) * part)
    return found


@dataclass(frozen=True, repr=False)
class Labels:
    """Columns of labels to perturb together: records x columns of codes from 0 on, -1 where a cell is missing.

    `levels` has, column by column, what the codes stand for, where the perturbation asks for it.
    """

    names: tuple[str, ...]
    codes: Codes
    stream: Stream
    levels: Sequence[Sequence[Any]] = ()
    ranks: Sequence[Index | None] = ()
    """The place of each level in the order that the type of a column has, if it has one; else levels are in order."""

    notes: list[str] = field(default_factory=list)
    found: dict[str, float] = field(default_factory=dict)
    """Figures for the owner of the release, by name."""

    new_levels: dict[str, Sequence[Any]] = field(default_factory=dict)
    """Columns whose codes stand for something else afterwards, and for what."""


@dataclass(frozen=True, repr=False)
class Columns:
    """Columns to perturb together: a row of `values` each, in the order they were chosen in.

    `public` has the public columns, a row each: without their means, unless the perturbation regresses itself.
    """

    values: Array
    stream: Stream
    public: Array
    weights: Array | None = None
    notes: list[str] = field(default_factory=list)
    labels: Labels | None = None
    """Labels to perturb with them, where the perturbation can."""

    masked: list[Codes] = field(default_factory=list)
    """What becomes of the labels, last."""

    @cached_property
    def moments(self) -> Moments:
        """Means and covariances, weighted if there are weights."""
        return moments(lambda piece: self.values[:, piece], self.values.shape[1], weights=self.weights)


class Perturbation(Step):
    """Base of all perturbations: what they promise (the class variables).

    Score columns have mean zero; a perturbation should keep their mean and variance, exactly or on average. It is a
    `ColumnPerturbation`, which sees one column at a time, or a `JointPerturbation`, which sees all of them.
    """

    replaces: ClassVar[bool] = False
    """True when the new values are drawn from a model: the release is then synthetic, or hybrid if partial."""

    mixes: ClassVar[bool] = False
    """True when new values are part model and part old values: the release is then hybrid."""

    keeps_mean: ClassVar[bool] = False
    """True when the mean of the column comes back exactly (up to round-off)."""

    keeps_variance: ClassVar[bool] = True
    """True when the variance comes back on average, and uncorrelated columns stay so on average."""

    knows_weights: ClassVar[bool] = True
    """False when survey weights play no part, so that weighted moments are not even kept on average."""

    random: ClassVar[bool] = True
    """False when a column always comes out the same, so that the seed plays no part."""

    permutes: ClassVar[bool] = False
    """True when every order of the values is equally likely: what `leakage_distribution` is about."""

    regresses_itself: ClassVar[bool] = False
    """True when public columns are part of the perturbation's own model: the columns then come as they are."""

    keeps_zeros: ClassVar[bool] = False
    """True when values are only multiplied, so that zeros stay zero."""

    by_rows: ClassVar[bool] = False
    """True when a new value depends on its old one, the column's mean and spread, and draws of its own row only."""

    from_other: ClassVar[bool] = False
    """True when it starts from another masker's output, which is then given as `other`."""

    retention_varies: ClassVar[bool] = False
    """True when the correlation between a column and its perturbed self depends on the data."""

    masks_labels: ClassVar[bool] = False
    """True when it can mask labels as well, of columns that are not decomposed."""

    needs_order: ClassVar[bool] = False
    """True when it can mask labels that have an order only."""

    def mask_labels(self, labels: Labels) -> Codes:
        """Labels masked by themselves, in a new array."""
        raise NotImplementedError(f"{type(self).__name__} masks no labels")

    @property
    def keeps_covariance(self) -> bool:
        """True when covariances come back on average whether the columns were uncorrelated or not, if all take part."""
        return False

    def retained(self) -> float | None:
        """The correlation to expect between a column and its perturbed self; None when it depends on the data."""
        return None if self.retention_varies else 0.0

    def check(self, rows: int, columns: int) -> None:
        """Refuse parameters that do not fit a table of this size."""


class ColumnPerturbation(Perturbation):
    """Base of perturbations that treat each column by itself."""

    @abstractmethod
    def apply(self, column: Column) -> Array:
        """The perturbed values, in a new array."""


class CarryingPerturbation(ColumnPerturbation):
    """Base of perturbations that carry values from record to record.

    A value that dominates a component is a record: whoever gets it, gets what that record has in every column that the
    component is made of.
    """

    dominated: Literal["redraw", "keep"] = Field(
        default="redraw",
        description="what happens to a component of which a few records have most of the variance: draw it anew "
        "from a normal distribution, or keep to the perturbation, which carries these records to others",
    )


class JointPerturbation(Perturbation):
    """Base of perturbations that treat all columns together, because records are what they are about."""

    @abstractmethod
    def apply_together(self, columns: Columns) -> Array:
        """The perturbed values, a row for each column, in a new array."""


class LabelPerturbation(Perturbation):
    """Base of perturbations that treat labels, and take numbers for labels if they are named."""

    keeps_variance: ClassVar[bool] = False
    follows_rules: ClassVar[bool] = False
    """True when a column that follows from another one is made of that one anew, and pairs of labels that never meet
    are parted afterwards."""

    needs_levels: ClassVar[bool] = False
    """True when it asks what the codes stand for."""

    @property
    def keeps_frequencies(self) -> bool:
        """True when the frequencies of the labels come back on average."""
        return False

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that the parameters name, if it treats these alone."""
        return None

    @abstractmethod
    def mask_labels(self, labels: Labels) -> Codes:
        """The perturbed codes, in a new array."""


def label_text(level: Any) -> str:
    """A label as text: 1.0 is 1."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


class NormalPerturbation(ColumnPerturbation):
    """Base of perturbations that draw normal deviates, which tests may give instead."""

    draws: Draws = None

    def deviates(self, column: Column) -> Array:
        """Standard normal deviates for a column."""
        if self.draws is None:
            return column.normal()
        return self.draws[column.rows or slice(None), column.position]

    def check(self, rows: int, columns: int) -> None:
        """Given draws must fit."""
        check_draws(self.draws, rows, columns)


class JointNormalPerturbation(JointPerturbation):
    """Base of perturbations of all columns together that draw normal deviates, which tests may give instead."""

    draws: Draws = None

    def deviates(self, columns: Columns) -> Array:
        """Standard normal deviates, a row for each column."""
        if self.draws is not None:
            return self.draws.T
        count, rows = columns.values.shape
        return np.array([columns.stream.child(f"column {j}").normal(rows) for j in range(count)])

    def check(self, rows: int, columns: int) -> None:
        """Given draws must fit."""
        check_given("draws", self.draws, rows, columns)


def with_covariance(deviates: Array, covariance: Array) -> Array:
    """Independent deviates (a row for each column) turned into noise of this covariance.

    By the symmetric root, so that no column comes before another; of the correlations, as columns may differ in unit.
    """
    sd = np.sqrt(np.diagonal(covariance))
    unit = np.where(sd > 0, sd, 1.0)
    return unit[:, None] * (square_root(covariance / np.outer(unit, unit)) @ deviates)


def not_percent(what: str) -> BeforeValidator:
    """Refuses a percentage where a fraction is meant: `what` names it."""

    def check(value: Any) -> Any:
        if isinstance(value, int | float | np.integer) and 1 < value <= 100:
            raise ValueError(f"{value:g} is not {what}; if {value:g} % was meant, give {value / 100:g}")
        return value

    return BeforeValidator(check)


def check_draws(given: Array | None, rows: int, columns: int) -> None:
    """Draws may have more columns than are needed, as there may be fewer components than columns."""
    check_given("draws", given if given is None else given[:, :columns], rows, columns)


def check_given(name: str, given: NDArray[np.generic] | None, rows: int, columns: int) -> None:
    """An array that stands in for random draws (`name`) needs a row per record and a column per component."""
    if given is not None and given.shape != (rows, columns):
        raise ParameterError(
            f"{name}: is {given.shape[0]} x {given.shape[1]}, but {rows} rows and {columns} perturbed components need "
            f"{rows} x {columns}",
            "give one column per perturbed component",
        )
