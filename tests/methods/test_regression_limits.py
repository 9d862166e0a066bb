"""Where the regression family stops: what is refused, lowered or told, and tables of other maskers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from regression_family import ROWS, WIDTH, masked, population, relative, released, residuals

import microveil as mv
from microveil.core.errors import DataError, ParameterError
from microveil.core.factor import completion, generalised_qr, largest_share


def test_kinds_and_what_is_told_of_untouched_scores() -> None:
    y, x = population()
    assert released("ipso", y, x)[0].release_type == "synthetic"
    for method in ("score_mix", "residual_mix", "romm"):
        assert released(method, y, x)[0].release_type == "hybrid"
    kept, _ = released("score_mix", y, x, correlation=[1, 1, 0.5, 0.5])
    assert any("2 of 4 components are untouched" in said for said in kept.warnings)


def test_columns_that_hardly_change_are_told_also_where_nobody_said_how_much() -> None:
    y, x = population()
    for method, given in {"romm": {"noise": 1e-3}, "correct": {"other": y}}.items():
        release, new = released(method, y, x, seed=1, **given)
        assert np.abs(new - y).max() < 0.1 * y.std()
        said = [warning for warning in release.warnings if "hardly changed" in warning]
        assert len(said) == WIDTH, method
    first, new = released("score_mix", y, x, seed=1, correlation=[1, None, None, None])
    assert np.abs(new[:, 0] - y[:, 0]).max() <= 1e-12
    assert any("column '0' hardly changed" in said for said in first.warnings)
    assert any("cells that come back as they were" in said and "0 (100.00%)" in said for said in first.warnings)
    assert not any("hardly" in said or "come back" in said for said in released("ipso", y, x, seed=1)[0].warnings)


def test_records_that_come_back_whole_are_told() -> None:
    y, x = population()
    whole, _ = released("correct", y, x, other=y)
    assert "100.00% of the records come back as they were, in all protected columns" in whole.warnings
    few = np.random.default_rng(0).integers(0, 3, (400, 3)).astype(float)
    swapped = mv.protect(few, "rank_swap", rules=None, seed=1)
    same = float((swapped.data == few).all(axis=1).mean())
    assert same > 0.01
    assert any(f"{same:.2%} of the records come back" in said for said in swapped.warnings)


def test_at_the_limit_of_alpha_one_combination_is_released_and_told() -> None:
    """Where the limit is met there is a v with E* v = alpha E D v: an exact fact of each record."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((ROWS, 1)) + 0.3 * rng.standard_normal((ROWS, 3))
    asked = np.array([0.95, 0.2, 0.5])
    release, new = released("residual_mix", y, None, seed=1, correlation=asked.tolist())
    old, drawn = y - y.mean(axis=0), new - new.mean(axis=0)
    part = old * asked
    values, vectors = np.linalg.eig(np.linalg.solve(old.T @ old, part.T @ part))
    direction = vectors[:, values.real.argmax()].real
    assert np.corrcoef(drawn @ direction, part @ direction)[0, 1] > 1 - 1e-6
    assert any("nothing is added to them, and it can link records" in said for said in release.warnings)
    free, _ = released("residual_mix", y, None, seed=1, correlation=0.5)
    assert not any("link records" in said for said in free.warnings)


def test_alpha_is_that_of_the_worst_stratum() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal((200, 3))
    y[150:] = rng.standard_normal((50, 1)) + 0.05 * rng.standard_normal((50, 3))
    asked = [0.95, 0.1, 0.5]
    data = np.column_stack([y, np.repeat([0, 1], [150, 50])])
    release = mv.protect(data, "residual_mix", strata=3, correlation=asked, rules=None, seed=1)
    limits = []
    for part in (y[:150], y[150:]):
        own = generalised_qr(part - part.mean(axis=0)).loadings
        limits.append(largest_share(own, own * asked))
    assert limits[1] < 0.2 < limits[0]
    assert release.found["alpha_limit"] == pytest.approx(limits[1], rel=1e-9)
    assert any("in a stratum" in said and f"{release.found['alpha']:.8g}" in said for said in release.warnings)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12, 1e100])
def test_another_table_may_be_in_other_units(size: float) -> None:
    """The limit follows the size of the part, and what completes it makes the same whole."""
    y, x = population()
    other = masked(y) * size
    own, part = generalised_qr(residuals(y, x)).loadings, generalised_qr(residuals(other, x)).loadings
    plain = largest_share(own, generalised_qr(residuals(masked(y), x)).loadings)
    assert largest_share(own, part) * size == pytest.approx(plain, rel=1e-9)
    found = completion(own, part)
    made = found.matrix.T @ found.matrix + np.square(found.share) * (part.T @ part)
    assert relative(made, own.T @ own, own, own) <= 1e-12
    _, new = released("synthetic_addition", y, x, other=other, seed=1)
    assert relative(new.T @ new, y.T @ y, y, y) <= 1e-12


@pytest.mark.parametrize(
    ("method", "given", "problem"),
    [
        ("score_mix", {"correlation": 1}, "1 for every score would release the data as they are"),
        ("score_mix", {"correlation": [1, 1, 1, 1]}, "1 for every score would release the data as they are"),
        ("ipso", {"marginals": "original"}, "exact covariances; use marginals='smoothed'"),
        ("score_mix", {"correlation": 1.5}, "a correlation is at least 0 and at most 1"),
        ("score_mix", {"correlation": [0.5, -0.1, 0.5, 0.5]}, "a correlation is at least 0 and at most 1"),
        ("score_mix", {"correlation": True}, "true and false are not correlations"),
        ("score_mix", {"correlation": [0.5, 0.5]}, "2 given, but there are 4 scores"),
        ("residual_mix", {"correlation": [0.5, 0.5]}, r"2 given, but 4 columns vary \(0, 1, 2, 3\)"),
        ("residual_mix", {"correlation": None}, "correlation"),
        ("romm", {"noise": -1.0}, "is not above 0"),
        ("romm", {"noise": True}, "true and false are not numbers"),
        ("romm", {"noise": 1.0, "target_correlation": 0.5}, "give one of them"),
        ("romm", {"target_correlation": 1.0}, "is not below 1"),
        ("correct", {}, "other"),
        ("correct", {"other": 3}, "must be a table"),
        ("ipso", {"decomposition": "lu"}, "decomposition"),
    ],
)
def test_bad_parameters_are_refused(method: str, given: dict[str, Any], problem: str) -> None:
    y, _ = population()
    with pytest.raises(ParameterError, match=problem):
        mv.protect(y, method, **given)


def test_another_table_must_fit() -> None:
    y, _ = population()
    frame = pd.DataFrame(y, columns=list("abcd"))
    with pytest.raises(DataError, match="other: has no column 'd'"):
        mv.protect(frame, "correct", other=frame[list("abc")])
    with pytest.raises(DataError, match="other: has 299 rows, the data 300"):
        mv.protect(frame, "correct", other=frame.iloc[1:])
    with pytest.raises(DataError, match="other: column 'b' has missing or infinite cells"):
        mv.protect(frame, "correct", other=frame.assign(b=np.where(frame["b"] > 0, frame["b"], np.nan)))
    with pytest.raises(DataError, match="other: column 'b' is too large or too small in its unit"):
        mv.protect(frame, "correct", other=frame.assign(b=frame["b"] * 1e200))
    with pytest.raises(DataError, match="other: it is constant or follows from the public columns"):
        mv.protect(frame, "correct", other=frame * 0)
    with pytest.raises(DataError, match="has 3 dimensions, and 4 are needed"):
        mv.protect(frame, "correct", other=frame.assign(d=frame["a"] + frame["b"]))
    shuffled = frame[list("dcba")]
    one, two = (mv.protect(frame, "correct", other=other).data for other in (frame * 1.1, shuffled * 1.1))
    assert one.equals(two)


def test_another_table_comes_from_a_file_too_and_never_into_a_recipe(tmp_path: Any) -> None:
    y, _ = population()
    frame = pd.DataFrame(y, columns=list("abcd"))
    path = tmp_path / "masked.csv"
    (frame * 1.2).to_csv(path, index=False)
    release = mv.protect(frame, "correct", other=path)
    assert release.recipe()["parameters"]["other"] == str(path)
    direct = mv.protect(frame, "correct", other=frame * 1.2)
    assert "other" not in direct.recipe()["parameters"]
    assert np.abs(direct.data.to_numpy() - release.data.to_numpy()).max() <= 1e-9


def test_missing_cells_of_another_table_follow_those_of_the_data() -> None:
    y, _ = population()
    frame = pd.DataFrame(y, columns=list("abcd"))
    frame.loc[::7, "b"] = np.nan
    release = mv.protect(frame, "correct", other=mv.protect(frame, "noise", seed=1).data, seed=2)
    assert release.data["b"].isna().equals(frame["b"].isna())
    assert release.kept["covariance"] <= 1e-9


def test_the_limit_of_alpha_for_one_column_is_the_ratio_of_lengths() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((30, 1)), rng.standard_normal((30, 1))
    expected = np.linalg.norm(one) / np.linalg.norm(other)
    assert largest_share(one, other) == pytest.approx(expected, rel=1e-12)
    assert largest_share(one, np.zeros((30, 1))) == np.inf


@pytest.mark.parametrize("asked", [None, "free", [0.9, None, 0.5, 1], 0.25])
def test_a_free_score_is_free_in_a_recipe_too(asked: Any) -> None:
    y, _ = population()
    release = mv.protect(y, "score_mix", correlation=asked, seed=3)
    stored = release.recipe()["parameters"]["correlation"]
    assert None not in (stored if isinstance(stored, list) else [stored])
    assert np.array_equal(mv.protect(y, "score_mix", correlation=stored, seed=3).data, release.data)


def test_what_public_columns_explain_is_not_counted_as_altered() -> None:
    y, x = population()
    explained = 1 - residuals(y, x).var(axis=0) / y.var(axis=0)
    release, _ = released("ipso", y, x, seed=1)
    assert release.components.altered_variance == pytest.approx(1 - explained.mean(), rel=1e-9)
