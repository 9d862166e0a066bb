"""What everybody may read of a release.

Written from a list of what may be told, not by leaving out what may not: what was done, what is kept, what it costs an
analyst. Nothing here reads the seed, a measure of risk, a dose, a warning or a value of a single record; nor how many
components were perturbed, or figures that compare records with their own releases, as these tell an intruder how far
to search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from microveil.assessment.assessment import Assessment
from microveil.release.release import Release
from microveil.report import portrait
from microveil.report.analyses import AS_BEFORE, BROKEN, NEARLY, UNKNOWN, analyses, relations_not_kept
from microveil.report.material import KIND_MEANING, Material, heading, kept, roles
from microveil.report.screens import for_everybody

PRIVATE_ADVICE = (
    "Use the file for distributions of columns, correlations, group means and two-way tables; the ledger tells the "
    "noise on each. Relations of three or more columns were not measured.",
    "Single records have no meaning of their own, and extreme values least: values were cut off at declared bounds.",
    "Standard errors computed from this file do not allow for the noise: results near a threshold are open.",
)

SHOWN = ("value", "low", "high", "chance", "better", "range", "meaning")


def public_contents(material: Material) -> dict[str, Any]:
    """The public report as plain data."""
    release = material.release
    if release.ledger is not None:  # whatever looks at the data again is not covered by the promise
        material = replace(material, assessment=None, study=None, before=None, after=None, labels=None, audits=None)
    file, uses = material.files.get("released"), analyses(material)
    return {
        "report": heading("public"),
        "screen": for_everybody(material),
        "identity": {
            "fingerprint": material.fingerprints.get("released"),
            "file": None if file is None else {"name": file.name, "sha256": file.sha256},
        },
        "release": {
            "method": release.method,
            "about": material.summary,
            "reference": material.reference,
            "perturb": release.settings["parameters"].get("perturb"),
            "kind": release.release_type,
            "kind_meaning": KIND_MEANING[release.release_type],
            "rows": release.rows,
            "columns": len(release.dose) + len(release.labels) or len(release.kinds),
            "roles": roles(release),
        },
        "ledger": None if release.ledger is None else release.ledger.to_dict(),
        "kept": kept(release),
        "kept_on_average": list(release.kept_on_average),
        "rules": list(release.rules),
        "measures": _losses(material.assessment),
        "uses": uses,
        "not_kept": relations_not_kept(material, uses),
        "advice": _advice(release, uses),
        "plots": _plots(material),
    }


def _losses(assessment: Assessment | None) -> dict[str, Any]:
    """Measures of utility, of whole files only."""
    if assessment is None:
        return {}
    figures = {
        name: measure.to_dict()
        for name, measure in assessment.of_kind("utility").items()
        if not assessment.entries[name].paired
    }
    return {name: {key: found[key] for key in SHOWN} for name, found in figures.items()}


def _advice(release: Release, uses: Sequence[Mapping[str, Any]]) -> list[str]:
    """What an analyst should and should not do with the file; no analysis that was found to be broken is advised."""
    if release.ledger is not None:
        return [release.ledger.promise] * bool(release.ledger.void) + list(PRIVATE_ADVICE)
    weighted = "weighted " if release.settings["weight"] else ""
    by_verdict = {
        word: [line["use"] for line in uses if line["verdict"] == word] for word in (AS_BEFORE, NEARLY, BROKEN, UNKNOWN)
    }
    words = {
        AS_BEFORE: f"Use the file for {weighted}{{}}: the differences from the original are small.",
        NEARLY: "With care, as results move somewhat: {}.",
        BROKEN: "Not from this file: {}.",
        UNKNOWN: "Not measured, so not advised: {}.",
    }
    said = [words[word].format("; ".join(found)) for word, found in by_verdict.items() if found]
    if release.rules:
        totals = ": totals can be computed from their parts" if "linear rules" in release.kept else ""
        said.append(f"The rules between columns hold in every row{totals}.")
    if release.settings["strata"]:
        said.append("Strata were protected one by one: compare them with each other by the statistics that are kept.")
    else:
        said.append(
            "Results for some of the records are less exact than those for all, the more so the fewer they are."
        )
    return [
        *said,
        "Single records have no meaning of their own: do not read, list or look up rows, and take no extreme value for "
        "one of the original file.",
        "Standard errors computed from this file do not allow for the protection: results near a threshold are open.",
        "Do not try to find out who a record belongs to; tell the producer if you believe that you could.",
    ]


def _plots(material: Material) -> dict[str, Any]:
    return {
        "losses": loss_picture(material),
        "tenths": material.picture(
            "Distributions before and after",
            "Share of released values (bars) and of original ones (lines) in each tenth of the original, from its low "
            "to its high values; where bars end at the lines, the distribution is kept. Values that occur often make "
            "fewer parts.",
            lambda view: portrait.tenths(*view.some),
            some=True,
        ),
        "correlations": correlation_picture(material),
    }


def loss_picture(material: Material) -> dict[str, Any]:
    """What each column lost."""
    return material.picture(
        "Loss of each column",
        "For each column the largest distance between the distribution functions, the change of the mean in standard "
        "deviations and the relative change of the standard deviation, all without weights; 0 is no loss. "
        f"Of more than {portrait.MOST_BARS} columns, those whose distributions lost most are shown.",
        lambda view: _most(view.losses),
    )


def _most(losses: list[portrait.Row]) -> list[portrait.Row]:
    """The columns that vary, or of many those that lost most, in the order of the file."""
    varying = [row for row in losses if row["distribution"] is not None]
    least = sorted((row["distribution"] for row in varying), reverse=True)[: portrait.MOST_BARS][-1:]
    return [row for row in varying if row["distribution"] >= least[0]][: portrait.MOST_BARS]


def correlation_picture(material: Material) -> dict[str, Any]:
    """How correlations changed."""
    return material.picture(
        "Change of the correlations",
        "Correlation in the release less that in the original, without weights, for each pair of columns (of the first "
        f"{portrait.MOST_PAIRED}); 0 is no loss.",
        lambda view: view.correlation_changes,
    )
