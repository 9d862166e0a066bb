"""The account of a release as one HTML file that needs nothing from anywhere.

Two versions. Internal: everything, the seed included, so that the release can be repeated. Public: what was done
and what is kept; no seed, no dose, no warning that would help an intruder, no original value.
"""

from __future__ import annotations

from pathlib import Path

from microveil.core.atomic import atomic_target
from microveil.core.results import Release

KIND_MEANING = {
    "masked": "original scores, rearranged or blurred",
    "hybrid": "partly drawn from a model, partly original",
    "synthetic": "drawn from a model",
}


def statistic_meanings(weighted: bool, by_stratum: bool) -> dict[str, str]:
    """What the statistics that are kept are, and in which unit their errors are given."""
    of = "weighted " if weighted else ""
    where = " in every stratum" if by_stratum else ""
    return {
        "mean": f"{of}column means{where} (in standard deviations)",
        "covariance": f"{of}variances and covariances{where} (over the product of two standard deviations)",
        "rank correlation": "Spearman's correlations",
        "distribution": "the distributions of the columns (largest distance between two, by Kolmogorov and Smirnov)",
        "mean in clusters": "column means in every cluster (in standard deviations over all records)",
        "covariance in clusters": "variances and covariances in every cluster (over the product of two standard "
        "deviations over all records)",
        "linear rules": "sums and other linear rules between columns (over the size of their terms)",
    }


def write_report(release: Release, path: Path, audience: str) -> None:
    """Write the report for an audience, whole or not at all."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("microveil.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    template = environment.get_template("release.html.j2")
    text = template.render(
        release=release,
        internal=audience == "internal",
        kind_meaning=KIND_MEANING[release.kind],
        statistic_meaning=statistic_meanings(
            weighted=release.settings["weight"] is not None, by_stratum=bool(release.settings["strata"])
        ),
    )
    with atomic_target(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
