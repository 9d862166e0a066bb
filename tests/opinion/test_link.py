"""The link: a known curve comes back, it rises, it says what it rests on. The observers are simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import observers
import pytest
import tomli_w
from numpy.typing import NDArray
from scipy.stats import t

from microveil.assessment import mos
from microveil.core.table import Matrix
from microveil.errors import DataError, FileError, ParameterError
from microveil.measures.utility import MEASURES
from microveil.opinion.score import Opinion, OpinionScores
from microveil.opinion.session import Stimulus

Array = NDArray[np.float64]
GRID = np.linspace(0.2, 0.95, 40)


def scored(x: Array, y: Array, *, people: int = 20, simulated: bool = True) -> OpinionScores:
    """Scores as if they had been measured."""
    shown = [Stimulus(id=f"s{i}", source="a", removed=1, ssim=float(a), psnr=float(30 * a)) for i, a in enumerate(x)]
    opinions = (Opinion(one, people, float(mean), 1.0, 0.0, 1.0) for one, mean in zip(shown, y, strict=True))
    return OpinionScores("difference", tuple(opinions), (), {}, people, [], simulated)


def curve(theta: Array, x: Array) -> Array:
    bottom, top, middle, slope = theta
    found: Array = bottom + (top - bottom) / (1 + np.exp(-slope * (x - middle)))
    return found


TRUE = np.array([observers.TRUTH[name] for name in ("bottom", "top", "middle", "slope")])


def slopes(x: Array) -> Array:
    """How the curve moves with each parameter, by central differences."""
    steps = 1e-5 * TRUE
    columns = [
        (curve(TRUE + step, x) - curve(TRUE - step, x)) / (2 * size)
        for size, step in zip(steps, np.diag(steps), strict=True)
    ]
    return np.column_stack(columns)


# --- The fit


def test_points_on_a_curve_give_the_curve() -> None:
    x = np.linspace(0.2, 0.95, 14)
    link = mos.fit_link(scored(x, curve(TRUE, x)))
    assert [link.bottom, link.top, link.middle, link.slope] == pytest.approx(TRUE.tolist(), rel=1e-5)
    assert (link.lowest, link.highest, link.stimuli, link.observers) == (0.2, 0.95, 14, 20)
    assert link.r2 == pytest.approx(1, abs=1e-9)
    assert link.residual_sd < 1e-3
    assert link.at_bound == ()
    assert [link.predict(value) for value in GRID] == pytest.approx(curve(TRUE, GRID).tolist(), abs=1e-4)


@pytest.mark.slow
def test_a_known_curve_is_recovered_within_its_standard_error() -> None:
    """Mean over many fits, parameter by parameter, and the whole curve of each fit, against the information matrix."""
    sd, repeats = 1.5, 30
    x = np.linspace(0.2, 0.95, 40)
    covariance = sd**2 * np.linalg.inv(slopes(x).T @ slopes(x))
    rng = np.random.default_rng(1)
    links = [mos.fit_link(scored(x, curve(TRUE, x) + rng.normal(0, sd, x.size))) for _ in range(repeats)]
    found = np.array([[link.bottom, link.top, link.middle, link.slope] for link in links])
    errors = np.sqrt(np.diag(covariance))
    assert (np.abs(found.mean(axis=0) - TRUE) < 4 * errors / np.sqrt(repeats)).all()
    assert (np.abs(found - TRUE) < 4.5 * errors).all()  # 120 figures: one beyond 4.5 in 1200 such tests
    along = np.sqrt(np.einsum("ij,jk,ik->i", slopes(GRID), covariance, slopes(GRID)))
    gaps = [[link.predict(value) for value in GRID] - curve(TRUE, GRID) for link in links]
    assert (np.abs(gaps) < 5 * along).all()
    squared = [link.residual_sd**2 for link in links]
    # 36 x s² / sd² is chi-squared with 36 degrees of freedom.
    assert np.mean(squared) == pytest.approx(sd**2, abs=4 * sd**2 * np.sqrt(2 / 36 / repeats))


def test_simulated_observers_give_their_curve_back() -> None:
    """Within the noise of means of 20 observers; noise that would lead above 100 is cut off, so it stays below 88."""
    shown = observers.session(count=24)
    scores = mos.score(observers.ratings(shown, noise=6.0), screening=False)
    link = mos.fit_link(scores)
    x = np.array([opinion.stimulus.ssim for opinion in scores.opinions])
    covariance = 36 / 20 * np.linalg.inv(slopes(x).T @ slopes(x))
    inside = GRID[curve(TRUE, GRID) < 88]
    along = np.sqrt(np.einsum("ij,jk,ik->i", slopes(inside), covariance, slopes(inside)))
    gaps = [link.predict(value) - observers.true_mos(value) for value in inside]
    assert (np.abs(gaps) < 4 * along + 0.5).all()
    assert link.simulated
    assert link.caveats == ["the observers were simulated: it says nothing about people"]


@pytest.mark.quick("0", "2", "4")
@pytest.mark.parametrize("seed", range(8))
def test_it_rises_whatever_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, 12))
    y = np.clip(100 * x + rng.normal(0, 30, 12), 0, 100)
    link = mos.fit_link(scored(x, y))
    path = [link.predict(value) for value in np.linspace(-1, 2, 400)]
    assert (np.diff(path) >= 0).all()
    assert link.predict(-1) < link.predict(1)
    assert 0 <= min(path) <= max(path) <= 100
    assert link.predict(np.inf) == pytest.approx(link.top)
    assert link.predict(-np.inf) == pytest.approx(link.bottom)


def test_psnr_and_ssim_of_the_same_stimuli_give_the_same_scores() -> None:
    scores = mos.score(observers.ratings(observers.session()))
    by_ssim, by_psnr = mos.fit_link(scores), mos.fit_link(scores, predictor="psnr")
    for value in GRID:
        assert by_psnr.predict(10 + 20 * value) == pytest.approx(by_ssim.predict(value), abs=1e-3)
    assert (by_psnr.lowest, by_psnr.highest) == (14.0, 29.0)


def on_a_grid(x: Array, y: Array) -> float:
    """The least sum of squares over many middles and slopes: given these, the curve is a straight line in the rest."""
    least = np.inf
    for middle in np.linspace(x[0] - 0.9 * np.ptp(x), x[-1] + 0.9 * np.ptp(x), 45):
        for slope in np.geomspace(0.2, 90, 45) / np.ptp(x):
            rise = curve(np.array([0, 1, middle, slope]), x)
            design = np.column_stack([np.ones(x.size), rise])
            (bottom, height), *_ = np.linalg.lstsq(design, y)
            if bottom >= 0 and 0 <= height <= 100 - bottom:
                least = min(least, float(np.square(design @ [bottom, height] - y).sum()))
    return least


@pytest.mark.quick("2")
@pytest.mark.parametrize("seed", [2, 11, 14, 17])
def test_the_best_of_many_starts_is_no_worse_than_a_search_on_a_grid(seed: int) -> None:
    """Much noise: steps at several places are nearly as good, and one start is not enough."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, 12))
    y = np.clip(30 + 40 * x + rng.normal(0, 15, 12), 0, 100)
    assert 8 * mos.fit_link(scored(x, y)).residual_sd ** 2 <= on_a_grid(x, y) * (1 + 1e-6)


def test_the_fit_is_described_as_it_is() -> None:
    x = np.linspace(0.2, 0.95, 14)
    y = curve(TRUE, x) + np.random.default_rng(2).normal(0, 4, 14)
    link = mos.fit_link(scored(x, y))
    left = np.square([link.predict(value) for value in x] - y).sum()
    assert link.residual_sd == pytest.approx(np.sqrt(left / (14 - 4)), rel=1e-9)
    assert link.r2 == pytest.approx(1 - left / np.square(y - y.mean()).sum(), rel=1e-9)


# --- What it says of itself


def test_parameters_at_a_bound_are_named() -> None:
    x = np.linspace(0.2, 0.9, 12)
    step = mos.fit_link(scored(x, np.where(x > 0.5, 80.0, 20.0)))
    assert "slope" in step.at_bound
    ceiling = mos.fit_link(scored(x, np.minimum(250 * x, 100)))
    assert "top" in ceiling.at_bound
    assert any(caveat.startswith("not identified, as stopped by a bound: ") for caveat in ceiling.caveats)


@pytest.mark.slow
def test_few_stimuli_and_a_faint_relation_are_told() -> None:
    x = np.linspace(0.2, 0.9, 6)
    few = mos.fit_link(scored(x, curve(TRUE, x)))
    assert "6 stimuli are few for four parameters" in few.caveats
    rng = np.random.default_rng(3)
    many = np.linspace(0, 1, 60)
    faint = mos.fit_link(scored(many, np.clip(50 + 10 * many + rng.normal(0, 15, 60), 0, 100), simulated=False))
    assert 0 < faint.r2 < 0.5
    assert faint.caveats[-1] == f"ssim explains only {100 * faint.r2:.0f} % of the variance of the scores"
    assert not any("simulated" in caveat for caveat in faint.caveats)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.linspace(0, 1, 4), np.linspace(0, 90, 4), "4 stimuli are too few for a link; it takes 5, and better 10"),
        (np.full(8, 0.5), np.linspace(0, 90, 8), "every stimulus has the same ssim"),
        (np.linspace(0, 1, 8), np.full(8, 50.0), "every stimulus has the same mean opinion score"),
        (np.linspace(0, 1, 8), np.linspace(90, 10, 8), "the opinions do not rise with ssim"),
    ],
    ids=["few", "no predictor", "no scores", "falling"],
)
def test_what_no_link_can_be_fitted_to(x: Array, y: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        mos.fit_link(scored(x, y))


def test_only_measures_of_pictures_predict() -> None:
    scores = mos.score(observers.ratings(observers.session()))
    with pytest.raises(ParameterError, match=r"^predictor: 'pil' is unknown; it is ssim or psnr"):
        mos.fit_link(scores, predictor="pil")
    same = {**observers.stimuli(1)[0], "id": "same", "psnr": float("inf")}
    shown = mos.make_session([*observers.stimuli(8), same], 8, seed=1, simulated=True)
    with pytest.raises(DataError, match="a stimulus has an infinite psnr"):
        mos.fit_link(mos.score(observers.ratings(shown)), predictor="psnr")


def test_stimuli_that_nobody_rated_are_not_fitted() -> None:
    shown = observers.session(count=8, observers=6)
    processed = np.tile([10, 20, 30, 40, 50, 60, 70, 80, 100, 100.0], (6, 1))
    processed[:, 3] = np.nan
    assert mos.fit_link(mos.score(mos.Ratings(shown, processed), screening=False)).stimuli == 7


# --- Files


def good() -> dict[str, Any]:
    return mos.fit_link(mos.score(observers.ratings(observers.session()))).to_dict()


def test_a_link_comes_back_from_its_file(tmp_path: Path) -> None:
    link = mos.read_link(good())
    mos.write(link, tmp_path / "link.toml")
    assert mos.read_link(tmp_path / "link.toml") == link


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, "link.version: "),
        ("predictor", "pil", "link.predictor: "),
        ("slope", -1.0, "link.slope: "),
        ("slope", float("inf"), "link.slope: "),
        ("top", 101.0, "link.top: "),
        ("top", 0.0, "link: bottom must be below top"),
        ("highest", -1.0, "link: lowest must be below highest"),
        ("middle", float("nan"), "link.middle: "),
        ("stimuli", 4, "link.stimuli: "),
        ("stimuli", 14.0, "link.stimuli: "),
        ("observers", 1, "link.observers: "),
        ("simulated", "no", "link.simulated: "),
        ("scores", "mean", "link.scores: "),
        ("residual_sd", -1.0, "link.residual_sd: "),
        ("slop", 1.0, "no key 'slop' in link; did you mean 'slope'"),
        ("slope", None, "'slope' is missing in link"),
        ("simulated", None, "'simulated' is missing in link"),
    ],
)
def test_links_are_read_strictly(key: str, value: Any, message: str, tmp_path: Path) -> None:
    content = good()
    content["link"][key] = value
    if value is None:
        del content["link"][key]
    with pytest.raises(ParameterError, match=f"^link: .*{message}|^{message}"):
        mos.read_link(content)
    path = tmp_path / "link.toml"
    path.write_text(tomli_w.dumps(content))
    with pytest.raises(FileError, match=f"link.toml' is no link file: .*({message.removeprefix('link: ')})"):
        mos.read_link(path)


def test_a_session_is_no_link(tmp_path: Path) -> None:
    mos.write(observers.session(), tmp_path / "session.toml")
    with pytest.raises(FileError, match=r"is no link file: 'link' is missing; `microveil mos fit` writes one"):
        mos.read_link(tmp_path / "session.toml")


# --- Predictions


def test_a_predicted_score_says_that_it_is_predicted() -> None:
    link = mos.fit_link(mos.score(observers.ratings(observers.session())))
    rng = np.random.default_rng(4)
    data = rng.gamma(1.5, size=(300, 4)) @ rng.normal(size=(4, 4))
    released = data + 0.5 * data.std(axis=0) * rng.normal(size=data.shape)
    found = mos.predict(data, released, link)
    ssim = MEASURES["ssim"](Matrix.from_array(data), Matrix.from_array(released)).value
    assert found.id == "mos_predicted"
    assert found.value == pytest.approx(link.predict(ssim), abs=1e-12)
    reach = float(t.ppf(0.975, link.stimuli - 4)) * link.residual_sd
    assert (found.low, found.high) == pytest.approx((max(found.value - reach, 0), min(found.value + reach, 100)))
    assert found.parts == {"ssim": ssim}
    assert "predicted from ssim, not measured: nobody was asked" in found.meaning
    assert found.note.startswith("predicted by a link fitted to 14 stimuli rated by ")
    assert "simulated" in found.note
    assert "outside" not in found.note
    assert (found.better, found.range) == ("high", (0.0, 100.0))


def test_outside_of_the_range_it_was_fitted_on_is_told() -> None:
    link = mos.fit_link(mos.score(observers.ratings(observers.session())), predictor="psnr")
    data = np.random.default_rng(5).normal(size=(100, 3))
    same = mos.predict(data, data, link)
    assert same.value == pytest.approx(link.top)
    assert same.note.endswith("psnr is outside of the range that the link was fitted on")


def test_without_a_link_there_is_no_such_measure() -> None:
    import microveil as mv

    assert not any("mos" in name for name in mv.measures())
    with pytest.raises(ParameterError, match="there is no 'mos'"):
        mv.assess(np.eye(9), np.eye(9), measures=["mos"])
