"""Data shuffling: the values exactly, the rank correlations on average, and nothing else of the old order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from reference import golden, tarragona_834
from scipy import stats
from scipy.special import ndtri

import microveil as mv
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.errors import ParameterError
from microveil.measures.risk.extremes import extreme_disclosure
from microveil.perturb import Columns
from microveil.perturb.base import with_covariance
from microveil.perturb.shuffle import Shuffle, conditional, drawn_scores, normal_correlations, normal_scores

Array = NDArray[np.float64]
ACROSS = np.array([[1.0, 0.8, 0.5, 0.3], [0.8, 1.0, 0.4, 0.2], [0.5, 0.4, 1.0, -0.4], [0.3, 0.2, -0.4, 1.0]])


def firms(rows: int = 400, seed: int = 0) -> Array:
    """Four columns with normal ranks and anything but normal values."""
    normal = np.random.default_rng(seed).standard_normal((rows, 4)) @ np.linalg.cholesky(ACROSS).T
    return np.column_stack([np.exp(normal[:, 0]), normal[:, 1] ** 3, np.exp(2 * normal[:, 2]), normal[:, 3]])


def shuffled(public: Array, values: Array, seed: int) -> Array:
    return Shuffle().apply_together(Columns(values.T, Streams(seed).stream("x"), public.T)).T


def ranks(values: Array) -> Array:
    return np.apply_along_axis(stats.rankdata, 0, values)


def spearman(values: Array) -> Array:
    return np.corrcoef(ranks(values).T)


def close_on_average(found: Array, expected: Array) -> bool:
    """Is the mean over the repeats (along the first axis) within four standard errors of what theory says?"""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return bool((np.abs(found.mean(axis=0) - expected) <= 4 * error).all())


# --- The theorem


@pytest.mark.parametrize("public", [None, [0, 3]])
def test_the_values_come_back_to_the_last_digit(public: list[int] | None) -> None:
    data = firms()
    release = mv.protect(data, "shuffle", public=public, seed=1)
    assert np.array_equal(np.sort(release.data, axis=0), np.sort(data, axis=0))
    moved = [j for j in range(4) if j not in (public or [])]
    assert (release.data != data)[:, moved].mean() > 0.9
    assert release.kept["mean"] < 1e-14
    assert (release.release_type, release.kept_on_average) == ("masked", ())
    said = "\n".join(release.warnings)
    assert "100% of the values that one record has are released as they are" in said
    assert "columns the second largest can tell the largest within a tenth" in said or public is not None


@pytest.mark.parametrize("public", [0, 2])
def test_rank_correlations_come_back_on_average(public: int) -> None:
    """Also with public columns; over many files, as the ranks of one have correlations of their own by accident."""
    gaps = []
    for seed in range(150):
        data = firms(300, seed)
        new = np.column_stack([data[:, :public], shuffled(data[:, :public], data[:, public:], seed)])
        gaps.append(spearman(new) - spearman(data))
    assert close_on_average(np.array(gaps), np.zeros((4, 4)))


def test_given_the_public_columns_the_new_order_tells_nothing_about_the_old_one() -> None:
    """Normal scores of a column before and after are related through the public columns, and in no other way."""
    related, left = [], []
    for seed in range(150):
        data = firms(300, seed)
        public, values = data[:, :2], data[:, 2:]
        x, old, new = (ndtri((ranks(one) - 0.5) / 300) for one in (public, values, shuffled(public, values, seed)))
        basis = np.column_stack([np.ones(300), x])
        a, b = (one - basis @ np.linalg.lstsq(basis, one, rcond=None)[0] for one in (old, new))
        related.append([np.corrcoef(old[:, j], new[:, j])[0, 1] for j in range(2)])
        left.append([np.corrcoef(a[:, j], b[:, k])[0, 1] for j in range(2) for k in range(2)])
    assert close_on_average(np.array(left), np.zeros(4))
    assert not close_on_average(np.array(related), np.zeros(2))


def test_the_old_order_counts_through_the_rank_correlations_alone() -> None:
    """Two orders of the same values with the same rank correlation give the same release."""
    rng = np.random.default_rng(1)
    x, one = np.arange(60.0), rng.permutation(60).astype(float)
    other = one.copy()
    while (other == one).mean() > 0.5:
        a, b, c, d = rng.choice(60, 4, replace=False)
        # Two exchanges whose effects on the sum of products cancel.
        if (x[a] - x[b]) * (other[b] - other[a]) == -(x[c] - x[d]) * (other[d] - other[c]):
            other[[a, b]], other[[c, d]] = other[[b, a]], other[[d, c]]
    assert stats.spearmanr(x, one).statistic == pytest.approx(stats.spearmanr(x, other).statistic, abs=1e-15)
    assert np.array_equal(shuffled(x[:, None], one[:, None], 3), shuffled(x[:, None], other[:, None], 3))


def test_only_the_order_of_values_counts() -> None:
    data = np.abs(firms(seed=2))
    other = np.column_stack([np.log(data[:, 0]), data[:, 1] ** 5, np.exp(data[:, 2] / 100), data[:, 3] * 7 - 2])
    one, changed = (ranks(shuffled(table[:, :2], table[:, 2:], 4)) for table in (data, other))
    assert np.array_equal(one, changed)


def test_extremes_are_given_away_as_by_every_release_of_the_old_values() -> None:
    data = firms(seed=3)
    released = mv.protect(data, "shuffle", seed=1).data
    assert extreme_disclosure(Matrix.from_array(data), Matrix.from_array(released)).value == 1


# --- Where the model of the ranks does not hold


def loss(public: Array, values: Array, paper: bool) -> float:
    """The mean loss of rank correlation between the first public and the first released column."""
    both = np.column_stack([public, values])
    found = []
    for seed in range(40):
        draws = np.random.default_rng(seed).standard_normal(values.T.shape)
        if paper:
            slopes, left = conditional(normal_correlations(ranks(both).T), public.shape[1])
            scores = slopes.T @ normal_scores(ranks(public).T) + np.linalg.cholesky(left) @ draws
        else:
            scores = drawn_scores(public.T, values.T, draws)
        found.append(stats.spearmanr(public[:, 0], scores[0]).statistic)
    return float(stats.spearmanr(public[:, 0], values[:, 0]).statistic - np.mean(found))


def test_labels_and_heaps_of_zeros_keep_their_rank_correlations() -> None:
    """The paper's scores have less variance than its model takes them to have, where many values are equal."""
    data = firms(2_000, 4)
    label, zeros = (data[:, :1] > 1).astype(float), np.maximum(data[:, :1], np.quantile(data[:, 0], 0.6))
    for public in (label, zeros):
        assert loss(public, data[:, 1:2], paper=True) > 0.05
        assert abs(loss(public, data[:, 1:2], paper=False)) < loss(public, data[:, 1:2], paper=True) / 2


@pytest.mark.parametrize("case", ["twins", "nearly collinear", "groups", "one of a kind", "more columns than rows"])
def test_public_columns_that_do_not_fit_the_model_give_scores_of_unit_variance(case: str) -> None:
    data, rng = firms(200, 5), np.random.default_rng(6)
    group = rng.integers(0, 6, 200)
    public = {
        "twins": data[:, [0, 0, 1]],
        "nearly collinear": data[:, [0]] + 0.05 * rng.standard_normal((200, 4)),
        "groups": (group[:, None] == np.arange(5)).astype(float),
        "one of a kind": (np.arange(200)[:, None] == 3).astype(float),
        "more columns than rows": rng.standard_normal((200, 250)),
    }[case]
    draws = rng.standard_normal((2, 200))
    scores = drawn_scores(public.T, data[:, 2:].T, draws)
    # The variance of 200 normal scores is within 4 sqrt(2 / 200) of 1, that of their expectation is bounded by OFF.
    assert scores.var(axis=1) == pytest.approx(np.ones(2), abs=0.5)


def test_a_constant_public_column_tells_nothing() -> None:
    data = firms(100, 7)
    frame = pd.DataFrame(data, columns=list("abcd")).assign(g=np.repeat(["u", "v"], 50))
    frame.loc[frame["g"] == "u", "a"] = 5.0
    release = mv.protect(frame, "shuffle", public="a", strata="g", seed=1)
    for group in ("u", "v"):
        before, after = (table.loc[frame["g"] == group, list("bcd")].to_numpy() for table in (frame, release.data))
        assert np.array_equal(np.sort(after, axis=0), np.sort(before, axis=0))


def test_an_order_that_public_columns_determine_is_warned_of() -> None:
    x = np.random.default_rng(8).standard_normal(300)
    data = np.column_stack([x, np.exp(3 * x), np.random.default_rng(9).standard_normal(300)])
    release = mv.protect(data, "shuffle", public=0, seed=1)
    assert np.array_equal(release.data[:, 1], data[:, 1])
    assert [warning for warning in release.warnings if "'1' hardly changed" in warning]


def test_zeros_stay_as_many_and_correlations_shrink_with_them() -> None:
    data = firms(1_000, 10)
    values = np.maximum(data[:, 1:2], np.quantile(data[:, 1], 0.5))
    new = [shuffled(data[:, :1], values, seed) for seed in range(20)]
    assert all(np.array_equal(np.sort(one, axis=0), np.sort(values, axis=0)) for one in new)
    before = stats.spearmanr(data[:, 0], values[:, 0]).statistic
    after = np.mean([stats.spearmanr(data[:, 0], one[:, 0]).statistic for one in new])
    assert 0.85 * before < after < before


def test_weights_are_refused_where_they_would_be_ignored() -> None:
    data = np.column_stack([firms(), np.linspace(1, 5, 400)])
    with pytest.raises(ParameterError, match=r"^weight: perturb='shuffle'"):
        mv.protect(data, "shuffle", weight=4)
    assert mv.protect(data, "shuffle", weight=4, exact=True, seed=1).kept["covariance"] < 1e-12


# --- sdcMicro's method "ds"


def root_by_eigenvectors(left: Array, signs: Array) -> Array:
    """The root that R's `mvrnorm` uses: the largest eigenvalue first, signs as told by the first entries."""
    values, vectors = np.linalg.eigh(left)
    root: Array = (vectors * np.sqrt(values) * np.sign(vectors[0]))[:, ::-1] * signs
    return root


def turned(draws: Array, left: Array, signs: Array) -> Array:
    """Draws that our root turns into the noise that R's root makes of theirs: roots differ by a rotation."""
    rotation = np.linalg.solve(with_covariance(np.eye(len(left)), left), root_by_eigenvectors(left, signs))
    assert np.allclose(rotation @ rotation.T, np.eye(len(left)))
    return draws @ rotation.T


def sdcmicro_ds(public: Array, values: Array, draws: Array, signs: Array) -> Array:
    """The scores from normal quantiles of (rank - 1/2) / n and 2 sin(π r / 6), in plain numpy and scipy."""
    p = public.shape[1]
    r = 2 * np.sin(np.pi / 6 * spearman(np.column_stack([public, values])))
    slopes = np.linalg.solve(r[:p, :p], r[:p, p:])
    noise = draws @ root_by_eigenvectors(r[p:, p:] - r[p:, :p] @ slopes, signs).T
    expected: Array = ndtri((ranks(public) - 0.5) / len(public)) @ slopes + noise
    return expected


def left_open(public: Array, values: Array) -> Array:
    return conditional(normal_correlations(ranks(np.column_stack([public, values])).T), public.shape[1])[1]


SIGNS = np.array([-1.0, -1.0, 1.0])
PUBLIC = ["FIXED.ASSETS", "CURRENT.ASSETS", "PAID.UP.CAPITAL", "SHORT.TERM.DEBT"]


def test_the_shuffle_of_sdcmicro_comes_from_its_draws() -> None:
    names, data = tarragona_834()
    columns, expected = golden("shuffle_ds_shuffled.csv")
    _, scores = golden("shuffle_ds_perturbed.csv")
    _, draws = golden("shuffle_ds_draws.csv")
    public, values = (data[:, [names.index(name) for name in chosen]] for chosen in (PUBLIC, columns))
    draws = turned(draws[:, :3], left_open(public, values), SIGNS)
    assert np.abs(drawn_scores(public.T, values.T, draws.T).T - scores).max() < 1e-12
    frame = pd.DataFrame(data, columns=names)
    release = mv.protect(frame, "shuffle", confidential=columns, public=PUBLIC, draws=draws, rules=None)
    assert np.array_equal(release.data[columns], expected)


def test_the_same_formula_on_our_own_data() -> None:
    data, draws = firms(500, 11), np.random.default_rng(12).standard_normal((500, 2))
    public, values, signs = data[:, :2], data[:, 2:], np.array([1.0, -1.0])
    scores = sdcmicro_ds(public, values, draws, signs)
    draws = turned(draws, left_open(public, values), signs)
    assert np.abs(drawn_scores(public.T, values.T, draws.T).T - scores).max() < 1e-12
    release = mv.protect(data, "shuffle", public=[0, 1], draws=draws, rules=None)
    assert np.array_equal(ranks(release.data[:, 2:]), ranks(scores))
