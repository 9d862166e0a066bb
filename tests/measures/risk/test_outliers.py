"""Single records: where each stands among the released ones, and the extreme ones by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

from microveil.errors import DataError
from microveil.measures.risk.extremes import _remoteness, outlier_risk, risk_of_rows
from microveil.measures.risk.linkage import dbrl, mahalanobis_linkage, rank_linkage

Array = NDArray[np.float64]
LINKAGES = [dbrl, mahalanobis_linkage, rank_linkage]


def pair(seed: int, rows: int = 300) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    data = rng.lognormal(size=(rows, 4)) @ (np.eye(4) + 0.4)
    return data, data + 0.3 * data.std(axis=0) * rng.normal(size=data.shape)


def everybody(data: Array) -> NDArray[np.intp]:
    return np.arange(len(data))


def test_records_linked_are_those_of_the_linkages() -> None:
    data, released = pair(1)
    linked, risk = risk_of_rows(matrix(data), matrix(released), everybody(data))
    for attack in LINKAGES:
        assert linked[attack.id].mean() == pytest.approx(attack(matrix(data), matrix(released)).value), attack.id
    best = np.max(list(linked.values()), axis=0)
    assert (risk >= best).all()
    assert ((risk == 1) == (best == 1)).all()


def test_a_place_in_the_queue_by_hand() -> None:
    data = np.array([[0.0], [1.0], [2.0], [10.0]])
    released = np.array([[1.9], [1.1], [0.4], [10.0]])
    _, risk = risk_of_rows(matrix(data), matrix(released), everybody(data))
    assert risk.tolist() == pytest.approx([1 / 3, 1.0, 1 / 3, 1.0])  # of 0 both 0.4 and 1.1 are nearer, of 2 two others
    assert _remoteness(matrix(data)).argmax() == 3
    assert risk_of_rows(matrix(data), matrix(released), np.array([2]))[1].tolist() == pytest.approx([1 / 3])
    with pytest.raises(DataError, match="one by one"):
        outlier_risk(matrix(data), matrix(released[:3]))


def test_doing_nothing_equal_records_and_missing_ones() -> None:
    data, _ = pair(2, 60)
    assert (risk_of_rows(matrix(data), matrix(data), everybody(data))[1] == 1).all()
    data[:4] = data[0]
    data[9] = np.nan
    linked, risk = risk_of_rows(matrix(data), matrix(data), everybody(data))
    assert risk[:4] == pytest.approx(np.full(4, 1 / 4))
    assert risk[9] == 0
    assert all(credit[9] == 0 for credit in linked.values())


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
