"""The shuffle is a rearrangement, it is exactly uniform, and it follows from its stream alone.

Seeds are fixed, so the statistical tests do not flicker. They reject at 1 in 1,000, and the same tests
reject shuffles that are known to be biased.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples
from scipy.stats import chi2

from microveil.core.rng import ROWS_PER_BLOCK, Stream, Streams, row_blocks
from microveil.core.shuffle import (
    FIRST_BUCKET,
    MOST_BUCKETS,
    ROWS_PER_BUCKET,
    SMALL,
    bucket_count,
    shuffle_bucket,
    shuffled,
    shuffled_in_buckets,
    traded_places,
)

SIGNIFICANCE = 1e-3
Z_LIMIT = 3.3  # two-sided 1 in 1,000, for statistics that are nearly normal

Shuffle = Callable[[NDArray[np.float64], Stream], NDArray[np.float64]]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    from microveil.core import _order_kernels  # noqa: F401 - importing compiles


def in_buckets(buckets: int) -> Shuffle:
    """The algorithm for large columns, forced upon any number of rows."""
    return lambda values, stream: shuffled_in_buckets(values, stream, buckets)


def stream(*address: int, seed: int = 1) -> Stream:
    return Streams(seed).stream("test", *address)


# --- A rearrangement that follows from its stream


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1000, ROWS_PER_BLOCK, ROWS_PER_BLOCK + 1, SMALL - 1, SMALL, SMALL + 1])
def test_result_is_a_rearrangement(rows: int) -> None:
    values = np.arange(rows, dtype=np.float64)
    result = shuffled(values, stream())
    assert result.dtype == np.float64
    assert not np.shares_memory(result, values)
    assert np.array_equal(np.sort(result), values)


@pytest.mark.parametrize("buckets", [1, 2, 8, 512])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, ROWS_PER_BLOCK - 1, ROWS_PER_BLOCK, 3 * ROWS_PER_BLOCK + 5])
def test_buckets_give_a_rearrangement(rows: int, buckets: int) -> None:
    values = np.arange(rows, dtype=np.float64)
    assert np.array_equal(np.sort(in_buckets(buckets)(values, stream())), values)


@pytest.mark.slow
def test_most_buckets() -> None:
    values = np.arange(1000.0)
    assert np.array_equal(np.sort(in_buckets(MOST_BUCKETS)(values, stream())), values)


@pytest.mark.parametrize("rows", [1000, SMALL + 1])
def test_same_stream_same_result_other_stream_other_result(rows: int) -> None:
    values = np.arange(rows, dtype=np.float64)
    result = shuffled(values, stream(1))
    assert np.array_equal(result, shuffled(values, stream(1)))
    for other in (stream(2), stream(1, seed=2)):
        agreeing = np.count_nonzero(result == shuffled(values, other))
        assert agreeing <= 10  # Poisson(1): more than 10 once in 10**8


@pytest.mark.parametrize("rows", [1000, SMALL + 1])
def test_input_stays_as_it_is_and_its_layout_does_not_matter(rows: int) -> None:
    values = np.random.default_rng(1).normal(size=rows)
    before = values.copy()
    expected = shuffled(values, stream())
    assert np.array_equal(values, before)

    matrix_column = np.stack([values, -values], axis=1)[:, 0]
    backwards = values[::-1].copy()[::-1]
    readonly = values.copy()
    readonly.flags.writeable = False
    unaligned = np.frombuffer(b"?" + values.tobytes(), dtype=np.float64, offset=1)
    for same_values in (matrix_column, backwards, readonly, unaligned):
        result = shuffled(same_values, stream())
        assert result.flags.writeable
        assert result.flags.c_contiguous
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("shuffle", [shuffled, in_buckets(4)])
def test_special_values_survive(shuffle: Shuffle) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324] * 20)
    result = shuffle(values, stream())
    assert np.array_equal(np.sort(result.view(np.int64)), np.sort(values.view(np.int64)))


@pytest.mark.parametrize(
    ("rows", "buckets"),
    [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (10**7, 256), (2**24, 256), (2**24 + 1, 512), (10**9, 16_384)],
)
def test_number_of_buckets(rows: int, buckets: int) -> None:
    assert bucket_count(rows) == buckets


def test_number_of_buckets_is_limited_by_the_width_of_a_digit() -> None:
    assert bucket_count(10**12) == MOST_BUCKETS == 2 ** np.iinfo(np.uint16).bits


def test_threads_give_the_same_bytes() -> None:
    columns = [np.random.default_rng(seed).normal(size=SMALL + 12_345) for seed in range(4)]
    streams = [stream(column) for column in range(4)]
    one_by_one = [shuffled(*task) for task in zip(columns, streams, strict=True)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(shuffled, columns, streams))
    assert [result.tobytes() for result in together] == [result.tobytes() for result in one_by_one]


@pytest.mark.parametrize(("rows", "loaded"), [(SMALL, False), (SMALL + 1, True)])
def test_numba_is_left_alone_for_small_columns(rows: int, loaded: bool) -> None:
    program = (
        "import sys, numpy\n"
        "from microveil.core.rng import Streams\n"
        "from microveil.core.shuffle import shuffled\n"
        f"shuffled(numpy.zeros({rows}), Streams(1).stream('test'))\n"
        "print('numba' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(loaded)


# --- What a streaming engine has to reproduce: the algorithm in plain Python, one block of rows at a time


def external_shuffle(values: NDArray[np.float64], stream: Stream, buckets: int) -> list[float]:
    bucket_files: list[list[float]] = [[] for _ in range(buckets)]
    for block, rows in row_blocks(len(values)):
        digits = pieces_of_words(stream.generator(block), bits=16)
        for value, digit in zip(values[rows].tolist(), digits, strict=False):
            bucket_files[digit % buckets].append(value)
    for bucket, content in enumerate(bucket_files):
        draws = pieces_of_words(stream.generator(FIRST_BUCKET + bucket), bits=32)
        for last in range(len(content) - 1, 0, -1):
            chosen = uniform_below(last + 1, draws)
            content[last], content[chosen] = content[chosen], content[last]
    return list(itertools.chain.from_iterable(bucket_files))


def pieces_of_words(generator: np.random.Generator, bits: int) -> Iterator[int]:
    while True:
        word = int(generator.bit_generator.random_raw())
        for shift in range(0, 64, bits):
            yield word >> shift & (1 << bits) - 1


def uniform_below(bound: int, draws: Iterator[int]) -> int:
    """Lemire's method by its definition, without the shortcut."""
    for draw in draws:
        if draw * bound % 2**32 >= 2**32 % bound:
            return draw * bound // 2**32
    raise AssertionError("draws have no end")


@settings(max_examples=examples(60))
@given(rows=st.integers(0, 200), bits=st.integers(0, 6), seed=st.integers(0, 2**64))
def test_agrees_with_the_external_shuffle(rows: int, bits: int, seed: int) -> None:
    values = np.arange(rows, dtype=np.float64)
    expected = external_shuffle(values, stream(seed=seed), 2**bits)
    assert in_buckets(2**bits)(values, stream(seed=seed)).tolist() == expected


def test_agrees_with_the_external_shuffle_over_several_blocks() -> None:
    values = np.arange(2 * ROWS_PER_BLOCK + 4321, dtype=np.float64)
    assert in_buckets(4)(values, stream()).tolist() == external_shuffle(values, stream(), 4)


# --- Choices within a bucket are exactly uniform


@pytest.mark.parametrize("bound", [3, 5, 6, 7, 1000, 40_961, 65_537])
def test_each_choice_has_equally_many_draws(bound: int) -> None:
    """Choice c belongs to the draws from ceil(c * 2**32 / bound) on; of these, only the first can be one too many."""
    from microveil.core._order_kernels import fisher_yates

    def choice(draw: int) -> int | None:
        values = np.arange(bound, dtype=np.float64)
        left = fisher_yates(values, np.array([draw], dtype=np.uint32), bound)
        return int(values[-1]) if left == bound - 1 else None

    for chosen in {0, 1, 2, bound // 2, bound - 2, bound - 1}:
        first, end = (-(-edge * 2**32 // bound) for edge in (chosen, chosen + 1))
        passed_over = choice(first) is None
        assert end - first - passed_over == 2**32 // bound
        assert choice(first + 1) == choice(end - 1) == chosen


class ScriptedGenerator:
    """Stands in for a generator; gives the words it was told to."""

    def __init__(self, words: list[int]) -> None:
        self.words = words
        self.bit_generator = self

    def random_raw(self, count: int) -> NDArray[np.uint64]:
        assert count <= len(self.words)
        given, self.words = self.words[:count], self.words[count:]
        return np.array(given, dtype=np.uint64)


def test_more_words_are_drawn_when_draws_are_passed_over() -> None:
    values = np.arange(3.0)
    middle_of_range = 2**31  # the middle one of three, then the last one of two
    # A draw of 0 is one too many for three.
    scripted = ScriptedGenerator([0, 0, middle_of_range << 32, middle_of_range])
    shuffle_bucket(values, scripted)  # type: ignore[arg-type]
    assert values.tolist() == [0.0, 2.0, 1.0]
    assert scripted.words == []


# --- Uniformity

BUCKETED_CASES = [(4, 1), (4, 2), (4, 4), (5, 2), (5, 4), (6, 4)]


def p_value_of_permutations(shuffle: Shuffle, rows: int, trials: int) -> float:
    """Chi-square test that all permutations of `rows` rows are equally likely."""
    values = np.arange(rows, dtype=np.float64)
    seen = Counter(tuple(shuffle(values, stream(trial)).tolist()) for trial in range(trials))
    counts = np.array([seen[order] for order in itertools.permutations(values.tolist())])
    expected = trials / factorial(rows)
    return float(chi2.sf(np.sum((counts - expected) ** 2) / expected, len(counts) - 1))


def p_value_of_positions(orders: NDArray[np.int64]) -> float:
    """Chi-square test that each row is equally likely to come to each place; one order a line.

    Each line adds a permutation matrix, whose rows and columns sum to one. The usual sum of squares, times
    (n-1)/n, is then chi-square with (n-1)**2 degrees of freedom.
    """
    trials, rows = orders.shape
    counts = np.stack([np.bincount(place, minlength=rows) for place in orders.T])
    expected = trials / rows
    statistic = (rows - 1) / rows * np.sum((counts - expected) ** 2) / expected
    return float(chi2.sf(statistic, (rows - 1) ** 2))


def orders_of(shuffle: Shuffle, rows: int, trials: int) -> NDArray[np.int64]:
    values = np.arange(rows, dtype=np.float64)
    return np.array([shuffle(values, stream(trial)) for trial in range(trials)]).astype(np.int64)


def naive_shuffle(values: NDArray[np.float64], stream: Stream) -> NDArray[np.float64]:
    """Swaps each value with any other: the classic mistake (n**n paths to n! results)."""
    out, generator = values.copy(), stream.generator(0)
    for row in range(len(out)):
        chosen = generator.integers(len(out))
        out[row], out[chosen] = out[chosen], out[row]
    return out


def shuffle_without_fixed_points(values: NDArray[np.float64], stream: Stream) -> NDArray[np.float64]:
    """Sattolo's shuffle: never leaves a value in its place (off by one in Fisher-Yates)."""
    out, generator = values.copy(), stream.generator(0)
    for last in range(len(out) - 1, 0, -1):
        chosen = generator.integers(last)
        out[last], out[chosen] = out[chosen], out[last]
    return out


@pytest.mark.quick("4-1")
@pytest.mark.parametrize(("rows", "buckets"), BUCKETED_CASES)
def test_all_permutations_are_equally_likely(rows: int, buckets: int) -> None:
    assert p_value_of_permutations(in_buckets(buckets), rows, trials=40 * factorial(rows)) > SIGNIFICANCE


def test_all_permutations_are_equally_likely_for_small_columns() -> None:
    assert p_value_of_permutations(shuffled, 5, trials=40 * factorial(5)) > SIGNIFICANCE


def test_the_test_of_permutations_can_fail() -> None:
    assert p_value_of_permutations(naive_shuffle, 4, trials=100 * factorial(4)) < SIGNIFICANCE / 1000


@pytest.mark.parametrize("shuffle", [shuffled, in_buckets(4)])
def test_places_and_fixed_points(shuffle: Shuffle) -> None:
    rows, trials = 40, 4000
    orders = orders_of(shuffle, rows, trials)
    assert p_value_of_positions(orders) > SIGNIFICANCE
    fixed_points = np.count_nonzero(orders == np.arange(rows), axis=1)
    assert abs(fixed_points.mean() - 1) < Z_LIMIT / sqrt(trials)  # mean and variance are 1


def test_the_test_of_places_can_fail() -> None:
    assert p_value_of_positions(orders_of(shuffle_without_fixed_points, 10, 1000)) < SIGNIFICANCE / 1000


def test_a_large_column_keeps_nothing_of_its_order() -> None:
    rows, cells = SMALL + 12_345, 24
    values = np.arange(rows, dtype=np.float64)
    result = shuffled(values, stream())

    assert np.count_nonzero(result == values) <= 10  # Poisson(1): more than 10 once in 10**8
    limit = Z_LIMIT / sqrt(rows)
    assert abs(np.corrcoef(values, result)[0, 1]) < limit
    for lag in (1, 2, ROWS_PER_BLOCK, ROWS_PER_BUCKET // 2):
        assert abs(np.corrcoef(result[lag:], result[:-lag])[0, 1]) < limit * sqrt(rows / (rows - lag))

    # Where the rows of each stretch of the input come to in the output.
    stretch = (np.arange(rows) * cells) // rows
    counts = np.bincount(cells * stretch + stretch[result.astype(np.int64)], minlength=cells**2)
    statistic = np.sum((counts - rows / cells**2) ** 2) / (rows / cells**2)
    assert chi2.sf(statistic, (cells - 1) ** 2) > SIGNIFICANCE


def test_blocks_and_buckets_never_share_a_generator() -> None:
    asked: list[int] = []

    class Recorder:
        def generator(self, block: int) -> np.random.Generator:
            asked.append(block)
            return stream().generator(block)

    shuffled_in_buckets(np.arange(3.0 * ROWS_PER_BLOCK), Recorder(), 8)  # type: ignore[arg-type]
    assert sorted(asked) == [0, 1, 2, *range(FIRST_BUCKET, FIRST_BUCKET + 8)]
    assert FIRST_BUCKET + MOST_BUCKETS <= 2**32  # words of a spawn key


# --- Rows that trade their cells


def test_rows_trade_with_rows_that_are_alike() -> None:
    count = 2 * ROWS_PER_BLOCK + 1_000
    alike, stream = np.random.default_rng(0).integers(0, 5, count), Streams(1).stream("places")
    places = traded_places(alike, count, stream)
    assert np.array_equal(np.sort(places), np.arange(count))
    assert np.array_equal(alike[places], alike)
    assert np.count_nonzero(places == np.arange(count)) < 20, "5 by chance"
    assert np.array_equal(traded_places(7 - alike, count, stream), places), "numbers are only names"


@pytest.mark.parametrize("alike", [None, np.zeros(4)])
def test_every_trade_is_as_likely(alike: NDArray[np.float64] | None) -> None:
    counts = np.zeros((4, 4))
    for seed in range(2_000):
        counts[np.arange(4), traded_places(alike, 4, Streams(seed).stream("places"))] += 1
    assert np.abs(counts / 2_000 - 0.25).max() < 0.04


def test_who_is_like_no_other_trades_with_nobody() -> None:
    alike = np.arange(100)
    assert np.array_equal(traded_places(alike, 100, Streams(1).stream("places")), alike)
