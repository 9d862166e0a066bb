"""Labels that follow from others, and pairs of labels that never meet: found where they are, and nowhere else."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import microveil as mv
from microveil.rules.label_rules import (
    ImpossiblePair,
    LabelRules,
    find_dependencies,
    find_impossible_pairs,
    without_impossible_pairs,
)

Codes = NDArray[np.intp]


def numbered(*columns: NDArray[np.int_]) -> list[Codes]:
    return [np.unique(column, return_inverse=True)[1].astype(np.intp) for column in columns]


def independent(seed: int) -> list[Codes]:
    rng = np.random.default_rng(seed)
    rows, width = int(rng.integers(300, 3_000)), int(rng.integers(2, 7))
    return numbered(*(rng.integers(0, rng.integers(2, 40), rows) for _ in range(width)))


def planted(seed: int) -> list[Codes]:
    """Chapters that follow from codes, and a state that only one sex can have, among columns that are independent."""
    others = independent(seed)
    rng = np.random.default_rng(1_000 + seed)
    rows = others[0].size
    code, sex = rng.integers(0, 20, rows), rng.integers(0, 2, rows)
    pregnant = (sex == 0) & (rng.random(rows) < 0.3)
    return [*numbered(code, code // 5, sex, pregnant), *others]


def test_in_fifty_tables_of_independent_columns_nothing_is_found() -> None:
    for seed in range(50):
        assert find_dependencies(independent(seed)) == []
        assert find_impossible_pairs(independent(seed)) == []


def test_in_fifty_tables_that_have_them_they_are_found_and_nothing_else_is() -> None:
    for seed in range(50):
        rules = LabelRules.among(planted(seed))
        assert [(rule.column, rule.source) for rule in rules.dependencies] == [(1, 0)], seed
        names = [j for pair in rules.pairs for j in pair.columns]
        assert names == [2, 3], seed


def test_what_follows_from_what_follows_is_rebuilt_from_the_first() -> None:
    code = np.random.default_rng(1).integers(0, 24, 2_000)
    columns = numbered(code // 12, code, code // 4)
    rules = LabelRules.among(columns)
    assert {(rule.column, rule.source) for rule in rules.dependencies} == {(0, 1), (2, 1)}
    shuffled = np.random.default_rng(2).permutation(columns[1])
    made = rules.restored([shuffled], np.random.default_rng(3))
    assert (made[0] == shuffled // 12).all()
    assert (made[2] == shuffled // 4).all()


def test_a_release_has_no_pair_that_cannot_be_and_keeps_what_follows() -> None:
    rng = np.random.default_rng(5)
    rows = 1_500
    code = rng.integers(0, 12, rows)
    sex = rng.choice(["f", "m"], rows)
    pregnant = np.where((sex == "f") & (rng.random(rows) < 0.2), "yes", "no")
    data = pd.DataFrame(
        {
            "icd": [f"{'ABC'[c // 4]}{c:02d}" for c in code],
            "chapter": ["ABC"[c // 4] for c in code],
            "sex": sex,
            "pregnant": pregnant,
            "cost": rng.lognormal(7 + code / 20, 0.5),
            "days": rng.poisson(4, rows),
        }
    )
    for seed in range(3):
        release = mv.protect(data, seed=seed)
        out = release.data
        assert not ((out["sex"] == "m") & (out["pregnant"] == "yes")).any()
        assert (out["chapter"] == out["icd"].str[0]).all()
        assert "chapter follows from icd" in release.rules
        for name in ("icd", "chapter", "sex", "pregnant"):
            assert out[name].value_counts().to_dict() == data[name].value_counts().to_dict()
        assert (out["icd"] != data["icd"]).mean() > 0.8


def test_a_fault_that_no_single_exchange_cures_is_cured_by_several() -> None:
    """Heads are first, partners second, children behind them; a head and a partner stand in wrong places."""
    place = np.tile([0, 1, 2], 200).astype(np.intp)
    label = place.copy()
    label[:3] = 1, 2, 0  # a partner is first, a child second, which may be, and a head third
    allowed = {(0, 0), (1, 1), (1, 2), (2, 2)}
    pairs = [ImpossiblePair((0, 1), levels) for levels in product(range(3), repeat=2) if levels not in allowed]
    out = without_impossible_pairs([place, label], pairs, np.random.default_rng(3), stay=[0])
    assert (out[0] == place).all()
    assert sorted(out[1]) == sorted(label)
    assert set(zip(*out, strict=True)) <= allowed
