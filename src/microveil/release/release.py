"""What `protect` gives back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from microveil.core.arrays import Array, Index
from microveil.core.displayed import Displayed, warned
from microveil.core.errors import ParameterError, one_of
from microveil.io.config_files import plain_data
from microveil.private.mechanism import Ledger

if TYPE_CHECKING:
    from microveil.assessment.assessment import Assessment

RECIPE_VERSION = 2

EXACTLY = 1e-8
"""Largest difference, in standard deviations, of a statistic that counts as kept exactly."""
CLOSELY = 0.25
"""Largest difference of a statistic that counts as kept closely."""

AUDIENCES = ("internal", "public")


@dataclass(frozen=True)
class Dose:
    """How much a column was perturbed.

    `asked`: the share of its variance that the method sets out to replace (None where it depends on the data);
    `achieved`: 1 - correlation of released with original values; `cells_changed`: share of cells that differ.
    """

    asked: float | None
    achieved: float
    cells_changed: float


@dataclass(frozen=True)
class Leakage:
    """Records that swapped components bring back by accident (Hsu and Chen 2008, Theorems 1 and 2, corrected).

    `expected`: mean number of original records among the released ones; `risk`: probability that there is one;
    `near_returns`: expected number of pairs of an original and a released record that differ by at most a tenth of a
    standard deviation in every component (None where the components were not looked at that closely). Exact moments
    move a record that came back: then no record is released whole, and `still_near` is how many of the expected ones
    are left within that tenth; without exact moments that is all of them.
    """

    expected: float
    risk: float
    near_returns: float | None
    still_near: float | None = None


@dataclass(frozen=True, repr=False)
class ComponentTable:
    """The components behind a release (Calviño 2017, Fig. 1).

    For column v and component k: `weights[v, k]` is the eigenvector entry, `weight_shares` its absolute value
    over the column's sum of them (what the paper reads off Fig. 1), `variance_shares` the share of the column's
    variance that the component carries (what really changes when it is perturbed).
    """

    columns: tuple[str, ...]
    variance: Array
    weights: Array
    variance_shares: Array
    perturbed: tuple[int, ...]
    notes: Mapping[int, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def untouched_variance(self) -> dict[str, float]:
        """For each column, the share of its variance in components that came through as they were."""
        stays = [k for k in range(self.variance.size) if k not in self.perturbed]
        return dict(zip(self.columns, self.variance_shares[:, stays].sum(axis=1).tolist(), strict=True))

    @property
    def weight_shares(self) -> Array:
        """|weight| over the sum of the column's |weights|."""
        absolute = np.abs(self.weights)
        total = absolute.sum(axis=1, keepdims=True)
        return absolute / np.where(total > 0, total, 1.0)

    @property
    def explained(self) -> Array:
        """Share of the total variance in each component, all columns counting the same.

        The variance of a score does not tell it: factors and independent components have unit variance, and carry what
        their loadings say. What public columns explain is in no component, so that the shares add up to less.
        """
        return self.variance_shares.mean(axis=0) if self.columns else np.zeros(self.variance.size)

    @property
    def altered_variance(self) -> float:
        """Share of a column's variance that sits in the perturbed components, on the average of the columns.

        What public columns explain of a column, and stays, is no part of it.
        """
        shares = self.variance_shares[:, list(self.perturbed)].sum(axis=1)
        return float(np.minimum(shares, 1.0).mean()) if self.columns else 0.0

    def to_rows(self) -> list[dict[str, Any]]:
        """One row per column and component, for a frame or a plot."""
        weight_shares = self.weight_shares
        return [
            {
                "column": column,
                "component": k,
                "perturbed": k in self.perturbed,
                "weight": float(self.weights[v, k]),
                "weight_share": float(weight_shares[v, k]),
                "variance_share": float(self.variance_shares[v, k]),
            }
            for v, column in enumerate(self.columns)
            for k in range(self.variance.size)
        ]


@dataclass(frozen=True)
class Audit:
    """A rule, and in how many places it does not hold, before and after."""

    rule: str
    before: int
    after: int


class ReportWriter(Protocol):
    """What writes the reports of a release, and counts what became of the rules."""

    def __call__(self, release: Release, pages: Mapping[str, tuple[Path, Path | None]], **extras: Any) -> None:
        """Write reports, by audience."""

    def audits(self, release: Release) -> list[Audit] | None:
        """The rules; None where the original was left behind."""

    def of_both(self, data: Any, names: Sequence[str], first: Release, second: Release | None) -> ReportWriter:
        """What writes for two releases in one, of the table `data`; `names` are columns of the `first`."""

    def compared_with(self, original: Any) -> ReportWriter:
        """What compares the release with this table."""


@dataclass(frozen=True, repr=False)
class Release(Displayed):
    """A protected table and the account of how it came about."""

    data: Any
    method: str
    release_type: str
    """masked, hybrid or synthetic."""

    kept: Mapping[str, float]
    kept_on_average: tuple[str, ...]
    dose: Mapping[str, Dose]
    warnings: list[str]
    rules: list[str]
    components: ComponentTable
    rows: int
    leakage: Leakage | None
    settings: Mapping[str, Any]
    seed: int | None
    """None where it was left behind."""

    writer: ReportWriter
    labels: Mapping[str, Dose] = field(default_factory=dict)
    """How much columns of labels were changed; `dose` has those of numbers."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    """What each column of the original was taken for."""

    computed: tuple[str, ...] = ()
    """Columns that follow from protected ones, and were computed anew from these."""

    in_clear: tuple[str, ...] = ()
    """Columns that are released as they are: those that were named, and sizes of units and places in them."""

    unique_in_clear: float = 0.0
    """Share of the rows that no other row is equal to in these columns."""

    found: Mapping[str, float] = field(default_factory=dict)
    """Figures that the method had to find, by name: the alpha of a mixture and its limit, the number of clusters."""

    forget: Callable[[], None] | None = None
    """Where rows of the release are made when they are asked for: lets go of what they are made of."""

    sample: tuple[Any, Any] | None = None
    """Where the release is a file too large to be held: some of its rows, before and after."""

    order: Index | None = None
    """Where the rows were in the original, if they were shuffled. As secret as the seed, from which it follows."""

    places: Mapping[str, Index] = field(default_factory=dict)
    """Where the cells of columns were in the original, if they went to other rows with their gaps. As secret."""

    ledger: Ledger | None = None
    """Of a release under differential privacy: what was asked of the data, and what it cost."""

    for_owner: list[str] = field(default_factory=list)
    """Of such a release: what its owner should know, and what must not be published."""

    def __repr__(self) -> str:
        """A summary without a data value or the seed: this ends up in notebooks and logs."""
        if self.ledger is not None:
            if self.ledger.void:
                return f"<Release by {self.method}, {self.rows} rows. {self.ledger.promise}>"
            promise = f"epsilon {self.ledger.epsilon:g}, delta {self.ledger.delta:g}, by {self.ledger.unit}"
            return f"<Release by {self.method} under differential privacy ({promise}): {self.rows} rows>"
        kept = ", ".join(f"{name} {error:.0e}" for name, error in self.kept.items()) or "nothing exactly"
        unique = f" ({100 * self.unique_in_clear:.1f} % of the rows unique on them)" if self.unique_in_clear else ""
        clear = f"in clear: {', '.join(self.in_clear)}{unique}, " if self.in_clear else ""
        return (
            f"<Release by {self.method}: {self.release_type}, {self.rows} rows, "
            f"{len(self.dose) + len(self.labels)} columns protected, "
            f"{clear}kept {kept}, {len(self.warnings)} warning{'' if len(self.warnings) == 1 else 's'}>"
            f"{warned(self.warnings)}"
        )

    def __getstate__(self) -> dict[str, Any]:
        """What is stored or sent has nothing that is not released: no seed, no order, and none of the original rows."""
        left_behind: dict[str, Any] = {
            "seed": None,
            "order": None,
            "places": {},
            "sample": None,
            "forget": None,
            "for_owner": [],
        }
        return {**self.__dict__, **left_behind}

    def close(self) -> None:
        """Give back what is kept for the release elsewhere, on the disks of Spark's workers; write its data first."""
        if self.forget is not None:
            self.forget()

    @property
    def kind(self) -> str:
        """The former name of `release_type`: columns have kinds, too."""
        warnings.warn("release.kind is now release.release_type", DeprecationWarning, stacklevel=2)
        return self.release_type

    @property
    def kept_exactly(self) -> dict[str, float]:
        """Statistics that came back to round-off, with what is left."""
        return {name: error for name, error in self.kept.items() if error <= EXACTLY}

    @property
    def kept_closely(self) -> dict[str, float]:
        """Statistics that nearly came back, with the largest difference."""
        return {name: error for name, error in self.kept.items() if EXACTLY < error <= CLOSELY}

    @property
    def not_kept(self) -> dict[str, float]:
        """Statistics that were to come back and are further off, with the largest difference."""
        return {name: error for name, error in self.kept.items() if not error <= CLOSELY}

    @property
    def audit(self) -> list[Audit] | None:
        """In how many places each rule does not hold, before and after; None where the original was left behind."""
        return self.writer.audits(self)

    def recipe(self, include_seed: bool = False) -> dict[str, Any]:
        """What replays this release on the same data; only with its seed does it give the same bytes.

        `microveil.run` replays it, and `microveil.release.recipe.write` puts it into a file.
        """
        recipe = {"recipe": RECIPE_VERSION, **plain_data(self.settings)}
        if include_seed and self.ledger is not None:
            raise ParameterError("a release under differential privacy has no seed", "take the recipe without it")
        if include_seed and self.seed is None:
            raise ParameterError("the release was stored without its seed", "take the recipe before it is stored")
        return {**recipe, "seed": self.seed} if include_seed else recipe

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the released table to a file: .csv, .parquet, .xlsx, .sav, ... by its extension, whole or not at all.

        Args:
            path: where it goes; a file that is there already is refused, but for `overwrite`.
            overwrite: whether it may take the place of another file.
        """
        from microveil.io.files.formats import FileFormat
        from microveil.io.frames.dataframes import as_polars
        from microveil.io.tables import write_table

        if isinstance(self.data, str | PathLike):
            raise ParameterError("the release is in a file already", "it is where release.data says")
        if Path(path).exists() and not overwrite:
            raise ParameterError("path: the file is there already", "name another, or say overwrite=True")
        write_table(as_polars(self.data), Path(path), FileFormat())

    def to_csv(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the released table as CSV: `write`, for a name that ends so."""
        if Path(path).suffix.lower() not in (".csv", ".tsv", ".txt"):
            raise ParameterError("path: is not the name of a CSV file", "end it with .csv, or use release.write")
        self.write(path, overwrite=overwrite)

    def report(
        self,
        path: str | PathLike[str],
        audience: str = "internal",
        assessment: Assessment | None = None,
        study: Any = None,
    ) -> None:
        """Write the account as one self-contained HTML file, with a JSON twin of the same name next to it.

        The page goes to `path`. For the `audience` "internal" it has everything, for "public" no secret. Figures of
        risk and utility come from an `assessment` of the release, the map of alternatives from a `study`; the page
        names what is not given.
        """
        if audience not in AUDIENCES:
            raise ParameterError(f"audience: '{audience}' is unknown", f"it is {one_of(AUDIENCES)}")
        self.writer(self, {audience: (Path(path), None)}, assessment=assessment, study=study)
