"""Every random number has an address, and the addresses are keyed by the seed and by the data."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.core.rng import ROWS_PER_BLOCK, Stream, Streams, row_blocks
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import rows_per_piece

Array = NDArray[np.float64]

DRAWS: dict[str, Callable[[Stream, int], NDArray[np.generic]]] = {
    "normal": lambda stream, size: stream.normal(size),
    "uniform": lambda stream, size: stream.uniform(size),
    "integers": lambda stream, size: stream.integers(10**9, size),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


def table(seed: int = 0, rows: int = 50, columns: int = 4) -> Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns))


def fingerprint(values: Array) -> int:
    return Matrix.from_array(values).profile().fingerprint


def permutations_of(original: Array, released: Array, weights: Array) -> list[list[int]]:
    """The order of each swapped component, read off the release by someone who has the original."""
    mean, sd = original.mean(axis=0), original.std(axis=0)
    before, after = (original - mean) / sd @ weights, (released - mean) / sd @ weights
    gaps = np.abs(after[:, None, :] - before[None, :, :])
    assert gaps.min(axis=1).max() < 1e-9
    return gaps.argmin(axis=1).T.tolist()


# --- Addresses


@every_draw
def test_same_address_gives_the_same_draws(draw: Callable[[Stream, int], NDArray[np.generic]]) -> None:
    first, second = (draw(Streams(3, 4).stream("swap", 1, 2), 1000) for _ in range(2))
    assert (first == second).all()


@every_draw
def test_asking_again_starts_anew_and_order_does_not_matter(draw: Callable[[Stream, int], NDArray[np.generic]]) -> None:
    streams = Streams(3)
    one, other = streams.stream("a"), streams.stream("b")
    forward = draw(one, 100), draw(other, 100)
    backward = draw(other, 100), draw(one, 100)
    assert (forward[0] == backward[1]).all()
    assert (forward[1] == backward[0]).all()


@every_draw
def test_different_addresses_give_different_draws(draw: Callable[[Stream, int], NDArray[np.generic]]) -> None:
    streams = Streams(5, 6)
    addresses = [("perturb",), ("missing",), ("perturb", 0), ("perturb", 0, 0), ("perturb", 1, 12), ("perturb", 11, 2)]
    addresses += [("perturb", 112), ("perturb", 0, 1), ("perturb", 1, 0), ("perturb0",), (0, "perturb")]
    drawn = [draw(streams.stream(*address), 200) for address in addresses]
    for one, other in itertools.combinations(drawn, 2):
        assert np.mean(one == other) < 0.05


@every_draw
def test_seed_and_fingerprint_both_key_the_draws(draw: Callable[[Stream, int], NDArray[np.generic]]) -> None:
    keys = [(0, 0), (0, 1), (1, 0), (1, 1), (11, 1), (1, 11), (2**64, 1), (2**128, 1)]
    drawn = [draw(Streams(*key).stream("x"), 200) for key in keys]
    for one, other in itertools.combinations(drawn, 2):
        assert np.mean(one == other) < 0.05


def test_child_is_another_stream_and_its_name_matters() -> None:
    stream = Streams(7).stream("redraw", 0)
    drawn = [stream, stream.child("donors"), stream.child("noise"), stream.child("donors").child("donors")]
    for one, other in itertools.combinations([each.normal(100) for each in drawn], 2):
        assert not (one == other).any()
    assert (stream.child("donors").normal(100) == Streams(7).stream("redraw", 0).child("donors").normal(100)).all()


def test_child_does_not_reuse_the_blocks_of_its_parent() -> None:
    stream = Streams(8).stream("x")
    child = stream.child("y")
    generators = [each.generator(block) for each in (stream, child) for block in range(50)]
    assert len({generator.bit_generator.random_raw() for generator in generators}) == 100


def test_draws_of_different_addresses_are_uncorrelated() -> None:
    streams = Streams(9)
    drawn = np.array([streams.stream("perturb", 0, column).normal(20_000) for column in range(20)])
    correlations = np.corrcoef(drawn)[np.triu_indices(20, 1)] * np.sqrt(20_000)
    # 190 standard normal figures: their mean square is 1 with a standard error of 0.1, the largest is below 4.5.
    assert np.mean(correlations**2) == pytest.approx(1, abs=0.3)
    assert np.abs(correlations).max() < 4.5


def test_draws_are_of_the_distributions_they_are_named_after() -> None:
    stream, size = Streams(10).stream("x"), 200_000
    normal, uniform, integers = stream.normal(size), stream.uniform(size), stream.integers(7, size)
    assert [normal.mean(), normal.std()] == pytest.approx([0, 1], abs=4 / np.sqrt(size))
    assert (normal**4).mean() == pytest.approx(3, abs=4 * np.sqrt(96 / size))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert [uniform.mean(), uniform.var()] == pytest.approx([1 / 2, 1 / 12], abs=4 * 0.29 / np.sqrt(size))
    assert np.bincount(integers).tolist() == pytest.approx([size / 7] * 7, abs=4 * np.sqrt(size / 7))


# --- Blocks


@every_draw
@pytest.mark.parametrize("size", [1, 10, *(ROWS_PER_BLOCK + extra for extra in (-1, 0, 1, ROWS_PER_BLOCK + 5))])
def test_shorter_draw_is_the_beginning_of_a_longer_one(
    draw: Callable[[Stream, int], NDArray[np.generic]], size: int
) -> None:
    stream = Streams(11).stream("x")
    longest = draw(stream, 3 * ROWS_PER_BLOCK)
    assert (draw(stream, size) == longest[:size]).all()


def test_block_can_be_drawn_without_those_before_it() -> None:
    stream = Streams(12).stream("x")
    whole = stream.normal(3 * ROWS_PER_BLOCK)
    last = stream.generator(2).standard_normal(ROWS_PER_BLOCK)
    assert (whole[2 * ROWS_PER_BLOCK :] == last).all()


def test_blocks_differ_from_one_another() -> None:
    whole = Streams(13).stream("x").normal(4 * ROWS_PER_BLOCK).reshape(4, -1)
    for one, other in itertools.combinations(whole, 2):
        assert not (one == other).any()
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(ROWS_PER_BLOCK)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25])
def test_row_blocks_cover_every_row_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microveil.core.rng.ROWS_PER_BLOCK", 10)
    blocks = list(row_blocks(size))
    assert [number for number, _ in blocks] == list(range(len(blocks)))
    covered = [row for _, rows in blocks for row in range(rows.start, rows.stop)]
    assert covered == list(range(size))


def test_empty_draw_is_empty() -> None:
    for draw in DRAWS.values():
        assert draw(Streams(1).stream("x"), 0).shape == (0,)


# --- Seeds


def test_fresh_seeds_are_long_and_differ() -> None:
    seeds = {Streams.from_seed(None).seed for _ in range(100)}
    assert len(seeds) == 100
    assert max(seeds).bit_length() > 100


def test_given_seed_and_fingerprint_are_taken() -> None:
    assert Streams.from_seed(0, 5) == Streams(0, 5)


def test_neither_streams_nor_stream_show_their_seed() -> None:
    streams = Streams(918273645546372819, 777777777777)
    for shown in (repr(streams), str(streams), repr(streams.stream("x")), str(streams.stream("x"))):
        assert "918273645546372819" not in shown
        assert "777777777777" not in shown
        assert str(streams.stream("x").entropy) not in shown


# --- A seed without the data gives nothing away


def test_changing_one_cell_changes_the_fingerprint() -> None:
    data = table(1, rows=rows_per_piece(4) + 10)
    original, seen = fingerprint(data), set()
    rng = np.random.default_rng(1)
    for _ in range(200):
        row, column = rng.integers(len(data)), rng.integers(4)
        changed = data.copy()
        changed[row, column] = np.nextafter(changed[row, column], np.inf)
        seen.add(fingerprint(changed))
    assert original not in seen
    assert len(seen) >= 199


def test_exchanging_cells_and_columns_changes_the_fingerprint() -> None:
    data = table(2)
    negative, exchanged = data.copy(), data.copy()
    negative[3, 1] *= -1
    exchanged[[4, 9], 2] = exchanged[[9, 4], 2]
    variants = [data, negative, exchanged, data * 2, data[:, ::-1].copy(), np.sort(data, axis=0)]
    assert len({fingerprint(values) for values in variants}) == len(variants)


def test_changing_the_signs_of_two_cells_of_a_record_changes_the_fingerprint() -> None:
    data = table(2)
    variants = [data, -data]
    for pair in itertools.combinations(range(4), 2):
        changed = data.copy()
        changed[3, list(pair)] *= -1
        variants.append(changed)
    assert len({fingerprint(values) for values in variants}) == len(variants)


def test_fingerprint_follows_from_the_values_and_not_from_their_memory() -> None:
    data = table(3, rows=2 * rows_per_piece(4) + 7)
    separate = Microdata(Matrix([column.copy() for column in data.T]), tuple("abcd"))
    assert fingerprint(data) == fingerprint(np.asfortranarray(data)) == separate.profile().fingerprint


def test_all_bits_of_the_fingerprint_vary() -> None:
    found = np.array([fingerprint(table(seed)) for seed in range(300)], dtype=np.uint64)
    ones = [int(np.count_nonzero(found >> np.uint64(bit) & np.uint64(1))) for bit in range(64)]
    # Binomial with 300 tosses: 150 with a standard deviation of 8.7.
    assert min(ones) > 150 - 4.5 * 8.7
    assert max(ones) < 150 + 4.5 * 8.7


@pytest.mark.parametrize("cell", [(0, 0), (17, 2), (49, 3)])
def test_same_seed_on_data_that_differ_in_one_cell_gives_other_permutations(cell: tuple[int, int]) -> None:
    data = table(4)
    other = data.copy()
    other[cell] += 1e-12
    orders = []
    for values in (data, other):
        release = mv.protect(values, "pca", seed=42, exact=False, rules=None)
        orders.append(permutations_of(values, release.data, release.components.weights))
    for one, two in zip(*orders, strict=True):
        assert sorted(one) == sorted(two) == list(range(50))
        # Two unrelated permutations agree in about one place.
        assert np.count_nonzero(np.array(one) == two) <= 6


def test_components_are_swapped_in_different_orders() -> None:
    data = table(5)
    release = mv.protect(data, "pca", seed=1, exact=False, rules=None)
    orders = permutations_of(data, release.data, release.components.weights)
    for one, two in itertools.combinations(orders, 2):
        assert np.count_nonzero(np.array(one) == two) <= 6


def test_seed_and_stream_without_the_data_do_not_undo_a_swap() -> None:
    data, seed = table(6), 42
    release = mv.protect(data, "pca", seed=seed, exact=False, rules=None)
    truth = permutations_of(data, release.data, release.components.weights)
    for guess in (0, fingerprint(release.data), fingerprint(np.sort(data, axis=0))):
        streams = Streams(seed, guess)
        for component, order in enumerate(truth):
            guessed = streams.stream("perturb", 0, 0, component).generator(0).permutation(50)
            assert np.count_nonzero(guessed == order) <= 6
    # With the data it does: the test above would fail if the address were wrong.
    streams = Streams(seed, fingerprint(data))
    for component, order in enumerate(truth):
        assert streams.stream("perturb", 0, 0, component).generator(0).permutation(50).tolist() == order
