"""How far standard errors computed from a release are off: intervals of 95 % over repeated samples and releases.

Samples are drawn from one population, each is protected, and an analyst who knows nothing of it computes an estimate
with its usual standard error. `ratio` is the mean of these standard errors over how much the estimates really scatter
(1: valid; below 1 intervals are too short); `coverage` the share of the intervals that hold the truth (.95: valid).
Run: `python bench/standard_errors.py [REPEATS]`, into bench/standard_errors.json; the table is in docs/analysts.md.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import microveil as mv

ROWS, POPULATION = 300, 200_000
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "original": ("", {}),
    "veil": ("veil", {}),
    "pca": ("pca", {}),
    "ipso": ("ipso", {}),
    "rank_swap": ("rank_swap", {"rank_window": 0.1}),
    "microaggregate": ("microaggregate", {"group_size": 5}),
    "noise": ("noise", {"noise_sd_ratio": 0.5}),
    "shuffle": ("shuffle", {}),
}


def people(rng: np.random.Generator, rows: int) -> pl.DataFrame:
    """Skewed incomes that follow schooling and age."""
    school, age = rng.normal(12, 3, rows), rng.uniform(20, 65, rows)
    income = np.exp(6 + 0.08 * school + 0.012 * age + rng.normal(0, 0.5, rows))
    spending = 0.6 * income + rng.lognormal(5, 0.5, rows)
    return pl.DataFrame({"school": school, "age": age, "income": income, "spending": spending})


def estimates(data: pl.DataFrame) -> dict[str, tuple[float, float]]:
    """Estimates with their usual standard errors."""
    income, spending = data["income"].to_numpy(), data["spending"].to_numpy()
    n, middle = income.size, np.sort(income)
    step = int(np.sqrt(n)) // 2
    density = 2 * step / n / max(middle[n // 2 + step] - middle[n // 2 - step], 1e-12)
    design = np.column_stack([np.ones(n), data["school"].to_numpy(), data["age"].to_numpy()])
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ design.T @ income
    residual = income - design @ slopes
    sandwich = inverse @ (design.T * residual**2) @ design @ inverse
    ranks = [np.argsort(np.argsort(values)) for values in (income, spending)]
    r = np.corrcoef(*ranks)[0, 1]
    above = float(np.mean(income > 1500))
    return {
        "mean": (float(income.mean()), float(income.std(ddof=1) / np.sqrt(n))),
        "median": (float(np.median(income)), 0.5 / density / np.sqrt(n)),
        "share above a threshold": (above, float(np.sqrt(above * (1 - above) / n))),
        "rank correlation": (float(np.arctanh(r)), float(np.sqrt((1 + r * r / 2) / (n - 3)))),  # Bonett and Wright
        "slope of a regression": (float(slopes[1]), float(np.sqrt(sandwich[1, 1]))),
    }


def main(repeats: int) -> None:
    """Measure, and print the table."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    truth = {name: value for name, (value, _) in estimates(people(rng, POPULATION)).items()}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {label: {name: [] for name in truth} for label in METHODS}
    for number in range(repeats):
        sample = people(rng, ROWS)
        for label, (method, params) in METHODS.items():
            data = mv.protect(sample, method, seed=number, **params).data if method else sample
            for name, pair in estimates(data).items():
                found[label][name].append(pair)
    table = {
        label: {name: _judged(np.array(pairs), truth[name]) for name, pairs in of.items()}
        for label, of in found.items()
    }
    told = {"rows": ROWS, "repeats": repeats, "figures": table}
    Path(__file__).with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print("| method |", " | ".join(truth), "|")
    for label, of in table.items():
        print(f"| {label} |", " | ".join(f"{one['ratio']:.2f}, {one['coverage']:.0%}" for one in of.values()), "|")


def _judged(pairs: Any, truth: float) -> dict[str, float]:
    values, errors = pairs[:, 0], pairs[:, 1]
    return {
        "ratio": round(float(errors.mean() / values.std(ddof=1)), 3),
        "coverage": round(float(np.mean(np.abs(values - truth) <= 1.96 * errors)), 3),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
