"""Large files: attacks try a sample of the originals against all released records, and share the search.

The limit is lowered here, so that files of a few thousand rows are large.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.assessment.figures import GAUGES
from microveil.core.table import Matrix
from microveil.measures import base
from microveil.measures.nearest import nearest_records
from microveil.measures.nearest.neighbours import credit_by_stages, link
from microveil.measures.risk import proportions

Array = NDArray[np.float64]

ROWS, TRIED = 3_000, 400


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "EXACT_ROWS", 1_000)
    monkeypatch.setattr(proportions, "FEWEST_TRIED", TRIED)


def firms(seed: int, rows: int = ROWS, columns: int = 7) -> Array:
    rng = np.random.default_rng(seed)
    return np.exp(0.7 * rng.normal(size=(rows, 1)) + 0.7 * rng.normal(size=(rows, columns)))


def noisy(data: Array, ratio: float) -> Array:
    return data * np.exp(ratio * np.random.default_rng(9).normal(size=data.shape))


SHARES = ("dbrl", "mahalanobis_linkage", "rank_linkage", "known_columns_linkage", "interval_disclosure")


@pytest.mark.slow
def test_the_interval_of_a_sample_covers_the_figure_of_all_as_often_as_it_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = firms(1)
    both = Matrix.from_array(data), Matrix.from_array(noisy(data, 0.15))
    monkeypatch.setattr(proportions, "FEWEST_TRIED", ROWS)  # also of those that search often
    everyone = {name: GAUGES[name](*both, seed=1) for name in SHARES}
    assert not any("an estimate" in found.note for found in everyone.values())
    monkeypatch.setattr(base, "EXACT_ROWS", 1_000)
    monkeypatch.setattr(proportions, "FEWEST_TRIED", TRIED)
    covered = 0
    for seed in range(20):
        for name in SHARES:
            found = GAUGES[name](*both, seed=seed)
            assert f"an estimate from {TRIED} of {ROWS} records" in found.note
            assert found.high - found.low > 0.02
            covered += found.low <= everyone[name].value <= found.high
    assert covered >= 0.9 * 20 * len(SHARES)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("columns", [1, 3, 7])
def test_the_credit_by_stages_is_that_of_the_whole_search(ratio: float, columns: int) -> None:
    data = firms(2, columns=columns).round(1)  # with ties
    released, tried = noisy(data, ratio).round(1), np.arange(0, ROWS, 5)
    whole = link(data[tried], released, tried)
    np.testing.assert_array_equal(credit_by_stages(data[tried], released, tried, lambda rows: rows), whole.credit)


@pytest.mark.usefixtures("large")
def test_one_search_serves_all_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    search: Callable[..., tuple[Array, Array]] = nearest_records.nearest
    monkeypatch.setattr(nearest_records, "nearest", lambda *of: calls.append(len(of[0])) or search(*of))
    data = firms(3)
    asked = ["dbrl", "mahalanobis_linkage", "rank_linkage", "interval_disclosure", "near_matches", "max_record_risk"]
    found = mv.assess(data, noisy(data, 0.5), measures=[*asked, "membership"], seed=1, sanity=False)
    assert len(calls) == 6  # three kinds of distance, in the release and among the originals
    assert set(calls) == {calls[0]}
    assert TRIED < calls[0] < TRIED + 3 * nearest_records.OUTLYING
    assert len(found.records_at_risk(10)["row"]) == 10
    assert len(calls) == 6
    alone = mv.assess(data, noisy(data, 0.5), measures=["dbrl"], seed=1, sanity=False)
    assert alone["dbrl"] == found["dbrl"]


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_the_same_seed_gives_the_same_figures_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    data = firms(4, rows=1_500)
    figures = []
    for threads in "112":
        monkeypatch.setenv("MICROVEIL_THREADS", threads)
        figures.append(mv.assess(data, noisy(data, 0.2), seed=5, sanity=False).to_json())
    assert figures[0] == figures[1] == figures[2]
    assert figures[0] != mv.assess(data, noisy(data, 0.2), seed=6, sanity=False).to_json()


def giant(data: Array, released: Array) -> int:
    """The largest comes back within .3 %, in another row."""
    data[3] = 100 * data.mean(axis=0)
    released[40] = data[3] * np.random.default_rng(1).uniform(0.997, 1.003, data.shape[1])
    return 3


def first_of_a_column(data: Array, released: Array) -> int:
    """Who has the most of one thing, and as much as others of everything else, comes back within a percent."""
    data[17, 2] = 2 * data[:, 2].max()
    released[900] = data[17] * np.random.default_rng(1).uniform(0.99, 1.01, data.shape[1])
    return 17


def in_the_crowd(data: Array, released: Array) -> int:
    """Somebody like many others comes back within a tenth of a percent, in the same row."""
    row = int(np.argsort(np.square(np.log(data)).sum(axis=1))[ROWS // 2])
    released[row] = data[row] * np.random.default_rng(1).uniform(0.999, 1.001, data.shape[1])
    return row


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("exposed", [giant, first_of_a_column, in_the_crowd])
def test_no_sample_loses_a_record_that_stands_apart_or_did_not_change(exposed: Callable[[Array, Array], int]) -> None:
    data, released = firms(5), firms(6)
    row = exposed(data, released)
    for seed in range(5):
        found = mv.assess(data, released, measures=["max_record_risk"], seed=seed, sanity=False)
        risk = found["max_record_risk"]
        assert (risk.low, risk.high) == (risk.value, 1.0)
        assert risk.value > 0.99
        assert f"of {ROWS} records were looked for" in risk.note
        assert found.records_at_risk(1)["row"] == [row]


@pytest.mark.usefixtures("large")
def test_nobody_of_a_clean_release_is_at_risk() -> None:
    risks = [mv.assess(firms(s), firms(s + 50), measures=["max_record_risk"], seed=s, sanity=False) for s in range(8)]
    assert sum(found["max_record_risk"].value > 0.95 for found in risks) <= 1
