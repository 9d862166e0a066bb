"""The study behind `veil`: methods and variants on several files, over repeated seeds. Writes docs/veil-study.md.

Files of our own always run; Tarragona, Census and EIA where MICROVEIL_REFERENCE_DATA says they are. Figures are means
over the seeds, except for attacks, where it is the worst. It takes about a quarter of an hour on two cores.

Exit code 1 if a limit that `veil` is held to is exceeded.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

import microveil as mv
from microveil.core.table import Matrix
from microveil.measures import risk, utility

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "veil-study.md"

LOSSES = ("propensity_2", "propensity_3", "pil")
LOOKS = ("ks", "correlation_difference", "rank_correlation_difference", "classifier_auc")
ATTACKS = ("dbrl", "mahalanobis_linkage", "rank_linkage", "optimal_linkage", "subspace_linkage")

# Best published Score_2 and Score_3 (Calviño 2017, Table 4, and the same methods on the other files), and our limits.
PUBLISHED = {"Tarragona": (0.169, 0.239), "Census": (0.222, 0.234), "EIA": (0.231, 0.239)}
LIMITS = {"Tarragona": (0.125, 0.14), "Census": (0.145, 0.145), "EIA": (0.2, 0.2)}
MOST_LINKED = 0.01


def reference(name: str) -> pl.DataFrame | None:
    """A file that cannot ship, from where the user has it."""
    path = Path(os.environ.get("MICROVEIL_REFERENCE_DATA", ROOT.parent / "shared" / "data")) / name
    return pl.read_csv(path) if path.exists() else None


def files() -> Iterator[tuple[str, np.ndarray]]:
    """The files of the study, as arrays without holes."""
    tarragona, census, eia = (reference(f"{name}.csv") for name in ("Tarragona", "CASCrefmicrodata", "EIA"))
    if tarragona is not None:
        yield "Tarragona", tarragona.unique(maintain_order=True).to_numpy().astype(float)
    if census is not None:
        yield "Census", census.drop("POTHVAL").to_numpy().astype(float)
    if eia is not None:
        yield "EIA", eia[:, 5:].unique(maintain_order=True)[:1500].to_numpy().astype(float)
    survey = pl.read_csv(mv.example_file())
    whole = survey.select(pl.col(pl.Int64, pl.Float64)).drop("weight", "rd_spending", "turnover_total").drop_nulls()
    yield "survey", whole.to_numpy().astype(float)
    rng = np.random.default_rng(7)
    loadings = rng.gamma(0.5, size=(8, 3)) + 0.1
    yield "lognormal", rng.lognormal(0, 1, size=(1000, 3)) @ loadings.T * rng.lognormal(0, 0.4, size=(1000, 8))
    normal = rng.multivariate_normal(np.zeros(6), 0.5 + 0.5 * np.eye(6), size=1000)
    yield (
        "mixed",
        np.column_stack(
            [
                normal[:, :2],
                np.round(np.exp(normal[:, 2]) * 10),
                np.maximum(normal[:, 3], 0),
                rng.poisson(np.exp(normal[:, 4])),
                normal[:, 5] ** 2 * np.sign(normal[:, 0]),
            ]
        ),
    )


Release = Callable[[np.ndarray, int], np.ndarray]


def by(method: str, **parameters: object) -> Release:
    return lambda data, seed: np.asarray(mv.protect(data, method, seed=seed, **parameters).data)


@contextmanager
def emphasis(*layers: float) -> Iterator[None]:
    """The arrangement with other weights of its layers: values, ranks, squares, cubes."""
    module = sys.modules["microveil.restore.arrange"]
    before = module.EMPHASIS
    module.EMPHASIS = np.array(layers, dtype=float)
    try:
        yield
    finally:
        module.EMPHASIS = before


def with_emphasis(*layers: float) -> Release:
    def release(data: np.ndarray, seed: int) -> np.ndarray:
        with emphasis(*layers):
            return by("veil")(data, seed)

    return release


METHODS: dict[str, Release] = {
    "veil": by("veil"),
    "- original values": by("veil", marginals="original"),
    "- values and ranks only": with_emphasis(6, 1, 0, 0),
    "- all layers alike": with_emphasis(1, 1, 1, 1),
    "- no exchanges": by("primp", marginals="smoothed", exchange=False),
    "primp_cholesky": by("primp_cholesky"),
    "pca": by("pca"),
    "lhs": by("lhs"),
}


def figures(data: np.ndarray, released: np.ndarray, seed: int) -> dict[str, float]:
    """All figures of one release."""
    pair = Matrix(list(data.T)), Matrix(list(released.T))
    measured = {}
    for registry, names in ((utility.MEASURES, (*LOSSES, *LOOKS)), (risk.MEASURES, (*ATTACKS, "interval_disclosure"))):
        for name in names:
            gauge = registry[name]
            measured[name] = gauge(*pair, **gauge.seeded(seed))
    found = {name: figure.value for name, figure in measured.items()}
    found |= {name: utility.SCORES[name](measured).value for name in ("score_2", "score_3")}
    found["extremes"] = risk.MEASURES["extreme_disclosure"](*pair).value
    top = np.sort(data, axis=0)[-5:] == np.sort(released, axis=0)[-5:]
    shared = np.array([[(column == value).sum() >= 5 for value in np.sort(column)[-5:]] for column in data.T]).T
    # Of whole numbers to 250, one that is drawn anew is the true one now and then: finer steps tell values apart.
    steps = np.array([np.diff(np.unique(column)).min() for column in data.T])
    found["given_away"] = float((top & ~shared & (steps <= 0.001 * np.abs(np.sort(data, axis=0)[-5:]))).mean())
    return found


def row(name: str, data: np.ndarray, release: Release, seeds: int) -> dict[str, float]:
    """Means over the seeds; the worst of attacks."""
    began = time.process_time()
    runs = [figures(data, release(data, seed), seed) for seed in range(seeds)]
    out = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
    out |= {f"worst {key}": float(np.max([run[key] for run in runs])) for key in (*ATTACKS, "given_away")}
    print(f"{name}: {time.process_time() - began:.0f} CPU s", file=sys.stderr)
    return out


COLUMNS = {
    "score_2": "Score₂",
    "score_3": "Score₃",
    "propensity_2": "PS₂",
    "propensity_3": "PS₃",
    "pil": "PIL",
    "interval_disclosure": "ID",
    "ks": "KS",
    "correlation_difference": "Pearson",
    "rank_correlation_difference": "Spearman",
    "classifier_auc": "AUC",
    "extremes": "extremes",
    "worst link": "worst link",
}

HEAD = """# The study behind `veil`

This page is generated (`make study`). Score = (PS + PIL + DBRL + ID) / 4, as in Calviño (2017); ID/4 is what no utility
can lower. KS is the mean distance of the columns' distributions, Pearson and Spearman the largest difference of a
correlation, AUC how well a gradient-boosted classifier tells released records from original ones (0.5: not at all),
extremes the share of the five largest and smallest values that their rank gives away within 5 %, worst link the largest
share of records that any linkage attack found in any of the releases. Means over {seeds} seeds for
`veil` and {others} for the others. Rows with a dash are `veil` with something else.
"""


def table(name: str, data: np.ndarray, rows: dict[str, dict[str, float]]) -> str:
    lines = [f"## {name} ({data.shape[0]} x {data.shape[1]})", ""]
    if name in PUBLISHED:
        lines += [
            f"Best published: Score₂ {PUBLISHED[name][0]}, Score₃ {PUBLISHED[name][1]} (each of another method).",
            "",
        ]
    lines += ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for label, values in rows.items():
        values["worst link"] = max(values[f"worst {attack}"] for attack in ATTACKS)
        lines.append(f"| {label} | " + " | ".join(f"{values[key]:.3f}" for key in COLUMNS) + " |")
    return "\n".join([*lines, ""])


def broken(name: str, values: dict[str, float]) -> list[str]:
    """Limits that veil exceeds on a file."""
    out = []
    for score, limit in zip(("score_2", "score_3"), LIMITS.get(name, ()), strict=False):
        if values[score] > limit:
            out.append(f"{name}: {score} {values[score]:.4f} > {limit}")
    linked = {attack: values[f"worst {attack}"] for attack in ATTACKS}
    out += [f"{name}: {attack} linked {share:.4f}" for attack, share in linked.items() if share > MOST_LINKED]
    if values["worst given_away"] > 0:
        out.append(f"{name}: one of the five largest values was given away")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="releases by veil")
    parser.add_argument("--other-seeds", type=int, default=5, help="releases by each of the others")
    parser.add_argument("--only", help="file names, separated by commas")
    parser.add_argument("--methods", help="row names, separated by commas")
    arguments = parser.parse_args()
    chosen = arguments.methods.split(",") if arguments.methods else list(METHODS)
    parts, problems = [HEAD.format(seeds=arguments.seeds, others=arguments.other_seeds)], []
    for name, data in files():
        if arguments.only and name not in arguments.only.split(","):
            continue
        repeats = {label: arguments.seeds if label == "veil" else arguments.other_seeds for label in chosen}
        rows = {label: row(f"{name}, {label}", data, METHODS[label], repeats[label]) for label in chosen}
        parts.append(table(name, data, rows))
        print(parts[-1], flush=True)
        problems += broken(name, rows["veil"]) if "veil" in rows else []
    if not arguments.only and not arguments.methods:
        PAGE.write_text("\n".join(parts), encoding="utf-8")
        print(f"wrote {PAGE}")
    print("\n".join(problems) or "all limits hold")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
