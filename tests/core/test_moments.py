"""Moments by pieces are those of numpy and pandas, also where plain sums of squares would lose all digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples

from microveil.core.moments import FIRST_ROWS, Moments, first_mean, moments, pair_moments
from microveil.core.threads import rows_per_piece, segments

Array = NDArray[np.float64]

ROWS_PER_PIECE = rows_per_piece(4)
SIZES = [1, 2, 3, 100, ROWS_PER_PIECE - 1, ROWS_PER_PIECE, ROWS_PER_PIECE + 1, 20 * ROWS_PER_PIECE + 3]


def moments_of(values: Array, weights: Array | None = None) -> Moments:
    return moments(lambda rows: np.ascontiguousarray(values[rows].T), len(values), weights=weights)


def table(seed: int, rows: int, columns: int = 4) -> Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns))


def expected(values: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Mean and population covariance with two passes in extended precision."""
    x = np.asarray(values, dtype=np.longdouble)
    w = np.ones(len(x), dtype=np.longdouble) if weights is None else np.asarray(weights, dtype=np.longdouble)
    mean = w @ x / w.sum()
    return mean, ((x - mean) * w[:, None]).T @ (x - mean) / w.sum()


def errors(found: Moments, values: Array, weights: Array | None = None) -> tuple[float, float]:
    """Worst mean and covariance, in standard deviations."""
    mean, covariance = expected(values, weights)
    sd = np.sqrt(np.diagonal(covariance))
    gap = np.abs(found.covariance - covariance) / np.outer(sd, sd)
    return float((np.abs(found.mean - mean) / sd).max()), float(gap.max())


# --- Complete rows


@pytest.mark.parametrize("rows", SIZES)
def test_moments_are_those_of_numpy_at_any_number_of_rows(rows: int) -> None:
    values = table(1, rows) + 1
    found = moments_of(values)
    assert found.weight == rows
    assert found.mean == pytest.approx(values.mean(axis=0), rel=1e-13, abs=1e-13)
    assert found.covariance == pytest.approx(np.cov(values.T, ddof=0).reshape(4, 4), rel=1e-12, abs=1e-13)
    assert found.comoment == pytest.approx(found.covariance * rows, rel=1e-15)
    assert (found.comoment == found.comoment.T).all()


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, -1e6, 1e9])
def test_large_offsets_lose_no_digit(offset: float) -> None:
    values = table(2, 3000) + offset
    mean_error, covariance_error = errors(moments_of(values), values)
    # The values themselves are exact here; only the mean has to be rounded to a double at the end.
    assert mean_error <= 1e-15 + 2 * np.spacing(abs(offset))
    assert covariance_error <= 1e-13


def test_offsets_that_differ_from_piece_to_piece_lose_no_digit() -> None:
    rows = 6 * ROWS_PER_PIECE
    values = table(3, rows) + np.linspace(0, 1e4, rows)[:, None] + 1e7
    mean_error, covariance_error = errors(moments_of(values), values)
    assert mean_error <= 1e-11
    assert covariance_error <= 1e-12


def test_first_rows_far_from_the_rest_lose_no_digit() -> None:
    # The provisional shift is then as bad as it can be.
    values = table(4, 3 * ROWS_PER_PIECE)
    values[:ROWS_PER_PIECE] += 1e4
    assert errors(moments_of(values), values)[1] <= 1e-13


def test_mixed_units_lose_no_digit() -> None:
    values = (table(5, 500) + 2) * [1e-100, 1e100, 1, 1e-9]
    found = moments_of(values)
    mean_error, covariance_error = errors(found, values)
    assert mean_error <= 1e-14
    assert covariance_error <= 1e-14


def test_moments_of_small_whole_numbers_are_exact() -> None:
    values = np.random.default_rng(6).integers(-50, 50, (64, 3)).astype(float)
    found = moments_of(values)
    exact = [[Fraction(int(cell)) for cell in column] for column in values.T]
    means = [sum(column) / 64 for column in exact]
    for j in range(3):
        assert found.mean[j] == float(means[j])
        for k in range(3):
            comoment = sum((a - means[j]) * (b - means[k]) for a, b in zip(exact[j], exact[k], strict=True))
            assert found.comoment[j, k] == pytest.approx(float(comoment), rel=1e-15, abs=1e-11)


@pytest.mark.parametrize("rows", [3, 1000, 2 * ROWS_PER_PIECE + 1])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_weighted_moments_are_those_of_numpy(rows: int, offset: float) -> None:
    values = table(7, rows) + offset
    weights = np.random.default_rng(7).uniform(0.1, 30, rows)
    found = moments_of(values, weights)
    assert found.weight == pytest.approx(weights.sum(), rel=1e-13)
    mean_error, covariance_error = errors(found, values, weights)
    assert mean_error <= 1e-14 + 2 * np.spacing(offset)
    assert covariance_error <= 1e-12


def test_whole_weights_count_records() -> None:
    values, weights = table(8, 40), np.arange(1, 41)
    counted, repeated = moments_of(values, weights.astype(float)), moments_of(np.repeat(values, weights, axis=0))
    assert counted.weight == repeated.weight
    assert counted.mean == pytest.approx(repeated.mean, rel=1e-13)
    assert counted.comoment == pytest.approx(repeated.comoment, rel=1e-12)


def test_variance_sd_and_selection_belong_together() -> None:
    found = moments_of(table(9, 100))
    assert found.variance == pytest.approx(np.diagonal(found.covariance), rel=1e-15)
    assert found.sd**2 == pytest.approx(found.variance, rel=1e-15)
    part = found.select([2, 0])
    assert part.mean.tolist() == found.mean[[2, 0]].tolist()
    assert part.comoment.tolist() == found.comoment[np.ix_([2, 0], [2, 0])].tolist()


def test_first_mean_is_that_of_the_first_rows() -> None:
    values = table(10, FIRST_ROWS + 500)
    found = first_mean(lambda rows: values[rows].T, len(values))
    assert found == pytest.approx(values[:FIRST_ROWS].mean(axis=0), rel=1e-12)


@pytest.mark.parametrize("workers", ["1", "2", "3", "7"])
def test_number_of_threads_does_not_change_a_bit(workers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = table(11, 30 * ROWS_PER_PIECE + 11)
    monkeypatch.setenv("MICROVEIL_THREADS", "1")
    alone = moments_of(values)
    monkeypatch.setenv("MICROVEIL_THREADS", workers)
    together = moments_of(values)
    assert (alone.mean == together.mean).all()
    assert (alone.comoment == together.comoment).all()


@pytest.mark.parametrize("columns", [1, 2, 4, 13, 200, 100_000])
def test_pieces_are_neither_empty_nor_huge(columns: int) -> None:
    assert 1 <= rows_per_piece(columns) <= 2**16
    assert rows_per_piece(columns) * columns <= 2**20 or rows_per_piece(columns) <= 256


@pytest.mark.parametrize("rows", [0, *SIZES, 17 * ROWS_PER_PIECE])
def test_segments_cover_every_row_once_and_in_order(rows: int) -> None:
    pieces = [piece for run in segments(rows, 4) for piece in run]
    assert [piece.start for piece in pieces] == list(range(0, rows, ROWS_PER_PIECE))
    assert [piece.stop for piece in pieces[:-1]] == [piece.start for piece in pieces[1:]]
    assert not pieces or pieces[-1].stop == rows


# --- Rows with holes


def holed(seed: int, rows: int, columns: int = 5, share: float = 0.2) -> tuple[Array, NDArray[np.bool_]]:
    values = table(seed, rows, columns)
    present = np.random.default_rng(seed).random(values.shape) >= share
    present[:, 0] = True
    return values, present


def pandas_moments(values: Array, present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """pandas' means and pairwise covariances, brought from the divisor n - 1 to n."""
    frame = pd.DataFrame(np.where(present, values, np.nan))
    pairs = present.astype(float).T @ present.astype(float)
    return frame.mean().to_numpy(), frame.cov().to_numpy() * (pairs - 1) / pairs


@pytest.mark.parametrize("rows", [10, 500, 3 * ROWS_PER_PIECE + 1])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
def test_pair_moments_are_those_of_pandas(rows: int, share: float) -> None:
    values, present = holed(12, rows, share=share)
    found = pair_moments(values, present)
    mean, covariance = pandas_moments(values, present)
    sd = np.sqrt(np.diagonal(covariance))
    assert (np.abs(found.mean - mean) / sd).max() <= 1e-14
    assert (np.abs(found.covariance - covariance) / np.outer(sd, sd)).max() <= 1e-13
    assert (found.weight == present.astype(int).T @ present.astype(int)).all()
    assert found.sd == pytest.approx(sd, rel=1e-13)


def test_pair_moments_do_not_look_at_absent_cells() -> None:
    values, present = holed(13, 300)
    clean = pair_moments(np.where(present, values, 0.0), present)
    for filler in (np.nan, np.inf, 1e300):
        dirty = pair_moments(np.where(present, values, filler), present)
        assert (dirty.mean == clean.mean).all()
        assert (dirty.covariance == clean.covariance).all()


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_pair_moments_lose_no_digit_under_large_offsets(offset: float) -> None:
    values, present = holed(14, 800)
    # Rounded to multiples of 2^-30, so that adding the offset is exact and both tables have the same spread.
    values = np.round(values * 2**30) / 2**30
    plain, shifted = pair_moments(values, present), pair_moments(values + offset, present)
    scale = np.outer(plain.sd, plain.sd)
    assert (np.abs(shifted.covariance - plain.covariance) / scale).max() <= 1e-13
    assert np.abs(shifted.mean - offset - plain.mean).max() <= 2 * np.spacing(offset)


def test_pair_moments_of_complete_rows_are_the_moments() -> None:
    values = table(15, 2 * ROWS_PER_PIECE)
    found, whole = pair_moments(values, np.ones(values.shape, bool)), moments_of(values)
    assert found.mean == pytest.approx(whole.mean, abs=1e-14)
    assert found.covariance == pytest.approx(whole.covariance, rel=1e-11, abs=1e-13)


def test_weighted_pair_moments_are_those_of_numpy_pair_by_pair() -> None:
    values, present = holed(16, 400)
    weights = np.random.default_rng(16).uniform(0.5, 9, 400)
    found = pair_moments(values, present, weights=weights)
    for j in range(5):
        there = present[:, j]
        assert found.mean[j] == pytest.approx(np.average(values[there, j], weights=weights[there]), rel=1e-12)
        for k in range(5):
            both = present[:, j] & present[:, k]
            pair = np.cov(values[both][:, [j, k]].T, aweights=weights[both], ddof=0)
            assert found.covariance[j, k] == pytest.approx(pair[0, 1], rel=1e-11, abs=1e-13)
            assert found.weight[j, k] == pytest.approx(weights[both].sum(), rel=1e-13)


def test_pair_without_a_common_row_has_no_covariance() -> None:
    values, present = table(17, 20, 3), np.ones((20, 3), bool)
    present[:10, 1], present[10:, 2] = False, False
    found = pair_moments(values, present)
    assert np.isnan(found.covariance[1, 2])
    assert np.isfinite(found.covariance[[0, 0, 1, 2], [1, 2, 1, 2]]).all()
    assert np.isfinite(found.mean).all()


@settings(max_examples=examples(60))
@given(
    rows=st.integers(3, 200),
    columns=st.integers(1, 6),
    share=st.floats(0, 0.6),
    exponent=st.integers(-12, 12),
    seed=st.integers(0, 2**32),
)
def test_any_table_with_holes_has_the_moments_of_pandas(
    rows: int, columns: int, share: float, exponent: int, seed: int
) -> None:
    values, present = holed(seed, rows, columns, share)
    values = (values + 1) * 10.0**exponent
    present[:3] = True
    found = pair_moments(values, present)
    mean, covariance = pandas_moments(values, present)
    sd = np.sqrt(np.diagonal(covariance))
    assert (np.abs(found.mean - mean) / sd).max() <= 1e-12
    assert (np.abs(found.covariance - covariance) / np.outer(sd, sd)).max() <= 1e-11
