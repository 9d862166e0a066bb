"""The attack that looks from another angle finds what plain linkage does not, and nothing where nothing is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import tarragona
from samples import matrix

import microveil as mv
from microveil.measures.risk import linkage
from microveil.measures.risk.linkage import dbrl, subspace_linkage

Array = NDArray[np.float64]


def table(seed: int, rows: int = 400, columns: int = 6) -> Array:
    rng = np.random.default_rng(seed)
    return rng.lognormal(sigma=0.6, size=(rows, columns)) @ (np.eye(columns) + 0.5) * np.geomspace(1, 1000, columns)


def test_components_left_alone_give_every_record_away() -> None:
    # Covariances are kept exactly, so the release shows the very axes that were used; one untouched axis is enough.
    data = table(1)
    released = mv.protect(data, "pca", components=4, exact=True, seed=1, rules=None).data
    found = subspace_linkage(matrix(data), matrix(released), seed=1)
    assert dbrl(matrix(data), matrix(released)).value < 0.2
    assert found.value == 1
    assert found.note.startswith("links best in ")
    assert found.parts["all columns"] == dbrl(matrix(data), matrix(released)).value


def test_without_exact_moments_the_axes_are_nearly_those() -> None:
    data = table(2)
    released = mv.protect(data, "pca", components=1, exact=False, seed=1, rules=None).data
    found = subspace_linkage(matrix(data), matrix(released), seed=1)
    assert found.value > 1.5 * found.parts["all columns"]
    assert "last" in found.note


def test_an_independent_component_left_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkage, "ROUNDS", 0)  # what learning from links adds is another matter
    # Three sources in a rotation that principal components cannot see (equal variances); one is not swapped.
    rng = np.random.default_rng(5)
    sources = rng.exponential(size=(1500, 3)) - 1
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    swapped = sources.copy()
    for j in (0, 1):
        swapped[:, j] = rng.permutation(swapped[:, j])
    data, released = sources @ rotation, swapped @ rotation
    found = subspace_linkage(matrix(data), matrix(released), seed=1)
    assert "independent component" in found.note
    assert found.value > 10 * found.chance
    assert found.value > 2 * found.parts["all columns"]


@pytest.mark.slow
def test_a_shuffle_gives_no_more_than_the_best_of_many_guesses() -> None:
    data = table(4)
    rng = np.random.default_rng(5)
    shares, chances = [], []
    for seed in range(8):
        shuffled = np.column_stack([rng.permutation(column) for column in data.T])
        found = subspace_linkage(matrix(data), matrix(shuffled), seed=seed)
        shares.append(found.value)
        chances.append(found.chance)
        assert found.chance < found.parts["95 % of shuffled releases"]
    assert min(chances) > 2 / 400  # the best of many guesses is well above the 1/n of one
    assert np.mean(shares) == pytest.approx(np.mean(chances), abs=3 * np.std(shares) / np.sqrt(8))


def test_all_components_swapped_leave_nothing_to_find() -> None:
    data = table(6)
    released = mv.protect(data, "pca", exact=True, seed=1, rules=None).data
    assert subspace_linkage(matrix(data), matrix(released), seed=1).value < 0.03


def test_removed_components_are_no_protection() -> None:
    data = table(7)
    mean, sd = data.mean(axis=0), data.std(axis=0)
    z = (data - mean) / sd
    _, vectors = np.linalg.eigh(np.corrcoef(z.T))
    removed = mean + sd * (z - z @ vectors[:, -2:] @ vectors[:, -2:].T)
    assert subspace_linkage(matrix(data), matrix(removed), seed=1).value == 1


def test_many_components_thin_columns_and_a_constant_release() -> None:
    rng = np.random.default_rng(8)
    wide = rng.normal(size=(90, 24))
    found = subspace_linkage(matrix(wide), matrix(wide), seed=1)
    assert found.value == 1
    one = rng.normal(size=(50, 1))
    assert subspace_linkage(matrix(one), matrix(one), seed=1).value == 1
    constant = subspace_linkage(matrix(wide), matrix(np.ones_like(wide)), seed=1)
    assert constant.value == constant.chance == 1 / 90


def test_links_teach_where_to_look() -> None:
    # Axes of the release are only nearly those of the original; what was left alone is found all the same.
    data = table(9, rows=500, columns=10)
    released = mv.protect(data, "pca", components=6, exact=False, seed=1, rules=None).data
    found = subspace_linkage(matrix(data), matrix(released), seed=1)
    assert found.parts["before learning"] < 0.9 < 0.95 < found.value
    assert "learnt from links" in found.note


@pytest.mark.quick("True-1")
@pytest.mark.parametrize("components", [1, 3, 5, 8])
@pytest.mark.parametrize("exact", [True, False])
def test_tarragona_with_components_left_alone(components: int, exact: bool) -> None:
    _, data = tarragona()
    least = len(np.unique(data, axis=0)) / len(data)  # of copies one is found by a guess
    for seed in range(3):
        released = mv.protect(data, "pca", components=components, exact=exact, seed=seed, rules=None).data
        assert subspace_linkage(matrix(data), matrix(released), seed=1).value >= least - 1e-9


@pytest.mark.quick("True")
@pytest.mark.parametrize("exact", [True, False])
def test_tarragona_with_all_components_swapped(exact: bool) -> None:
    _, data = tarragona()
    for seed in range(3):
        released = mv.protect(data, "pca", exact=exact, seed=seed, rules=None).data
        assert subspace_linkage(matrix(data), matrix(released), seed=1).value <= 0.02
