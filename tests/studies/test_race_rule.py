"""Who keeps a limit on the worst attack: on average, and surely in no release, of which only one is let out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from microveil.studies.race import _lows, in_order
from microveil.studies.study import WORST


def study_of(means: dict[str, float]) -> Any:
    return SimpleNamespace(
        figures=dict.fromkeys(means, ()),
        unprotected={},
        has=lambda label, name: True,
        keeps=lambda label, name, most, end: means[label] <= most,
        summary=lambda label, name: SimpleNamespace(mean=means[label] if name == WORST else 0.1),
    )


@pytest.mark.parametrize(
    ("gains", "place"),
    [
        ([(0.01, 0.0), (0.02, 0.01)], 0),
        ([(0.0, -0.01), (0.03, 0.025)], 1),  # one release surely gives more away than was allowed
        ([(0.03, 0.01), (0.03, 0.01)], 1),  # more on average, but luck would do
        ([(0.04, 0.03), (0.05, 0.03)], 2),
    ],
)
def test_a_limit_holds_on_average_and_in_every_release(gains: list[tuple[float, float]], place: int) -> None:
    found = {"veil": [{"gains": {"dbrl": one, "ks": (-1.0, -1.0)}} for one in gains]}
    mean = sum(gain for gain, _ in gains) / len(gains)
    order = in_order(study_of({"veil": mean}), {WORST: 0.02}, _lows(found))
    assert order == {"veil": (place, pytest.approx(0.1))}
