"""The release came in another order.

A careless owner adds a trace of noise, or a little more, and shuffles the rows before the file leaves. Whoever compares
the two files row by row finds nothing: the first released record is not the first original. The intruder never compared
row by row, and looks for each known person among all released records. An assessment must do as much: find the matches
wherever they stand, say that the order was not used, and meet no policy on figures of pairs that are none. And it must
raise no alarm where nobody can be found in any row.
"""

from __future__ import annotations

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

import microveil as mv
from microveil.assessment.assessment import Assessment
from microveil.assessment.measuring import OUT_OF_ORDER

Array = NDArray[np.float64]

POLICY = {
    "policy": {"name": "research files", "version": 1},
    "limits": {
        "dbrl": {"at_most": 0.02},
        "subspace_linkage": {"at_most": 0.02, "use": "high"},
        "pil": {"at_most": 0.3},
    },
}


def firms(seed: int, rows: int = 500, columns: int = 6) -> Array:
    rng = np.random.default_rng(seed)
    return np.exp(0.7 * rng.normal(size=(rows, 1)) + 0.7 * rng.normal(size=(rows, columns)))


def noisy(data: Array, share: float, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return data + share * data.std(axis=0) * rng.normal(size=data.shape)


def shuffled(data: Array, seed: int) -> Array:
    return np.random.default_rng(seed).permutation(data)


def measured(original: Array, released: object, **options: object) -> Assessment:
    ids = ["dbrl", "exact_matches", "near_matches", "worst_attack"]
    return mv.assess(original, released, **{"measures": ids, "seed": 1, "sanity": False, **options})


def test_a_trace_of_noise_and_another_order_do_not_meet_the_example_policy() -> None:
    data = firms(1)
    released = shuffled(noisy(data, 0.0005, 2), 3)
    found = measured(data, released, measures=["near_matches"], policy=POLICY)
    assert not found.met
    assert "dbrl" in found.verdict.failed
    assert found.skipped["dbrl"] == OUT_OF_ORDER
    assert OUT_OF_ORDER in found.notes
    assert found["near_matches"].low > 0.9
    assert found["near_matches"].parts["of them, in their own row"] < 0.1


@pytest.mark.parametrize("sort", ["shuffled", "both sorted"])
def test_noise_that_leaves_a_fifth_linked_is_seen_in_any_order(sort: str) -> None:
    data = firms(4, 800)
    released = noisy(data, 0.4, 5)
    truth = mv.assess(data, released, measures=["dbrl"], seed=1, sanity=False)["dbrl"].value
    assert truth > 0.15
    given, out = (data, shuffled(released, 6)) if sort == "shuffled" else (by_first(data), by_first(released))
    found = measured(given, out)
    assert found["near_matches"].low > found["near_matches"].chance
    assert found["worst_attack"].value > found["worst_attack"].chance
    assert "near_matches" in found["worst_attack"].note
    assert "dbrl" in found.skipped


def by_first(data: Array) -> Array:
    return data[np.argsort(data[:, 0])]


def test_rows_in_their_order_stay_paired() -> None:
    data = firms(7)
    found = measured(data, noisy(data, 0.1, 8))
    assert found["near_matches"].parts["of them, in their own row"] > 0.9
    assert not found.skipped
    assert found["dbrl"].value > 0.5


def test_the_order_of_a_release_is_known() -> None:
    data = firms(9)
    release = mv.protect(data, "noise", shuffle_rows=True, seed=1)
    assert "dbrl" not in measured(data, release).skipped


@pytest.mark.parametrize("method", ["veil", "ipso", "pca", "normal"])
def test_no_alarm_where_nobody_is_found(method: str) -> None:
    for seed, data in enumerate([firms(10), np.round(10 * firms(11, 300, 4)), np.round(firms(12, 400, 5)) * 100]):
        found = measured(data, mv.protect(data, method, seed=seed).data)
        assert found["near_matches"].low <= found["near_matches"].chance
        assert not found.skipped


@pytest.mark.parametrize("kind", ["smooth", "whole", "heaped", "tied"])
def test_no_alarm_for_another_sample_of_the_population(kind: str) -> None:
    make = {
        "smooth": lambda seed: firms(seed, 250),
        "whole": lambda seed: np.round(20 * firms(seed, 250)),
        "heaped": lambda seed: np.round(2 * firms(seed, 250)) * 50,
        "tied": lambda seed: np.random.default_rng(seed).integers(0, 3, (250, 5)).astype(float),
    }[kind]
    gains = []
    for seed in range(6):
        found = measured(make(seed), make(100 + seed))
        assert found["near_matches"].low <= found["near_matches"].chance
        assert not found.skipped
        gains.append(found["exact_matches"].value - found["exact_matches"].chance)
    assert np.mean(gains) == pytest.approx(0, abs=0.03)


@pytest.mark.quick("4-0.95")
@pytest.mark.parametrize("zeros", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("columns", [4, 8])
def test_no_alarm_where_most_cells_are_zero(columns: int, zeros: float) -> None:
    """Who has but one amount stands on a line, between two others that are one rank away each."""

    def mostly_zero(seed: int) -> Array:
        return np.where(np.random.default_rng(seed).random((300, columns)) < zeros, 0.0, firms(seed, 300, columns))

    for seed in range(4):
        found = measured(mostly_zero(seed), mostly_zero(100 + seed), measures=["near_matches"])
        assert found["near_matches"].low <= found["near_matches"].chance
    found = measured(mostly_zero(1), shuffled(noisy(mostly_zero(1), 0.001, 1), 2), measures=["near_matches"])
    assert found["near_matches"].low > found["near_matches"].chance


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_no_alarm_in_few_columns(columns: int) -> None:
    for seed in range(5):
        found = measured(firms(seed, 300, columns), firms(100 + seed, 300, columns), measures=["near_matches"])
        assert found["near_matches"].low <= found["near_matches"].chance


def test_a_file_of_another_length_is_searched_too() -> None:
    data = firms(13)
    found = measured(data, shuffled(noisy(data, 0.001, 1), 2)[:300])
    assert 0.5 < found["near_matches"].value <= 0.65
    assert "500 and 300 rows" in found.skipped["dbrl"]


@pytest.mark.parametrize("name", ["tarragona", "census_12", "eia"])
def test_reference_data_with_noise_in_another_order(name: str) -> None:
    data = getattr(reference, name)()[1]
    found = measured(data, shuffled(noisy(data, 0.1, 1), 2))
    assert found["near_matches"].low > found["near_matches"].chance
    assert "dbrl" in found.skipped
    for method in ("ipso", "pca"):
        calm = measured(data, mv.protect(data, method, seed=1).data)
        assert calm["near_matches"].low <= calm["near_matches"].chance
        assert not calm.skipped
