"""Interval disclosure, around the nearest and around the own record, against the definition written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import reference_file
from samples import matrix

from microveil.errors import ParameterError
from microveil.measures.risk.interval import (
    interval_disclosure,
    interval_disclosure_own,
    interval_disclosure_sd,
    share_inside,
)

Array = NDArray[np.float64]


def by_hand(data: Array, released: Array, linked: NDArray[np.intp]) -> float:
    """Calviño's definition, cell by cell."""
    n, width = data.shape
    hits = 0
    for v in range(width):
        ordered = np.sort(released[:, v])
        order = np.argsort(released[:, v], kind="stable")
        for p in range(1, 11):
            k = n * p // 100
            for i in range(n):
                r = int(np.flatnonzero(order == linked[i])[0])
                hits += ordered[max(r - k, 0)] <= data[i, v] <= ordered[min(r + k, n - 1)]
    return hits / (10 * n * width)


def pair(seed: int, rows: int = 130) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    data = rng.lognormal(size=(rows, 3))
    return data, data * rng.lognormal(sigma=0.3, size=data.shape)


def nearest(data: Array, released: Array) -> NDArray[np.intp]:
    z, y = ((side - data.mean(axis=0)) / data.std(axis=0) for side in (data, released))
    return np.square(z[:, None] - y[None]).sum(axis=2).argmin(axis=1)


def test_both_are_the_definition_written_out() -> None:
    data, released = pair(1)
    closest = interval_disclosure(matrix(data), matrix(released)).value
    assert closest == pytest.approx(by_hand(data, released, nearest(data, released)), abs=1e-12)
    own = interval_disclosure_own(matrix(data), matrix(released)).value
    assert own == pytest.approx(by_hand(data, released, np.arange(130)), abs=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_chance_around_the_own_record_is_that_of_one_picked_at_random(missing: float) -> None:
    data, released = pair(2)
    rng = np.random.default_rng(3)
    released[rng.random(released.shape) < missing] = np.nan
    found = interval_disclosure_own(matrix(data), matrix(released))
    table = matrix(released)
    at_random = [share_inside(matrix(data), table, np.arange(130), rng.integers(130, size=130)) for _ in range(200)]
    assert found.chance == pytest.approx(np.mean(at_random), abs=4 * np.std(at_random) / np.sqrt(200))


POPULATIONS = {
    "normal": lambda rng, rows: rng.normal(size=(rows, 3)),
    "correlated": lambda rng, rows: rng.normal(size=(rows, 8)) + 1.2 * rng.normal(size=(rows, 1)),
    "long tails": lambda rng, rows: rng.lognormal(size=(rows, 5)),
    "counts": lambda rng, rows: rng.poisson(3.0, size=(rows, 3)).astype(float),
}


@pytest.mark.quick("normal-150", "counts-600")
@pytest.mark.parametrize("rows", [40, 150, 600])
@pytest.mark.parametrize("population", POPULATIONS)
def test_chance_around_the_nearest_is_that_of_an_unrelated_release(population: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    gains = []
    for _ in range(4_800 // rows + 10):
        data, unrelated = (matrix(POPULATIONS[population](rng, rows)) for _ in range(2))
        found = interval_disclosure(data, unrelated, seed=1)
        assert found.chance is not None
        gains.append(found.value - found.chance)
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert error < 0.01
    assert abs(np.mean(gains)) < 4 * error


@pytest.mark.quick("missing0")
@pytest.mark.parametrize("missing", [(0.3, 0.3), (0.0, 0.5), (0.3, 0.0)])
def test_missing_cells_are_in_that_chance(missing: tuple[float, float]) -> None:
    rng = np.random.default_rng(11)
    gains = []
    for _ in range(30):
        pairs = []
        for share in missing:
            values = rng.normal(size=(200, 3))
            values[rng.random(values.shape) < share] = np.nan
            pairs.append(matrix(values))
        found = interval_disclosure(*pairs, seed=1)
        assert found.chance is not None
        gains.append(found.value - found.chance)
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert error < 0.01
    assert abs(np.mean(gains)) < 4 * error


def test_the_nearest_other_leaves_its_target_out_of_the_order() -> None:
    data, _ = pair(12, 90)
    data[:30, 0] = np.round(data[:30, 0])  # equal cells, too
    rest = [np.delete(data, i, axis=0) for i in range(90)]
    spread = data.std(axis=0)
    hits = 0.0
    for i, others in enumerate(rest):
        linked = int(np.square((others - data[i]) / spread).sum(axis=1).argmin())
        for j in range(3):
            ordered, order = np.sort(others[:, j]), np.argsort(others[:, j], kind="stable")
            rank = int(np.flatnonzero(order == linked)[0])
            for p in range(1, 11):
                k = 90 * p // 100
                hits += ordered[max(rank - k, 0)] <= data[i, j] <= ordered[min(rank + k, 88)]
    assert interval_disclosure(matrix(data), matrix(data)).chance == pytest.approx(hits / (10 * 90 * 3), abs=1e-12)


@pytest.mark.parametrize("measure", [interval_disclosure, interval_disclosure_own, interval_disclosure_sd])
def test_doing_nothing_tells_all_and_a_shuffle_little(measure) -> None:  # type: ignore[no-untyped-def]
    data, _ = pair(4, 400)
    rng = np.random.default_rng(5)
    assert measure(matrix(data), matrix(data)).value == 1
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    found = measure(matrix(data), matrix(shuffled))
    if measure is interval_disclosure:  # the nearest stranger still resembles the record
        assert found.value < 0.8
        assert found.low <= found.chance <= found.high
    else:
        assert found.value < 0.3
    if measure is interval_disclosure_own:
        assert found.low <= found.chance <= found.high


def test_missing_cells_are_no_hits_and_do_not_dilute() -> None:
    data, released = pair(6)
    holes = data.copy()
    holes[:20, 0] = np.nan
    for measure in (interval_disclosure, interval_disclosure_own, interval_disclosure_sd):
        assert measure(matrix(holes), matrix(holes)).value == 1, measure.id  # of the cells that are there
        blank = np.full_like(data, np.nan)
        assert measure(matrix(data), matrix(blank)).value == 0, measure.id
    gone = released.copy()
    gone[:, 1] = np.nan
    whole, less = (interval_disclosure_own(matrix(data), matrix(r)).value for r in (released, gone))
    part = interval_disclosure_own(matrix(data[:, [0, 2]]), matrix(released[:, [0, 2]])).value
    assert less == pytest.approx(part * 2 / 3)
    assert less < whole


def test_sd_intervals_on_a_small_table() -> None:
    data = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
    released = np.array([[0.0, 1.0], [1.0, 12.0], [2.05, 19.0]])
    sd = released.std(axis=0, ddof=1)
    inside = np.abs(data - released) <= 0.12 * sd
    found = interval_disclosure_sd(matrix(data), matrix(released), widths=(0.12,))
    assert found.value == pytest.approx(inside.mean()) == pytest.approx(5 / 6)
    assert found.parts["whole records"] == pytest.approx(inside.all(axis=1).mean()) == pytest.approx(2 / 3)
    with pytest.raises(ParameterError, match="widths"):
        interval_disclosure_sd(matrix(data), matrix(released), widths=())


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("mdav_Tarragona_k3.csv", [0, 0.045563549160671464, 0.25899280575539568, 0.69424460431654678]),
        ("addnoise_correlated2_Tarragona_delta0.1.csv", [0, 0, 0.0071942446043165471, 0.97122302158273377]),
    ],
)
def test_sdcmicro_gives_the_same_share_of_whole_records(file: str, expected: list[float]) -> None:
    # dRisk of sdcMicro 5.8.1 for k = .01, .05, .1, .3.
    data = np.loadtxt(reference_file("Tarragona.csv"), delimiter=",", skiprows=1)
    released = np.loadtxt(reference_file(f"../golden/sdcmicro/{file}"), delimiter=",", skiprows=1)[:, -13:]
    for width, share in zip((0.01, 0.05, 0.1, 0.3), expected, strict=True):
        found = interval_disclosure_sd(matrix(data), matrix(released), widths=(width,))
        assert found.parts["whole records"] == pytest.approx(share, abs=1e-12)
