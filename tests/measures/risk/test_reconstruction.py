"""Values computed from what was left alone: all of them where components are kept, none but by luck where none is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import census
from samples import matrix

import microveil as mv
from microveil.errors import DataError
from microveil.measures.risk.reconstruction import reconstruction

Array = NDArray[np.float64]


def table(seed: int, rows: int = 400, columns: int = 6) -> Array:
    rng = np.random.default_rng(seed)
    return rng.lognormal(sigma=0.6, size=(rows, columns)) @ (np.eye(columns) + 0.4) * np.geomspace(1, 1e5, columns)


def removed(data: Array, count: int) -> Array:
    mean, sd = data.mean(axis=0), data.std(axis=0)
    z = (data - mean) / sd
    top = np.linalg.eigh(z.T @ z)[1][:, -count:]
    return mean + sd * (z - z @ top @ top.T)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_known_values_as_components_removed_give_all_others(count: int) -> None:
    data = table(1)
    found = reconstruction(matrix(data), matrix(removed(data, count)), seed=1)
    assert found.value > 0.99
    assert f"with {count} of 6 columns known" in found.note
    assert found.parts[f"{count} known"] == found.value
    if count > 1:
        assert found.parts[f"{count - 1} known"] < 0.5
    assert found.chance < 0.15


@pytest.mark.slow
def test_removal_on_the_census() -> None:
    # Thirteen columns, one of them the sum of two others, taken apart with the sum (the paper) and without it (ours).
    _, data = census()
    found = reconstruction(matrix(data), matrix(removed(data, 1)), seed=1)
    assert found.value > 0.99
    assert "with 1 of 13 columns known" in found.note
    ours = mv.protect(data, "component_removal", threshold=0.6).data
    found = reconstruction(matrix(data), matrix(ours), seed=1)
    assert found.value > 0.99
    assert "with 1 of 12 columns known" in found.note


def test_a_total_beside_its_parts_does_not_hide_what_was_left_alone() -> None:
    data = table(7, 300, 5)
    ruled = np.column_stack([data, data.sum(axis=1)])
    kept = mv.protect(ruled, "pca", components=1, exact=True, seed=1).data
    found = reconstruction(matrix(ruled), matrix(kept), seed=1)
    assert found.value > 0.99
    assert "with 1 of 5 columns known" in found.note


def test_synthetic_scores_in_the_place_of_removed_ones_do_not_cure_it() -> None:
    # Covariances are kept exactly, so that the axes are those of the original.
    data = table(2)
    released = mv.protect(data, "pca", components=2, exact=True, seed=1, rules=None).data
    found = reconstruction(matrix(data), matrix(released), seed=1)
    assert found.value > 0.99
    assert "with 2 of 6" in found.note


def test_where_every_component_is_swapped_a_strangers_record_does_as_well() -> None:
    data = table(3)
    for exact in (True, False):
        released = mv.protect(data, "pca", exact=exact, seed=1, rules=None).data
        found = reconstruction(matrix(data), matrix(released), seed=1)
        assert found.low <= found.chance <= found.high
        assert "no power" in found.note


def test_rules_between_columns_are_no_disclosure() -> None:
    # The total follows from its parts, whatever is released: a stranger's record tells as much.
    rng = np.random.default_rng(4)
    parts = rng.lognormal(size=(400, 2))
    data = np.column_stack([parts, parts.sum(axis=1)])
    shuffled = np.column_stack([rng.permutation(column) for column in parts.T])
    found = reconstruction(matrix(data), matrix(np.column_stack([shuffled, shuffled.sum(axis=1)])), seed=1)
    assert found.parts["2 known"] > 0.99
    assert "no power" in found.note


def test_missing_cells_and_small_tables() -> None:
    data = table(5, 60, 4)
    holes = data.copy()
    holes[:30, 0] = np.nan
    assert reconstruction(matrix(holes), matrix(data), seed=1).value == 1
    assert reconstruction(matrix(data), matrix(holes), seed=1).value < 1
    with pytest.raises(DataError, match="two columns"):
        reconstruction(matrix(data[:, :1]), matrix(data[:, :1]))
    many = table(6, 2500, 3)
    assert "an estimate from 2000 of 2500 records" in reconstruction(matrix(many), matrix(many), seed=1).note
