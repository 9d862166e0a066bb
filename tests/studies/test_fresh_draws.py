"""What is recommended keeps its limits in releases that had no part in the choice."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

import microveil as mv
from microveil.studies.compare import ROLES, StudyPlan, measured, planned_release
from microveil.studies.race import _lows, worst_of
from microveil.studies.recommend import MEASURES, Advice

FRESH = 12


def table(rows: int, columns: int, seed: int, *, skewed: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, columns)) @ (np.eye(columns) + 0.4 * rng.standard_normal((columns, columns)))
    values = np.exp(0.6 * values + 3).round(1) if skewed else values
    return pd.DataFrame(values, columns=[f"v{k}" for k in range(columns)])


def check_on_fresh_releases(data: pd.DataFrame, advice: Advice, measures: Any, limit: float) -> None:
    """The mean gain of the worst attack is within the limit, as far as the mean of so many can tell."""
    assert advice.method is not None
    assert advice.label is not None
    roles = {**dict.fromkeys(ROLES), "rules": "infer"}
    plan = StudyPlan(data, roles, measures, None, as_released=True)
    releases = [
        measured(plan, planned_release(advice.label, advice.method, advice.params, number, "fresh", 99))
        for number in range(FRESH)
    ]
    name, mean, _ = worst_of(releases)
    spread = float(np.std([one["gains"][name][0] for one in releases], ddof=1)) / FRESH**0.5
    if advice.sure:
        assert mean <= limit + 2 * spread, (name, mean, spread)
    else:
        low = _lows({"": releases})[""][0]
        assert low <= limit, (name, low)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_choice_from_a_few_releases_holds_in_others(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    measures = ("dbrl", "extreme_disclosure", "interval_disclosure_own", "pil")
    monkeypatch.setattr(importlib.import_module("microveil.studies.recommend"), "MEASURES", measures)
    data = table(120, 3, seed)
    methods: list[Any] = [("noise", {"noise_sd_ratio": 0.7}), ("noise", {"noise_sd_ratio": 1.0}), "pca", "shuffle"]
    found = mv.recommend(data, methods=methods, limit=0.25, seed=seed, workers=1, time=None)
    check_on_fresh_releases(data, found, measures, 0.25)
    made = {label: len(releases) for label, releases in found.study.figures.items()}
    assert made[found.label or ""] == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "seed"),
    [(table(500, 5, 2), 1), (table(500, 5, 2), 2), (table(1500, 4, 3, skewed=True), 1)],
    ids=["small", "small again", "skewed"],
)
def test_all_attacks_on_fresh_releases(data: pd.DataFrame, seed: int) -> None:
    """Tables on which five releases alone had said that an attack gains next to nothing: the mean of twelve was .1."""
    found = mv.recommend(data, seed=seed, time=None)
    check_on_fresh_releases(data, found, MEASURES, 0.02)
