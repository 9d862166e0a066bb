"""Write the generated pages of docs/, or check that they are up to date (`--check`).

docs/methods.md comes from the declarations in the code, docs/benchmarks.md from bench/results.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from microveil import api

ROOT = Path(__file__).resolve().parent.parent

METHODS_HEAD = """# Methods

This page is generated from the code (`make docs`): the parameters below are the ones that validation, the command
line and the recipes use. Set one with `protect(..., name=value)` or `--set name=value`.
"""

BENCHMARKS_HEAD = """# Benchmarks

This page is generated from `bench/results.json` (`make bench`, then `make docs`).

`protect(data, "pca")` with all components swapped, beside the straightforward numpy version of the same steps (means,
standard deviations, correlation matrix, eigenvectors, scores, `rng.permutation` of every component, and back), in the
same run. `exact=False` also looks for missing cells, special codes and linear rules, and measures
what was kept and changed; `exact=True` restores the covariances too. Ratios are medians over pairs of runs: on a shared
machine only they mean something. Peak memory counts the input.
"""

NAMES = {"floor": "numpy floor", "swap": "`exact=False`", "swap_exact": "`exact=True`"}


def methods_page() -> str:
    parts = [METHODS_HEAD]
    for name in api.methods():
        details = api.method_details(name)
        parts.append(f"## `{name}`\n\n{details['summary']}\n\n{details['reference']}.\n")
        parts += [group_text(group) for group in details["parameters"]]
    return "\n".join(parts)


def group_text(group: dict[str, Any]) -> str:
    title = f'`perturb="{group["perturb"]}"`' if group["perturb"] else "Parameters"
    lines = [f"### {title}", ""]
    if group["summary"]:
        lines += [f"{group['summary']} ({group['reference']})", ""]
    if group["parameters"]:
        lines += ["| parameter | allowed | default | meaning |", "|---|---|---|---|"]
    for parameter in group["parameters"]:
        default = parameter["default"]
        shown = ", ".join(default) if isinstance(default, tuple) else default
        cells = [f"`{parameter['name']}`", parameter["allowed"], f"{shown}", parameter["meaning"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def benchmarks_page() -> str:
    results = json.loads((ROOT / "bench" / "results.json").read_text(encoding="utf-8"))
    lines = [
        BENCHMARKS_HEAD,
        f"{results['cores']} cores, {results['machine']}, Python {results['python']}, numpy {results['numpy']}.",
        "",
        "| rows x columns | | CPU s | ratio | wall s | ratio | peak / input | limit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in results["cases"]:
        for key, name in NAMES.items():
            row = case[key]
            limit = f"{case['limit']:.1f}" if key == "swap" else ""
            lines.append(
                f"| {case['rows']:,} x {case['columns']} | {name} | {row['cpu_s']:.3f} | {row['cpu_ratio']:.2f} | "
                f"{row['wall_s']:.3f} | {row['wall_ratio']:.2f} | {row['times_input']:.1f} | {limit} |"
            )
    veil = results.get("veil")
    if veil:
        lines += [
            "",
            f"`veil` on {veil['rows']:,} x {veil['columns']} skewed, correlated columns: {veil['cpu_s']:.0f} CPU "
            f"seconds ({veil['cpu_ratio']:.0f} times the numpy floor of `pca` on the same data), {veil['wall_s']:.0f} "
            f"seconds on the clock, {veil['times_input']:.1f} times the input in memory. Limits: {veil['limit']:.0f} "
            "CPU seconds, 8 times.",
        ]
    return "\n".join([*lines, ""])


def main() -> int:
    pages = {"methods.md": methods_page(), "benchmarks.md": benchmarks_page()}
    stale = []
    for name, text in pages.items():
        page = ROOT / "docs" / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv[1:]:
                page.write_text(text, encoding="utf-8")
    if "--check" in sys.argv[1:]:
        print(f"out of date: {', '.join(stale)}; run `make docs`" if stale else "generated pages are up to date")
        return 1 if stale else 0
    print(f"wrote {', '.join(stale) or 'nothing new'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
