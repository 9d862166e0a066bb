"""Simulated observers. No person is behind any rating in these tests."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.assessment import mos
from microveil.opinion import ratings_from

Array = NDArray[np.float64]

TRUTH = {"bottom": 10.0, "top": 90.0, "middle": 0.6, "slope": 9.0}


def true_mos(ssim: float) -> float:
    """The curve that simulated observers follow."""
    return TRUTH["bottom"] + (TRUTH["top"] - TRUTH["bottom"]) / (1 + np.exp(-TRUTH["slope"] * (ssim - TRUTH["middle"])))


def stimuli(count: int = 14) -> list[dict[str, Any]]:
    """Stimuli of two sources, from bad to good."""
    return [
        {"id": f"s{i}", "source": "ab"[i % 2], "removed": count - i, "ssim": float(x), "psnr": float(10 + 20 * x)}
        for i, x in enumerate(np.linspace(0.2, 0.95, count))
    ]


def session(count: int = 14, observers: int = 20, seed: int = 1) -> mos.Session:
    return mos.make_session(stimuli(count), observers, seed=seed, simulated=True)


def rated(shown: mos.Session, *, noise: float = 8.0, random: int = 0, seed: int = 1) -> dict[str, list[Any]]:
    """Ratings of everything by everybody; the first `random` observers do not look."""
    rng = np.random.default_rng(seed)
    known = {stimulus.id: stimulus for stimulus in shown.stimuli}
    columns: dict[str, list[Any]] = {name: [] for name in ("observer", "stimulus", "reference", "processed")}
    for number, observer in enumerate(shown.observers):
        for name in observer.order:
            lost = 0.0 if known[name].hidden else 100 - true_mos(known[name].ssim)
            reference = 100.0
            processed = np.clip(100 - lost + noise * rng.normal(), 0, 100)
            if number < random:
                reference, processed = rng.uniform(0, 100, 2)
            row = (observer.id, name, float(reference), float(processed))
            for column, cell in zip(columns.values(), row, strict=True):
                column.append(cell)
    return columns


def ratings(shown: mos.Session, **options: Any) -> mos.Ratings:
    return ratings_from(rated(shown, **options), shown)


def write_ratings(path: Path, columns: dict[str, list[Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path
