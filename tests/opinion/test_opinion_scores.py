"""Mean opinion scores: intervals as scipy's, control, and what is told. The observers are simulated."""

from __future__ import annotations

import json

import numpy as np
import observers
import pytest
from scipy.stats import t, ttest_1samp

from microveil.assessment import mos
from microveil.errors import DataError
from microveil.opinion import ratings_from


def test_intervals_are_those_of_scipy() -> None:
    shown = observers.session(count=9, observers=13)
    rng = np.random.default_rng(1)
    processed = rng.uniform(0, 100, size=(13, 11))
    processed[rng.random(processed.shape) < 0.2] = np.nan
    found = mos.score(mos.Ratings(shown, processed), screening=False)
    assert len(found.opinions) == 9
    for opinion, column in zip((*found.opinions, *found.control), processed.T, strict=True):
        given = column[~np.isnan(column)]
        assert opinion.observers == given.size
        assert opinion.mos == pytest.approx(given.mean(), abs=1e-12)
        assert opinion.sd == pytest.approx(given.std(ddof=1), abs=1e-12)
        by_test = ttest_1samp(given, 0).confidence_interval(0.95)
        by_hand = t.interval(0.95, given.size - 1, given.mean(), given.std(ddof=1) / np.sqrt(given.size))
        assert (opinion.low, opinion.high) == pytest.approx(by_hand, rel=1e-12)
        assert (opinion.low, opinion.high) == pytest.approx((by_test.low, by_test.high), rel=1e-12)


def test_intervals_hold_the_truth_19_times_of_20() -> None:
    truth, panels = 60.0, 1000
    shown = mos.make_session(observers.stimuli(1), 8, seed=1, simulated=True)
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(panels):
        (opinion,) = mos.score(mos.Ratings(shown, rng.normal(truth, 8, size=(8, 2))), screening=False).opinions
        assert opinion.low is not None
        assert opinion.high is not None
        held += opinion.low <= truth <= opinion.high
    assert abs(held / panels - 0.95) < 4 * np.sqrt(0.95 * 0.05 / panels)


def test_hidden_references_are_a_control_and_not_among_the_stimuli() -> None:
    shown = observers.session()
    found = mos.score(observers.ratings(shown, noise=6.0))
    assert [opinion.stimulus.id for opinion in found.control] == ["a-reference", "b-reference"]
    assert not any(opinion.stimulus.hidden for opinion in found.opinions)
    # Nothing is to be seen there, and opinions above 100 do not count: the mean of min(0, noise) is -6 / sqrt(2 pi).
    expected, n = 100 - 6 / np.sqrt(2 * np.pi), 2 * found.observers
    sd = 6 * np.sqrt(0.5 - 1 / (2 * np.pi))
    assert np.mean([opinion.mos for opinion in found.control]) == pytest.approx(expected, abs=4 * sd / np.sqrt(n))


def test_who_was_rejected_is_told_and_does_not_count() -> None:
    shown = observers.session()
    given = observers.ratings(shown, random=3)
    found, unscreened = mos.score(given), mos.score(given, screening=False)
    careless = [observer.id for observer in shown.observers[:3]]
    assert set(careless) <= set(found.rejected)
    assert found.observers == 20 - len(found.rejected)
    assert all("correlation with the other observers" in found.rejected[name] for name in careless)
    kept = [i for i, observer in enumerate(shown.observers) if observer.id not in found.rejected]
    by_hand = given.opinions("difference")[kept].mean(axis=0)[: len(found.opinions)]
    assert [opinion.mos for opinion in found.opinions] == pytest.approx(by_hand.tolist(), abs=1e-12)
    assert (unscreened.rejected, unscreened.observers) == ({}, 20)
    assert unscreened.notes == ["the observers were not screened"]


def test_stimuli_with_one_rating_or_none() -> None:
    shown = observers.session(count=3, observers=4)
    processed = np.full((4, 5), 50.0)
    processed[1:, 0], processed[:, 1] = np.nan, np.nan
    found = mos.score(mos.Ratings(shown, processed))
    one, none, all_ = found.opinions
    assert (one.observers, one.mos, one.sd, one.low, one.high) == (1, 50.0, None, None, None)
    assert (none.observers, none.mos) == (0, None)
    assert (all_.observers, all_.mos, all_.low, all_.high) == (4, 50.0, 50.0, 50.0)
    assert "rated by nobody: s1" in found.notes
    assert found.notes[0].startswith("7 ratings missing: ")


def test_absent_observers_do_not_count() -> None:
    shown = observers.session(observers=9)
    pairs = len(shown.stimuli)
    given = {name: cells[: 8 * pairs] for name, cells in observers.rated(shown).items()}
    found = mos.score(ratings_from(given, shown), screening=False)
    assert found.observers == 8
    assert found.notes[0] == "1 observer rated nothing: observer-9"
    alone = {name: cells[:pairs] for name, cells in given.items()}
    with pytest.raises(DataError, match="1 observers have rated; a mean with an interval takes two"):
        mos.score(ratings_from(alone, shown))


def test_as_plain_data() -> None:
    found = mos.score(observers.ratings(observers.session(), random=1))
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["simulated"] is True
    assert told["control"][0]["psnr"] == "Infinity"
    assert {"id", "source", "removed", "ssim", "psnr", "observers", "mos", "sd", "low", "high"} <= told["stimuli"][
        0
    ].keys()
    assert told["rejected"] == found.rejected
    assert "simulated observers" in repr(found)
