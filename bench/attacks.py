"""Every method against every attack, and the dial of `veil`. Writes docs/attacks.md and docs/dial.svg.

The matrix is of files of our own, over several seeds; the dial of Tarragona, where MICROVEIL_REFERENCE_DATA says it is.
It takes about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from study_veil import figures, reference

import microveil as mv

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "attacks"), str(ROOT / "tests")]

from matrix import ATTACKS, FILES, outcome  # noqa: E402
from membership import halves, untrained_gap_auc  # noqa: E402

PAGE, PLOT = ROOT / "docs" / "attacks.md", ROOT / "docs" / "dial.svg"
WINDOWS = (8, 12, 20, 30, 50)
WORST = ("open", "seen", "refused", "holds")

HEAD = """# Attacks

Made by `make attacks`. Every method with its defaults, on {files} (seeds {seeds}), against every attack of
`tests/attacks/matrix.py`; a cell is the worst of all runs.

- *holds*: the attack gains no more than its limit.
- *refused*: `protect` raises an error that says why.
- *seen*: the attack succeeds; the release warns (in words that a release of `veil` does not have), and the default set
  of `assess` has a figure above its chance level.

"""


def matrix(seeds: int) -> str:
    """The table of methods and attacks."""
    lines = [f"| | {' | '.join(ATTACKS)} |", "|---" * (len(ATTACKS) + 1) + "|"]
    for method in mv.methods():
        cells = []
        for attack in ATTACKS:
            runs = [outcome(method, attack, make(s), s) for make in FILES.values() for s in range(1, seeds + 1)]
            cells.append(min(runs, key=WORST.index))
        print(method, cells, file=sys.stderr)
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    stories = [f"- **{name}**: {attack.story}." for name, attack in ATTACKS.items()]
    return "\n".join([*lines, "", *stories, ""])


def dial(seeds: int) -> list[dict[str, float]]:
    """What `window` hides and costs, on Tarragona."""
    table = reference("Tarragona.csv")
    if table is None:
        return []
    data = table.unique(maintain_order=True).to_numpy().astype(float)
    rows = []
    for window in WINDOWS:
        runs = []
        for seed in range(seeds):
            released = np.asarray(mv.protect(data, "veil", window=window, seed=seed).data)
            members, strangers = halves(data, np.random.default_rng(seed))
            half = np.asarray(mv.protect(members, "veil", window=window, seed=seed).data)
            found = figures(data, released, seed)
            told = {"gaps": untrained_gap_auc(members, strangers, half).auc, "ranks": ranks_told(data, released)}
            runs.append({name: found[name] for name in ("score_2", "score_3", "ks")} | told)
        rows.append({"window": window} | {name: float(np.mean([run[name] for run in runs])) for name in runs[0]})
        print(rows[-1], file=sys.stderr)
    return rows


def ranks_told(data: np.ndarray, released: np.ndarray) -> float:
    """The share of ranks 6 to 25, from both ends, that are released within 5 % of the truth."""
    old, new = np.sort(data, axis=0), np.sort(released, axis=0)
    ends = np.r_[5:25, -25:-5]
    return float(np.mean(np.abs(new[ends] - old[ends]) <= 0.05 * np.abs(old[ends])))


def plot(rows: list[dict[str, float]]) -> None:
    """Score 2 against the area of the gap attack, a point for each window."""
    import altair as alt

    scale = alt.Scale(zero=False)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("gaps:Q", scale=scale, title="AUC of the gap attack (.5 tells nothing)"),
        y=alt.Y("score_2:Q", scale=scale, title="Score 2 (low is good)"),
        text="window:Q",
    )
    (base.mark_point(filled=True) + base.mark_text(dx=12)).properties(
        title="veil on Tarragona: what the window hides, and what it costs", width=420, height=260
    ).save(PLOT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    page = HEAD.format(files=", ".join(FILES), seeds=f"1 to {seeds}") + matrix(seeds)
    rows = dial(2 * seeds + 1)
    if rows:
        plot(rows)
        page += "\n## The dial of `veil`\n\nTarragona, means over the seeds; [more](veil.md).\n\n"
        page += "| `window` | Score₂ | Score₃ | gap AUC | KS | ranks 6-25 within 5 % |\n|---|---|---|---|---|---|\n"
        names = ("score_2", "score_3", "gaps", "ks", "ranks")
        page += "".join(f"| {row['window']:.0f} | {' | '.join(f'{row[n]:.3f}' for n in names)} |\n" for row in rows)
        page += "\n![Score 2 against the gap attack, by window](dial.svg)\n"
    PAGE.write_text(page, encoding="utf-8")
    return int("open" in page.split("## The dial")[0].split("|---", 1)[1])


if __name__ == "__main__":
    sys.exit(main())
