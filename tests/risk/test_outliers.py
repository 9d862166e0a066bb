"""Single records: where each stands among the released ones, and the extreme ones by themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from samples import matrix

from microveil.errors import DataError, ParameterError
from microveil.measures.risk import dbrl, mahalanobis_linkage, outlier_risk, rank_linkage, record_risk

Array = NDArray[np.float64]
LINKAGES = [dbrl, mahalanobis_linkage, rank_linkage]


def pair(seed: int, rows: int = 300) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    data = rng.lognormal(size=(rows, 4)) @ (np.eye(4) + 0.4)
    return data, data + 0.3 * data.std(axis=0) * rng.normal(size=data.shape)


def test_records_linked_are_those_of_the_linkages() -> None:
    data, released = pair(1)
    found = record_risk(matrix(data), matrix(released))
    for attack in LINKAGES:
        assert found.linked[attack.id].mean() == pytest.approx(attack(matrix(data), matrix(released)).value), attack.id
    assert (found.risk >= np.max(list(found.linked.values()), axis=0)).all()
    assert ((found.risk == 1) == (np.max(list(found.linked.values()), axis=0) == 1)).all()


def test_a_place_in_the_queue_by_hand() -> None:
    data = np.array([[0.0], [1.0], [2.0], [10.0]])
    released = np.array([[1.9], [1.1], [0.4], [10.0]])
    found = record_risk(matrix(data), matrix(released))
    assert found.nearer["dbrl"].tolist() == [2, 0, 2, 0]  # of 0 both 0.4 and 1.1, of 2 both 1.9 and 1.1 are nearer
    assert found.risk.tolist() == pytest.approx([1 / 3, 1.0, 1 / 3, 1.0])
    assert found.remoteness.argmax() == 3
    some = record_risk(matrix(data), matrix(released), np.array([2]))
    assert (some.row.tolist(), some.risk.tolist()) == ([2], pytest.approx([1 / 3]))
    with pytest.raises(ParameterError, match="rows"):
        record_risk(matrix(data), matrix(released), np.array([4]))
    with pytest.raises(DataError, match="one by one"):
        record_risk(matrix(data), matrix(released[:3]))


def test_doing_nothing_equal_records_and_missing_ones() -> None:
    data, _ = pair(2, 60)
    assert (record_risk(matrix(data), matrix(data)).risk == 1).all()
    data[:4] = data[0]
    data[9] = np.nan
    found = record_risk(matrix(data), matrix(data))
    assert found.risk[:4] == pytest.approx(np.full(4, 1 / 4))
    assert found.risk[9] == 0
    assert all(counts[9] == 60 for counts in found.nearer.values())
    assert all(credit[9] == 0 for credit in found.linked.values())


def test_it_fits_into_a_frame_and_shows_nothing_by_itself() -> None:
    data, released = pair(3, 50)
    found = record_risk(matrix(data), matrix(released))
    for frame in (pd.DataFrame(found.to_dict()), pl.DataFrame(found.to_dict())):
        assert frame.shape == (50, 9)
        assert {"row", "risk", "dbrl", "nearer by rank_linkage"} <= set(frame.columns)
    assert len(found) == 50
    assert "risk=" not in repr(found)


def test_the_extreme_are_found_where_the_others_are_not() -> None:
    # Noise that hides the many, in units of which the few stand far apart.
    rng = np.random.default_rng(4)
    data = rng.normal(size=(1000, 3))
    data[:10] = 60 * rng.normal(size=(10, 3))
    released = data + 2 * rng.normal(size=data.shape)
    everyone = dbrl(matrix(data), matrix(released)).value
    found = outlier_risk(matrix(data), matrix(released))
    assert found.note == "10 records"
    assert found.parts["dbrl"] > 0.8 > 0.1 > everyone
    assert found.value >= max(found.parts[attack.id] for attack in LINKAGES)
    assert found.parts["most exposed"] == 1
    assert found.chance == pytest.approx(3 / 1000, rel=0.01)


def test_at_least_five_are_looked_at_and_a_shuffle_hides_them() -> None:
    data, _ = pair(5, 120)
    assert outlier_risk(matrix(data), matrix(data)).note == "5 records"
    rng = np.random.default_rng(6)
    linked = [
        outlier_risk(matrix(data), matrix(np.column_stack([rng.permutation(column) for column in data.T]))).value
        for _ in range(100)
    ]
    # 500 tries of three guesses each; a guess finds one of 120.
    assert np.mean(linked) == pytest.approx(3 / 120, abs=4 * np.sqrt(3 / 120 / 500))
