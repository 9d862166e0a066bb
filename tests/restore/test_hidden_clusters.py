"""Clusters that columns hide: found where they are, not found where they are not, and kept by the arrangement."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from microveil.core.rng import Streams
from microveil.core.table import LabelColumns, Matrix, Microdata
from microveil.restore import Marginal, arrange
from microveil.restore.hidden_clusters import hidden_clusters

Array = NDArray[np.float64]

STREAM = Streams.from_seed(1).stream("arrange")
SLOPES = np.array([1.0, -1.0, 0.0])


def table(data: Array, labels: LabelColumns | None = None) -> Microdata:
    columns = Matrix([np.ascontiguousarray(column) for column in data.T])
    names = tuple(f"c{j}" for j in range(data.shape[1]))
    return Microdata(columns, names, 0, labels=labels or LabelColumns())


def clustered(seed: int, rows: int = 900) -> tuple[Array, NDArray[np.intp]]:
    """Three groups with centres apart, inside which the second column goes up, down, or not at all with the first."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=rows)
    first = rng.standard_normal(rows)
    second = SLOPES[group] * first + 0.3 * rng.standard_normal(rows)
    third = rng.standard_normal(rows)
    return np.column_stack([first + 6 * group, second - 5 * (group == 1), third + 4 * (group == 2)]), group


def arranged(original: Microdata) -> Array:
    rng = np.random.default_rng(0)
    columns = [rng.permutation(column) for column in original.confidential.columns]
    marginals = [Marginal(np.sort(column)) for column in columns]
    return np.column_stack(arrange(columns.copy, marginals, original, None, STREAM).columns)


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_found(seed: int) -> None:
    data, group = clustered(seed)
    found = hidden_clusters(table(data), 12, STREAM)
    assert found is not None
    # Each is (nearly) one of the groups.
    shares = [np.bincount(group[found == number]).max() / (found == number).sum() for number in range(found.max() + 1)]
    assert min(shares) > 0.95


@pytest.mark.parametrize("tail", ["normal", "lognormal"])
@pytest.mark.parametrize("seed", range(5))
def test_none_are_found_where_there_are_none(tail: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((600, 5)) @ rng.standard_normal((5, 5))
    assert hidden_clusters(table(np.exp(data) if tail == "lognormal" else data), 40, STREAM) is None


def test_a_cluster_has_more_records_than_moments() -> None:
    data, _ = clustered(0, rows=300)
    found = hidden_clusters(table(data), 90, STREAM)
    assert found is None or np.bincount(found).min() >= 90
    assert hidden_clusters(table(data), 200, STREAM) is None


def test_columns_that_do_not_vary_and_heaps_do_no_harm() -> None:
    data, _ = clustered(1)
    odd = np.column_stack([data, np.zeros(len(data)), np.arange(len(data)) < 3, np.round(data[:, 0])])
    assert hidden_clusters(table(odd), 60, STREAM) is not None
    assert hidden_clusters(table(np.ones((900, 3))), 12, STREAM) is None


def test_what_is_special_about_clusters_comes_back() -> None:
    """The slopes inside the groups, which no correlation of the whole table tells."""
    data, _ = clustered(2)
    found = arranged(table(data))
    assert (np.sort(found, axis=0) == np.sort(data, axis=0)).all()
    for low, high, slope in ((-3, 3, 1.0), (3, 9, -1.0), (9, 15, 0.0)):
        inside = (found[:, 0] > low) & (found[:, 0] < high)
        assert np.polyfit(found[inside, 0], found[inside, 1], 1)[0] == pytest.approx(slope, abs=0.15)


def test_no_record_stays_in_the_row_of_its_cluster() -> None:
    data, group = clustered(3)
    found = arranged(table(data))
    own = np.round(found[:, 0] / 6).clip(0, 2).astype(int)
    # Three groups of a third each agree by chance in a third of the rows.
    assert np.mean(own == group) == pytest.approx(1 / 3, abs=0.06)


def test_labels_keep_their_relations() -> None:
    data, group = clustered(4)
    labels = LabelColumns(("group",), (group.astype(np.intp),))
    original = table(data, labels)
    rng = np.random.default_rng(0)
    columns = [rng.permutation(column) for column in original.confidential.columns]
    marginals = [Marginal(np.sort(column)) for column in columns]
    found = arrange(columns.copy, marginals, original, None, STREAM)
    (codes,) = found.labels
    assert np.array_equal(np.bincount(codes), np.bincount(group))
    for number in range(3):
        for before, after in zip(data.T, found.columns, strict=True):
            assert after[codes == number].mean() == pytest.approx(
                before[group == number].mean(), abs=0.05 * before.std()
            )
