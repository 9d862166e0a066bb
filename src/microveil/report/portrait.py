"""The numbers behind the pictures: two tables summed up so that no single record shows.

Inside the house, histograms have open ends and no bar for a handful of records, and quantiles stop at the first and the
last hundredth. For everybody, a column is shown by the tenths of the original alone: how many released values lie in
each. Such a picture has no unit, no value and no end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.table import Matrix
from microveil.measures.labels import LabelPair
from microveil.measures.utility.label_tables import group_means_of, two_way_tables_of
from microveil.measures.utility.moments import ks_distance

ROWS = 100_000
"""Rows the pictures are made of; a picture of more looks the same."""

FEWEST = 5
"""Records a bar stands for at least."""

ENOUGH = 30
"""Values a column needs for a picture."""

TENTHS = 10
BARS = 24
LONG_TAIL = 5
"""Times the median from which on a column is shown on an axis of ratios."""

MOST_COLUMNS = 12
"""Columns that are shown one by one."""

MOST_GROUPINGS = 6
"""Columns of numbers by columns of labels whose means are shown."""

MOST_PAIRED = 30
"""Columns of a picture of pairs."""

MOST_BARS = 60
"""Columns of a picture with a bar for each, which has to fit on a page."""

Row = dict[str, Any]


def thinned(table: Matrix) -> Matrix:
    """Rows from all over the table, at even distances."""
    step = max(1, -(-table.shape[0] // ROWS))
    return table if step == 1 else Matrix([column[::step] for column in table.columns])


def losses(before: Matrix, after: Matrix, names: Sequence[str]) -> list[Row]:
    """What each column lost: of its distribution, its mean and its spread; None where it is constant."""
    return [_loss(*both) for both in _present(before, after, names)]


def _loss(name: str, old: Array, new: Array) -> Row:
    sd = float(old.std()) if old.size else 0.0
    if old.size < ENOUGH or new.size < ENOUGH or sd <= 0:
        return {"column": name, "distribution": None, "mean": None, "spread": None}
    return {
        "column": name,
        "distribution": _short(ks_distance(np.sort(old), np.sort(new))),
        "mean": _short(abs(float(new.mean() - old.mean())) / sd),
        "spread": _short(abs(float(new.std()) / sd - 1)),
    }


def tenths(before: Matrix, after: Matrix, names: Sequence[str]) -> list[Row]:
    """Shares of original and released values in each tenth of the original, without a value of either."""
    rows: list[Row] = []
    for name, old, new in _present(before, after, names):
        edges = _tenth_edges(old)
        counts = [np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1) for values in (old, new)]
        for part, (first, second) in enumerate(zip(*counts, strict=True) if edges.size else ()):
            shares = {"original": first / old.size, "released": second / new.size}
            rows += [{"column": name, "part": part + 1, "file": file, "share": _short(s)} for file, s in shares.items()]
    return rows


def _tenth_edges(values: Array) -> Array:
    """Where the tenths end; values that occur often make fewer of them, and none has few records."""
    if values.size < ENOUGH:
        return np.empty(0)
    parts = min(TENTHS, values.size // FEWEST)
    edges = np.unique(np.quantile(values, np.arange(1, parts) / parts, method="lower"))
    counts = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1)
    while edges.size and counts.min() < FEWEST:
        edges = np.delete(edges, min(int(counts.argmin()), edges.size - 1))
        counts = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1)
    return edges


def histograms(before: Matrix, after: Matrix, names: Sequence[str]) -> list[Row]:
    """Outlines of both files from the 2nd to the 98th hundredth of the original; the rest is in the end steps."""
    rows: list[Row] = []
    for name, old, new in _present(before, after, names):
        if old.size < ENOUGH or new.size < ENOUGH:
            continue
        low, high = np.quantile(old, [0.02, 0.98])
        if not high > low:
            continue
        bend = _bend(old, low, high)
        first, last = _bent(np.array([low, high]), bend).tolist()
        ends = np.linspace(first, last, min(BARS, max(6, int(np.sqrt(old.size)))) + 1)
        edges = ends if bend is None else np.sinh(ends) * bend
        for file, values in (("original", old), ("released", new)):
            counts, _ = np.histogram(_bent(np.clip(values, low, high), bend), ends)
            # A line needs an end for its last step; what a handful of records make is drawn as nothing.
            shares = [_short(n / values.size) if n >= FEWEST else 0.0 for n in counts]
            rows += [
                {"column": name, "file": file, "at": _short(at), "share": share, "bend": bend}
                for at, share in zip(edges, [*shares, shares[-1]], strict=True)
            ]
    return rows


def _bend(values: Array, low: float, high: float) -> float | None:
    """Where the axis of a skewed column goes over from even steps to even ratios (one digit); None for others."""
    middle = float(np.median(np.abs(values[values != 0])))
    return float(f"{middle / 2:.1g}") if max(abs(low), abs(high)) > LONG_TAIL * middle > 0 else None


def _bent(values: Array, bend: float | None) -> Array:
    return values if bend is None else np.arcsinh(values / bend)


def quantiles(before: Matrix, after: Matrix, names: Sequence[str]) -> list[Row]:
    """The hundredths of both files against each other, in standard deviations of the original."""
    rows: list[Row] = []
    hundredths = np.arange(1, 100) / 100
    for name, old, new in _present(before, after, names):
        sd = float(old.std()) if old.size >= ENOUGH and new.size >= ENOUGH else 0.0
        if sd > 0:
            mine, theirs = ((np.quantile(values, hundredths) - old.mean()) / sd for values in (old, new))
            rows += [
                {"column": name, "original": _short(x), "released": _short(y)}
                for x, y in zip(mine, theirs, strict=True)
            ]
    return rows


def correlation_changes(before: Matrix, after: Matrix, names: Sequence[str]) -> list[Row]:
    """Correlation in the release less that in the original, pair by pair, over the rows that have both."""
    rows: list[Row] = []
    kept = min(len(names), MOST_PAIRED)
    for i in range(kept):
        for j in range(i):
            old, new = (correlation(table.columns[i], table.columns[j]) for table in (before, after))
            if old is not None and new is not None:
                change = round(new - old, 4) + 0.0
                rows += [{"one": names[a], "other": names[b], "change": change} for a, b in ((i, j), (j, i))]
    return rows


def two_way_change(labels: LabelPair) -> list[Row]:
    """The table of two columns of labels that changed most: for each cell, the share after less that before.

    Cells of a handful of records are left out, before or after; so are missing cells, and labels of none.
    """
    chosen = labels.of_labels
    found = max(two_way_tables_of(chosen), key=lambda table: table.distance, default=None)
    if found is None:
        return []
    names = [chosen.names[j] for j in (found.first, found.second)]
    levels = [chosen.level_names[j] for j in (found.first, found.second)]
    counts = found.before * len(chosen.original)
    return [
        {
            **dict(zip(("one_name", "other_name"), names, strict=True)),
            "one": levels[0][i - 1],
            "other": levels[1][j - 1],
            "change": _short(found.after[i, j] - found.before[i, j]) + 0.0,
        }
        for i in range(1, found.before.shape[0])
        for j in range(1, found.before.shape[1])
        if counts[i, j] >= FEWEST
    ]


def group_means(before: Matrix, after: Matrix, names: Sequence[str], labels: LabelPair) -> list[Row]:
    """Means of columns in the groups of labels, before and after, for those pairs of columns that lost most."""
    chosen = labels.of_labels
    found = sorted(group_means_of(before, after, chosen), key=lambda one: -one.gap)[:MOST_GROUPINGS]
    return [
        {
            "column": f"{names[one.column]} by {chosen.names[one.label]}",
            "level": chosen.level_names[one.label][level],
            "file": file,
            "mean": _short(mean),
        }
        for one in found
        for place, level in enumerate(one.levels[:MOST_COLUMNS])
        for file, mean in (("original", one.before[place]), ("released", one.after[place]))
        if not np.isnan(mean)
    ]


def correlation(one: Array, other: Array) -> float | None:
    """Over the rows that have both; None where there are few, or one column is constant."""
    both = ~(np.isnan(one) | np.isnan(other))
    x, y = one[both], other[both]
    if x.size < ENOUGH:
        return None
    x, y = x - x.mean(), y - y.mean()
    # By the largest first: squares of very large numbers are no numbers any more.
    x, y = (values / np.abs(values).max() if np.abs(values).max() > 0 else values for values in (x, y))
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else None


def _present(before: Matrix, after: Matrix, names: Sequence[str]) -> Iterator[tuple[str, Array, Array]]:
    """The name of each column, and the cells that are there before and after."""
    for name, old, new in zip(names, before.columns, after.columns, strict=True):
        yield name, old[~np.isnan(old)], new[~np.isnan(new)]


def _short(value: float) -> float:
    """Four digits: enough for a picture, and too few for a value."""
    return float(f"{float(value):.4g}")
