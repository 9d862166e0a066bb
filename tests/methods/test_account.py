"""What a release tells of what it left alone and what may have come back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import microveil as mv


def shared(rows: int = 600) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.repeat(rng.gamma(2.0, size=(rows, 2)), 3, axis=1) + rng.gamma(2.0, size=(rows, 6))


def test_untouched_variance_is_what_no_perturbed_component_has() -> None:
    data = shared()
    kept = mv.protect(data, "factor", factors=2, rest="keep", seed=1)
    rest = kept.components.untouched_variance
    assert list(rest) == [str(j) for j in range(6)]
    assert all(0.2 < share < 0.9 for share in rest.values())  # half of each column is its own, by construction
    assert any("rest of the columns" in warning for warning in kept.warnings)
    everything = mv.protect(data, "factor", factors=2, seed=1).components.untouched_variance
    assert max(everything.values()) == pytest.approx(0.0, abs=1e-12)
    some = mv.protect(data, "pca", components=2, seed=1).components
    assert np.allclose(list(some.untouched_variance.values()), some.variance_shares[:, 2:].sum(axis=1))


def test_leakage_is_told_where_components_change_places() -> None:
    data = shared()
    found = mv.protect(data, "primp", seed=1).leakage
    assert found is not None
    whole = mv.leakage_distribution(600, 6)
    assert (found.expected, found.risk) == (whole.mean, whole.risk)
    assert found.near_returns is not None
    assert found.near_returns > 1e3 * found.expected
    # Components that stay together count as one more: three that moved, and the rest.
    part = mv.protect(data, "pca", components=3, seed=1).leakage
    assert part is not None
    assert part.expected == mv.leakage_distribution(600, 4).mean
    assert mv.protect(data, "veil", seed=1).leakage is None, "its records are not made of swapped values"


@pytest.mark.parametrize("root", ["symmetric", "triangular"])
def test_exact_moments_move_records_that_came_back(root: str, tmp_path: Path) -> None:
    """The share that stays near, from the release alone, which is a linear map of the swapped sources."""
    rng = np.random.default_rng(2)
    data = rng.gamma(2.0, size=(60, 3)) @ rng.standard_normal((3, 3))
    plain = mv.protect(data, "primp", seed=1, rules=None)
    assert plain.leakage.still_near == plain.leakage.expected, "nothing moves them"
    orders = np.column_stack([rng.permutation(60) for _ in range(3)])
    options = {"seed": 1, "rules": None, "root": root}
    release = mv.protect(data, "primp_cholesky", permutations=orders, exact=True, **options)
    standard = (data - data.mean(axis=0)) / data.std(axis=0)
    sources = np.linalg.solve(release.components.weights, standard.T).T
    swapped = np.column_stack([source[order] for source, order in zip(sources.T, orders.T, strict=True)])
    ones = np.ones((60, 1))
    released = (release.data - data.mean(axis=0)) / data.std(axis=0)
    onto, *_ = np.linalg.lstsq(np.hstack([swapped, ones]), released, rcond=None)
    back = np.linalg.solve(release.components.weights, (np.hstack([sources, ones]) @ onto).T).T
    near = (np.abs(back - sources) <= 0.1 * sources.std(axis=0)).all(axis=1).mean()
    assert 0 < near < 1
    assert release.leakage.still_near == pytest.approx(near * release.leakage.expected, rel=1e-9)
    release.report(tmp_path / "report.html")
    assert "Exact moments move them" in (tmp_path / "report.html").read_text(encoding="utf-8")
    same = mv.protect(data, "primp_cholesky", permutations=orders[:, [0, 0, 0]], exact=True, **options).leakage
    assert same.still_near == same.expected, "components that go together have their moments already"


def test_the_literal_hybrid_leaks_less() -> None:
    data = np.random.default_rng(3).gamma(2.0, size=(80, 4)) @ np.tri(4)
    found = {
        root: [mv.protect(data, "primp_cholesky", seed=seed, rules=None, root=root).leakage for seed in range(8)]
        for root in ("symmetric", "triangular")
    }
    left = {root: np.mean([one.still_near for one in of]) for root, of in found.items()}
    assert left["triangular"] < left["symmetric"] < found["symmetric"][0].expected


@pytest.mark.parametrize("method", ["pca", "factor", "primp", "ics", "veil", "ipso"])
def test_what_a_component_explains_is_its_variance_in_the_columns(method: str) -> None:
    """Scores of unit variance are no equal shares: the columns owe to each what its loadings say."""
    data = shared()
    components = mv.protect(data, method, seed=1).components
    standard = (data - data.mean(axis=0)) / data.std(axis=0)
    if method == "pca":
        expected = np.sort(np.linalg.eigvalsh(np.corrcoef(data, rowvar=False)))[::-1] / 6
    else:
        # Scores of unit variance, uncorrelated: weights are the columns' correlations with them.
        assert components.weights @ components.weights.T == pytest.approx(standard.T @ standard / 600, abs=1e-8)
        expected = np.square(components.weights).sum(axis=0) / 6
        assert expected.max() > 1.5 / components.variance.size
    assert components.explained == pytest.approx(expected, abs=1e-9)
    assert components.explained.sum() == pytest.approx(1)


def test_what_public_columns_explain_is_in_no_component() -> None:
    data = shared()
    components = mv.protect(data, "pca", public=["5"], seed=1).components
    design = np.column_stack([np.ones(600), data[:, 5]])
    left = data[:, :5] - design @ np.linalg.lstsq(design, data[:, :5], rcond=None)[0]
    assert components.explained.sum() == pytest.approx((left.var(axis=0) / data[:, :5].var(axis=0)).mean(), abs=1e-12)


def test_columns_that_changed_less_than_asked_are_told_with_their_doses() -> None:
    """A weight that all columns follow leaves them hardly any other arrangement."""
    size = np.random.default_rng(4).gamma(2.0, size=400)
    noise = np.random.default_rng(5).gamma(2.0, 0.05, size=(400, 3))
    data = np.column_stack([size[:, None] * (1 + noise), 1 / size])
    release = mv.protect(data, weight="3", seed=1)
    (said,) = [said for said in release.warnings if "less than half as much as asked" in said]
    for name, dose in release.dose.items():
        if dose.asked is not None and 0.01 <= dose.achieved < dose.asked / 2:
            assert f"{name} ({100 * dose.achieved:.0f} of {100 * dose.asked:.0f} %)" in said
    assert " of 100 %)" in said
