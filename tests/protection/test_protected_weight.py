"""Weights that tell the size: protected with the other columns, and calibrated to the totals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.core.errors import ParameterError


def firms(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    size = np.exp(rng.normal(3, 1.2, rows))
    return pl.DataFrame(
        {
            "staff": np.maximum(size.round(), 1.0).astype(int),
            "wages": (size * np.exp(rng.normal(3, 0.3, rows))).round(1),
            "sector": rng.choice(["a", "b", "c"], rows),
            "weight": (1 + 60 / np.sqrt(size)).round(2),
        }
    )


@pytest.mark.usefixtures("few_exchanges")
def test_totals_come_back_and_the_size_does_not() -> None:
    data = firms()
    release = mv.protect(data, protected_weight="weight", seed=1)
    old, new = data["weight"].to_numpy(), release.data["weight"].to_numpy()
    for name in ("staff", "wages"):
        assert np.dot(new, release.data[name]) == pytest.approx(np.dot(old, data[name]), rel=1e-3)
    for sector in "abc":
        before, after = ((frame["sector"] == sector).to_numpy() for frame in (data, release.data))
        assert new[after].sum() == pytest.approx(old[before].sum(), rel=1e-3)
    assert release.kept["weighted mean"] < 1e-3
    assert release.dose["staff"].achieved > 0.7  # beside a weight in clear, .3
    assert release.in_clear == ()
    assert new.min() >= old.min()
    assert new.max() <= old.max()
    assert np.allclose(np.round(new, 2), new)
    assert any("was calibrated" in one for one in release.warnings)


@pytest.mark.usefixtures("few_exchanges")
def test_a_recipe_replays_it(tmp_path: Path) -> None:
    data = firms(120)
    release = mv.protect(data, protected_weight="weight", seed=4)
    again = mv.run(release.recipe(include_seed=True), data)
    assert again.data.equals(release.data)


def test_what_makes_no_sense_is_refused() -> None:
    data = firms(60)
    for options, said in (
        ({"protected_weight": "weight", "weight": "staff"}, "does not go with weight"),
        ({"protected_weight": "sector"}, "takes one column of numbers"),
        ({"protected_weight": "weight", "method": "pca", "keep": "rest"}, "does not go with pca"),
        ({"protected_weight": "wight"}, "did you mean 'weight'"),
    ):
        with pytest.raises(ParameterError, match=said):
            mv.protect(data, **options)
