"""Counting keys: against a comparison of all pairs of records, and against sdcMicro."""

from __future__ import annotations

import time

import numpy as np
import pytest
from labels import random_codes
from numpy.typing import NDArray
from reference import sdcmicro_labels

from microveil.core.keys import key_counts, numbered

FILES = {"francdat": "labels_francdat", "testdata": "labels_testdata_5keys"}


def by_pairs(codes: NDArray[np.int64], missing: str) -> NDArray[np.bool_]:
    """Who matches whom, records x records."""
    same = codes[:, None] == codes
    if missing == "matches":
        same |= (codes[:, None] < 0) | (codes < 0)
    return same.all(axis=2)


@pytest.mark.parametrize("missing", ["matches", "level"])
@pytest.mark.parametrize("blanks", [0.0, 0.02, 0.3, 1.0])
def test_counts_are_those_of_all_pairs(blanks: float, missing: str) -> None:
    codes = random_codes(1, 150, blanks)
    weights = np.random.default_rng(2).uniform(1, 100, len(codes))
    found, pairs = key_counts(codes, weights, missing), by_pairs(codes, missing)
    assert (found.sample == pairs.sum(axis=1)).all()
    np.testing.assert_allclose(found.population, pairs @ weights)
    assert (key_counts(codes, missing=missing).population == found.sample).all()


def test_more_combinations_than_numbers_are_told_apart() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 10**6, (50, 8))
    twins = np.vstack([codes, codes])
    assert np.unique(numbered(twins)).size == 50
    assert (key_counts(twins).sample == 2).all()


@pytest.mark.parametrize("data", FILES)
def test_frequencies_are_those_of_sdcmicro(data: str) -> None:
    codes, weights, found = sdcmicro_labels(data, FILES[data])
    counts = key_counts(codes, weights)
    assert counts.sample.tolist() == found["fk"]
    np.testing.assert_allclose(counts.population, found["Fk"], rtol=1e-12)
    assert np.count_nonzero(counts.sample == 1) == found["n1"]


@pytest.mark.slow
def test_a_hundred_thousand_records_take_about_a_second() -> None:
    rng = np.random.default_rng(4)
    codes = np.column_stack([rng.integers(0, levels, 100_000) for levels in (2, 5, 10, 20, 8, 30)])
    start = time.process_time()
    key_counts(codes)
    assert time.process_time() - start < 2
