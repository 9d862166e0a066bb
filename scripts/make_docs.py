"""Write the generated pages of docs/, or check that they are up to date (`--check`).

docs/methods.md, docs/measures.md, docs/options.md and docs/recipe.schema.json come from the declarations in the code,
docs/benchmarks.md from bench/*.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from microveil import catalogue, options
from microveil.release.recipe import Recipe

ROOT = Path(__file__).resolve().parent.parent

METHODS_HEAD = """# Methods

This page is generated from the code (`make docs`): the parameters below are the ones that validation, the command
line and the recipes use. Set one with `protect(..., name=value)` or `--set name=value`.
"""

MEASURES_HEAD = """# Measures

This page is generated from the code (`make docs`). `mv.measures()` and `microveil measures` list the ids, `mv.assess`
and `microveil assess` [take the measures](assess.md). Each figure comes with an interval, its chance level where there
is one, its range and the direction that is better. "Paired" measures compare each record with its own release: both
files must have the same rows in the same order. "Slow" ones search, fit or simulate; on large files they take a random
sample of the records, and say so.
"""

KINDS = {
    "risk": "Risk: what an intruder could do",
    "utility": "Utility: what the release is still good for",
    "score": "Scores: several measures in one figure",
}

OPTIONS_HEAD = """# Options

This page is generated from the code (`make docs`): each option is declared once, in `microveil/options/`, and the
Python functions, the command line and the recipes take it from there. The JSON schema of a recipe is
[recipe.schema.json](recipe.schema.json).
"""

JOBS: dict[str, type[options.Options]] = {
    "`protect_file` and `microveil protect`": options.ProtectFile,
    "`microveil run`": options.Run,
    "`assess_files` and `microveil assess`": options.AssessFiles,
    "`compare` and `microveil compare`": options.CompareFile,
    "`recommend` and `microveil recommend`": options.RecommendFile,
    "`microveil describe`": options.Describe,
}

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
    for name in catalogue.methods():
        details = catalogue.method_details(name)
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


def measures_page() -> str:
    parts = [MEASURES_HEAD]
    entries = [catalogue.measure_details(name) for name in catalogue.measures()]
    for kind, title in KINDS.items():
        parts.append(f"## {title}\n")
        chosen = [entry for entry in entries if entry["kind"] == kind]
        lines = ["| id | range | better | paired | cost |", "|---|---|---|---|---|"]
        for entry in chosen:
            low, high = (f"{float(end):g}" for end in entry["range"])
            paired = "yes" if entry["paired"] else ""
            lines.append(f"| `{entry['id']}` | {low} to {high} | {entry['better']} | {paired} | {entry['cost']} |")
        parts.append("\n".join([*lines, ""]))
        parts += [f"### `{entry['id']}`\n\n{_sentence(entry['summary'])}\n\n{_story(entry)}\n" for entry in chosen]
    return "\n".join(parts)


def options_page() -> str:
    parts = [OPTIONS_HEAD]
    for title, model in JOBS.items():
        lines = [f"## {title}", "", "| Python | command line | default | meaning |", "|---|---|---|---|"]
        for name, field in model.model_fields.items():
            about = model.about(name)
            flag = ", ".join(model.flags(name))
            typed = "" if about.get("only") == "python" else f"`{flag} {about.get('metavar', '')}".strip() + "`"
            python = "" if about.get("only") == "command line" else f"`{name}`"
            default = "" if field.is_required() or field.default is None else f"{field.default}"
            meaning = f"{field.description} {about.get('explained', '')}".strip()
            lines.append("| " + " | ".join(c.replace("|", "\\|") for c in (python, typed, default, meaning)) + " |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def recipe_schema() -> str:
    return json.dumps(Recipe.model_json_schema(), indent=2) + "\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _story(entry: dict[str, Any]) -> str:
    parts = ", ".join(f"`{part}`" for part in entry["parts"])
    story = entry["story"] or f"Made of {parts}, whose weights are its options."
    options = ", ".join(f"`{name}` ({default})" for name, default in entry["options"].items())
    return f"{story}\n\nOptions, with their defaults: {options}." if options else story


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
            f"seconds ({veil['cpu_ratio']:.0f} times the numpy floor of `pca` on the same data, on one thread), "
            f"{veil['times_input']:.1f} times the input in memory, beside other work. Limits: {veil['limit']:.0f} CPU "
            f"seconds, 8 times{' (exceeded: the data have hidden clusters)' if veil['times_input'] > 8 else ''}.",
        ]
    for name, section in SECTIONS.items():
        path = ROOT / "bench" / name
        if path.exists():
            lines += ["", *section(json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join([*lines, ""])


def masker_lines(results: dict[str, Any]) -> list[str]:
    """Microaggregation and rank swapping, from their own benchmark."""
    small, large = results["mdav"]
    swapped = results["rank_swap"]
    return [
        "## Microaggregation and rank swapping",
        "",
        "From `bench/maskers.json`, CPU seconds on lognormal, correlated columns. MDAV stands beside a compiled search "
        "through all records that makes the same groups, rank swapping beside `np.sort` of each column.",
        "",
        "| | rows x columns | floor | ours | ratio | limit |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {case['rows']:,} x {results['columns']} | {case['floor_cpu_s']:.2f} | {case['cpu_s']:.2f} | "
            f"{case['ratio']:.2f} | {limit} |"
            for name, case, limit in (
                ("MDAV", small, ""),
                ("MDAV", large, f"{results['mdav_limit']:.0f} s"),
                ("`rank_swap`", swapped, f"ratio {results['rank_swap_limit']:.0f}"),
            )
        ),
        "",
        f"MDAV makes groups of {results['group_size']}. Five times the rows take it {results['growth']:.0f} times as "
        f"long, and the search through all records {results['floor_growth']:.0f} times. sdcMicro was measured at "
        f"{results['sdcmicro_cpu_s']:.0f} CPU seconds for a table of the larger size, in another run.",
    ]


def regression_lines(results: list[dict[str, Any]]) -> list[str]:
    """The regression family, beside the drawing of its normal deviates."""
    return [
        "## Regression methods",
        "",
        "From `bench/regression.json`: `ipso` beside the drawing of its normal deviates, which nobody can do without, "
        "and RegSDC's own time in that unit, from another run.",
        "",
        "| rows x columns | public columns | floor, CPU s | ours | ratio | limit | RegSDC | memory beyond the input |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {case['rows']:,} x {case['columns']} | {case['public']} | {case['floor_cpu_s']:.3f} | "
            f"{case['cpu_s']:.3f} | {case['cpu_ratio']:.1f} | {case['limit']:.0f} | {case['regsdc']} | "
            f"{case['beyond_input_mb']:.0f} MB |"
            for case in results
        ),
    ]


def measure_lines(results: dict[str, Any]) -> list[str]:
    """Linkage beside bare searches for the nearest record, a propensity score and an assessment."""
    size = f"{results['rows']:,} x {results['columns']}"
    propensity, assess = results["propensity_3"], results["assess"]
    floors = ("tree", "products_float32", "products_float64")
    return [
        "## Measures",
        "",
        f"From `bench/measures.json`: `dbrl` of all records of {size} lognormal columns, beside bare searches for the "
        "nearest record: a k-d tree of scipy, and all distances by matrix products in single precision (which errs) "
        "and double precision. CPU seconds; the release is near (noise of a tenth of a standard deviation) or a fresh "
        "draw. The ratio is that to the best of the three.",
        "",
        "| sd of the logarithms | release | `dbrl` | tree | products, single | products, double | ratio | limit |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {case['sd']} | {case['release']} | {case['dbrl']:.1f} | "
            + " | ".join(f"{case[floor]:.1f}" if floor in case else "" for floor in floors)
            + f" | {case['ratio']:.2f} | {case['limit']} |"
            for case in results["linkage"]
        ),
        "",
        f"`propensity_3` of {size}: {propensity['cpu_s']:.1f} CPU seconds (limit {propensity['limits']['cpu_s']:.0f}) "
        f"and {propensity['beyond_input_mb']:.0f} MB beyond the input (limit "
        f"{propensity['limits']['beyond_input_mb']:.0f}). `assess` of {assess['rows']:,} x {results['columns']} with "
        f"the default measures and the sanity lines: {assess['cpu_s']:.1f} CPU seconds (limit {assess['limit']:.0f}).",
    ]


def study_lines(results: dict[str, Any]) -> list[str]:
    """The time of a study, and what a kill costs."""
    resumed = results["resumed"]
    return [
        "## Studies",
        "",
        f"From `bench/study_time.json`: `compare` of {', '.join(f'`{name}`' for name in results['methods'])} on "
        f"{results['rows']:,} x {results['columns']} skewed, correlated columns, {results['repeats']} releases of each "
        f"with the default measures ({results['measures']} figures), in {results['workers']} processes: "
        f"{results['cpu_s']:.0f} CPU seconds, {results['wall_s']:.0f} seconds on the clock of a machine that may have "
        f"had other work. Limit: {results['workers'] * results['limit_s']:.0f} CPU seconds, which {results['workers']} "
        f"cores have in {results['limit_s']:.0f} seconds. Killed after {resumed['at_kill']} releases "
        f"and begun again, {resumed['twice']} of {resumed['at_end']} were made twice.",
    ]


def wide_lines(results: dict[str, Any]) -> list[str]:
    """Tables with more columns than rows: what each method takes."""
    cases = results["cases"]
    sizes = sorted({(case["rows"], case["columns"]) for case in cases})
    taken = {(case["what"], case["rows"], case["columns"]): case for case in cases}
    heads = " | ".join(f"{rows} x {columns:,}" for rows, columns in sizes)

    def cell(case: dict[str, Any] | None) -> str:
        if case is None:
            return ""
        if case["cpu_s"] is None:
            return "did not end"
        if case["refused"]:
            return "refused"
        limit = f" (limit {case['limit']:.0f})" if case["limit"] else ""
        return f"{case['cpu_s']:.1f} s, {case['peak_gb']:.2f} GB{limit}"

    names = dict.fromkeys(case["what"] for case in cases)
    return [
        "## Wide tables",
        "",
        "From `bench/wide.json`: lognormal columns that share one factor, rows x columns. CPU seconds of the call, and "
        "the peak memory of the process, libraries included. `assess` takes the default measures with the sanity "
        "lines. Refused are tables that are beyond a stated limit, or that have too few rows for the method.",
        "",
        f"| | {heads} |",
        "|---" * (1 + len(sizes)) + "|",
        *(f"| `{name}` | " + " | ".join(cell(taken.get((name, *size))) for size in sizes) + " |" for name in names),
    ]


def _floor_line(taken: dict[tuple[str, int, int], dict[str, Any]]) -> str:
    case = taken.get(("assess", 1_000_000, 13), {})
    if "times_floor" not in case:
        return ""
    return (
        f"Of 1,000,000 x 13 it takes {case['times_floor']:.0f} times the CPU time of its floor (all columns in order, "
        f"and a bare search for 2,000 records in single precision; limit 20), and {case['peak_over_input']:.1f} times "
        "the room of both files, libraries included. `recommend` races `veil`, `pca` and `score_mix` for a minute; the "
        "release of all rows and its assessment come on top as far as half a minute does not suffice for them."
    )


def _peer_line(taken: dict[tuple[str, int, int], dict[str, Any]]) -> str:
    """What `veil` takes beside the fastest peer, in the same run."""
    times = [taken["veil", rows, 13].get("times_peer") for rows in (100_000, 1_000_000)]
    if None in times:
        return ""
    few, many = (f"{ratio:.1f}" for ratio in times)
    return (
        f"`veil` of 100,000 and 1,000,000 rows takes {few} and {many} times the CPU time of synthetic-tabular, which "
        "draws from a normal copula, in the same run (limits: 1.5 and 12 CPU seconds). "
    )


def growth_lines(results: dict[str, Any]) -> list[str]:
    """What more rows and more columns cost, and what follows for a census."""
    taken = {(case["what"], case["rows"], case["columns"]): case for case in results["cases"]}
    names = list(dict.fromkeys(case["what"] for case in results["cases"]))

    def cell(case: dict[str, Any] | None) -> str:
        if case is None or case["cpu_s"] is None:
            return "" if case is None else "did not end"
        return f"{case['cpu_s']:.{1 if case['cpu_s'] >= 1 else 2}f} s, {case['peak_gb']:.1f} GB"

    def table(sizes: list[tuple[int, int]]) -> list[str]:
        heads = " | ".join(f"{rows:,} x {columns}" for rows, columns in sizes)
        rows = (
            f"| `{name}` | " + " | ".join(cell(taken.get((name, *size))) for size in sizes) + " |" for name in names
        )
        return [f"| | {heads} |", "|---" * (1 + len(sizes)) + "|", *rows]

    long = sorted({(rows, columns) for _, rows, columns in taken if columns == 13})
    wide = sorted({(rows, columns) for _, rows, columns in taken if columns != 13}, key=lambda size: size[1])
    each = {name: taken[name, 1_000_000, 13]["cpu_s"] for name in ("veil", "pca", "ipso")}  # microseconds a row
    hours = " and ".join(f"{each[name] * 1000 / 3600:.1f} (`{name}`)" for name in ("veil", "pca"))
    return [
        "## Growth",
        "",
        "From `bench/growth.json`: lognormal, correlated columns in memory. CPU seconds of the call on all threads, "
        "without compiling, and the peak memory of the process, libraries and data included; each run once, in a "
        "process of its own; `assess` and `recommend` beside other work, which makes CPU seconds up to 1.8 times as "
        f"many. {_peer_line(taken)}`assess` takes the default measures of a release by `pca`: above 100,000 rows, "
        "attacks try 2,000 records against all, and the error of the sample is in the intervals. " + _floor_line(taken),
        "",
        *table(long),
        "",
        *table(wide),
        "",
        "**A census of 10⁹ records with 13 amounts, on paper.** CPU time grows with the rows, so by the figures of "
        f"1,000,000 rows it takes {hours} core hours, reading and writing not counted. The file has 104 GB, 8 bytes a "
        "number. `ipso` and `romm` read it twice, and a cluster shuffles nothing but a factor of 13 x 13 numbers for "
        "each partition. `pca` reads it twice, too, and shuffles each of the 13 components once: 104 GB. `veil` has 52 "
        "features of 4 bytes for each record, 208 GB that each of its one to five passes of exchanges reads and writes "
        "where they are; from partition to partition go 52 x 52 sums a pass (22 kB). What it shuffles are ranks: each "
        "column is put in order five times (its distribution, its ranks, the start, the ranks of that, the result), 16 "
        "bytes for a value and its row, 208 GB each time; with sketches of quantiles in the place of "
        "exact ranks, nothing but the sketches. "
        "An assessment reads both files once for moments and distributions, and once with "
        "2,000 records that are looked for among all.",
    ]


SECTIONS: dict[str, Callable[[Any], list[str]]] = {
    "maskers.json": masker_lines,
    "regression.json": regression_lines,
    "measures.json": measure_lines,
    "study_time.json": study_lines,
    "wide.json": wide_lines,
    "growth.json": growth_lines,
}


def main() -> int:
    pages = {"methods.md": methods_page(), "measures.md": measures_page(), "benchmarks.md": benchmarks_page()}
    pages |= {"options.md": options_page(), "recipe.schema.json": recipe_schema()}
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
