"""What its owner reads of a release: everything that is known of it, and what is not known with the reason."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from microveil.assessment.assessment import Assessment
from microveil.intake.kinds import TIMES
from microveil.io.config_files import toml_text
from microveil.measures.base import Measure
from microveil.release.release import EXACTLY, Audit, Release
from microveil.report import portrait
from microveil.report.analyses import analyses
from microveil.report.command_line import protect_words
from microveil.report.material import KIND_MEANING, Material, ThinnedPair, heading, kept, picture, roles
from microveil.report.processing import record_of_processing
from microveil.report.public import correlation_picture, loss_picture
from microveil.report.screens import of_release
from microveil.report.study import map_picture, study_contents
from microveil.report.verdict import digits, percent

WORST = 3
RECORDS = 20
"""Attacks that are named as the worst."""

ABOUT_OUTLIERS = ("outlier_risk", "extreme_disclosure")

NOTHING_MEASURED = "nothing was measured: pass release.report(..., assessment=mv.assess(original, release.data))"


def internal_contents(material: Material) -> dict[str, Any]:
    """The internal report as plain data."""
    release, found = material.release, material.assessment
    return {
        "report": heading("internal"),
        "screen": of_release(material),
        "uses": analyses(material),
        "record": record_of_processing(material),
        "identity": _identity(material),
        "context": _context(release),
        "release": _release(material),
        "policy": None if found is None or found.verdict is None else found.verdict.to_dict(),
        "kept": kept(release),
        "kept_on_average": list(release.kept_on_average),
        "found": dict(release.found),
        "rules": list(release.rules),
        "dose": {name: asdict(dose) for name, dose in {**release.dose, **release.labels}.items()},
        "warnings": [*release.warnings, *(f"for the owner only: {line}" for line in release.for_owner)],
        "ledger": None if release.ledger is None else release.ledger.to_dict(),
        "measures": _measures(found),
        "measured": material.measured or (NOTHING_MEASURED if found is None else ""),
        "sanity": None if found is None or found.sanity is None else {"rows": found.sanity.rows, "of": found.sanity.of},
        "skipped": {} if found is None else dict(found.skipped),
        "notes": [] if found is None else list(found.notes),
        "worst_attacks": _worst_attacks(found),
        "records": _records(found),
        "outliers": [name for name in ABOUT_OUTLIERS if found is not None and name in found],
        "leakage": None if release.leakage is None else asdict(release.leakage),
        "audit": None if material.audits is None else [asdict(audit) for audit in material.audits],
        "components": _components(release),
        "study": None if material.study is None else study_contents(material.study),
        "residual_risk": _residual_risk(release, found, material.audits),
        "replay": _replay(material),
        "plots": internal_plots(material),
    }


def _identity(material: Material) -> dict[str, Any]:
    """Which data these were: a fingerprint of the cells, and where they were files, their names and hashes."""
    return {
        which: {
            "fingerprint": material.fingerprints.get(which),
            "file": asdict(material.files[which]) if which in material.files else None,
        }
        for which in ("original", "released")
    }


def _context(release: Release) -> dict[str, str]:
    """The software it was made with. Where the engine was left open, a table that came in memory stayed there."""
    from importlib.metadata import version

    engine = release.settings["engine"]
    libraries = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "polars")}
    return {"python": platform.python_version(), "engine": "memory" if engine == "auto" else engine, **libraries}


def _release(material: Material) -> dict[str, Any]:
    release = material.release
    return {
        "method": release.method,
        "about": material.summary,
        "reference": material.reference,
        "perturb": release.settings["parameters"].get("perturb"),
        "parameters": dict(release.settings["parameters"]),
        "kind": release.release_type,
        "kind_meaning": KIND_MEANING[release.release_type],
        "rows": release.rows,
        "columns": len(release.dose) + len(release.labels),
        "roles": roles(release),
        "perturbed_components": len(release.components.perturbed),
        "of_components": int(release.components.variance.size),
        "altered_variance": release.components.altered_variance,
    }


def _measures(found: Assessment | None) -> dict[str, Any]:
    """Every figure, with its kind and what the originals themselves and a shuffle of them give."""
    if found is None:
        return {}
    return {
        name: {
            **measure.to_dict(),
            "kind": found.entries[name].kind,
            **dict(zip(("identity", "shuffle"), found.known(name), strict=True)),
        }
        for name, measure in found.items()
    }


def _worst_attacks(found: Assessment | None) -> list[dict[str, Any]]:
    """The attacks that gain most over chance, as a share of what was to be gained."""
    if found is None:
        return []
    lines = []
    for name, gain in list(found.gains.items())[:WORST]:
        figure = _attack(found, name).to_dict()
        shown = {key: figure[key] for key in ("value", "low", "high", "chance")}
        lines.append({"measure": name, "gain": max(gain, 0.0), **shown})
    return lines


def _attack(found: Assessment, name: str) -> Measure:
    """The figure of an attack; what columns in clear give away is measured without being asked for."""
    return found.in_clear if found.in_clear is not None and found.in_clear.id == name else found.figures[name]


def _records(found: Assessment | None) -> list[dict[str, Any]]:
    """The records at highest risk: their row numbers and reasons, never a value."""
    if found is None:
        return []
    table = found.records_at_risk(RECORDS)
    return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]


def _components(release: Release) -> list[dict[str, Any]]:
    table = release.components
    return [
        {
            "component": number,
            "share": float(share),
            "perturbed": number in table.perturbed,
            "note": table.notes.get(number, ""),
        }
        for number, share in enumerate(table.explained)
    ]


def _residual_risk(release: Release, found: Assessment | None, audits: Sequence[Audit] | None) -> list[str]:
    """What may still go wrong, in words."""
    said = [*_risk_of_attacks(found), *_risk_in_clear(release), *_risk_of_statistics(release)]
    if release.leakage is not None:
        leaked = release.leakage
        moved = leaked.still_near is not None and leaked.still_near < leaked.expected
        said.append(
            f"Records that come back whole by accident: {digits(leaked.expected)} are expected, at least "
            f"one with probability {digits(leaked.risk)}."
            + (f" Exact moments move them; {digits(leaked.still_near)} stay near where they were." if moved else "")
        )
    broken = [audit for audit in audits or () if audit.after > audit.before]
    if broken:
        said.append(f"{len(broken)} rules of the columns hold in fewer rows than before: see the audit.")
    if release.seed is not None and "secret" not in release.settings:
        said.append(
            "Whoever knows the seed and all of the data but one cell can try what the cell may be: the truth gives "
            "this release to the last bit. Keep the seed and this report secret, or salt the seed (secret, --secret)."
        )
    return [
        *said,
        "An attack that was not tried may do better, and so may an intruder who knows more than was assumed. "
        "This report does not say that the data are anonymous.",
    ]


def _risk_of_attacks(found: Assessment | None) -> list[str]:
    worst = None if found is None else found.worst_attack
    if worst is None:
        return ["No attack was measured, so nothing can be said on what an intruder would find."]
    chance, verdict = "not known", ""
    if worst.chance is not None:
        chance = digits(worst.chance)
        verdict = "That is more than luck." if worst.low > worst.chance else "That cannot be told from luck."
    return [
        f"Of the attacks that were tried, {worst.id} gains most: {digits(worst.value)} (95 % interval "
        f"{digits(worst.low)} to {digits(worst.high)}), by luck alone {chance} ({worst.meaning}). {verdict}"
    ]


def _risk_in_clear(release: Release) -> list[str]:
    if not release.unique_in_clear:
        return []
    return [
        f"{percent(release.unique_in_clear)} of the rows are unique on the columns in clear "
        f"({', '.join(release.in_clear)}): whoever knows these finds them, whatever the others say."
    ]


def _risk_of_statistics(release: Release) -> list[str]:
    exact = [name for name, error in release.kept.items() if error <= EXACTLY]
    said = []
    if exact:
        said.append(f"Kept exactly, and so disclosed exactly, in small domains too: {', '.join(exact)}.")
    untouched = int(release.components.variance.size) - len(release.components.perturbed)
    if untouched > 0:
        said.append(
            f"{untouched} components were left as they are: they can be estimated from the release, and records linked "
            "through them."
        )
    return said


def _replay(material: Material) -> dict[str, Any]:
    """How to make the same release again from the same data."""
    recipe = material.release.recipe(include_seed=material.release.seed is not None)
    needs = ", ".join(recipe.get("needs", ()))
    notes = (
        [f"Tables that the method was given are in no recipe, and have to be given again: {needs}."] if needs else []
    )
    notes += [] if "seed" in recipe else ["The seed was left behind when the release was stored."]
    return {
        "seed": recipe.get("seed"),
        "recipe": recipe,
        "command": _command(material, recipe),
        # A command has no place for rules that were not in a file: it names the recipe, which has.
        "file": toml_text(recipe) if isinstance(recipe["rules"], Mapping) else "",
        "note": " ".join(notes),
    }


def _command(material: Material, recipe: Mapping[str, Any]) -> str:
    names = {which: material.files[which].name if which in material.files else "" for which in ("original", "released")}
    source, output = names["original"] or "INPUT", names["released"] or "OUTPUT"
    if isinstance(recipe["rules"], Mapping):
        return shlex.join(["microveil", "run", "recipe.toml", "--input", source, "--output", output])
    words = protect_words(source, output, recipe)
    seed = ["--seed", str(recipe["seed"])] if "seed" in recipe else []
    return shlex.join([*words, *material.options, "--engine", recipe["engine"], *seed])


def internal_plots(material: Material) -> dict[str, Any]:
    """Every picture of a release that its owner may see."""
    return {
        "ru_map": map_picture(material.study),
        "attacks": attack_picture(material.assessment),
        **_component_plots(material.release),
        **_column_plots(material),
    }


def attack_picture(found: Assessment | None) -> dict[str, Any]:
    """What every attack finds, beside luck and a shuffle."""
    return picture(
        "What attacks find",
        "Bars: share found by each attack, the one that gains most first. Black: by luck alone. Orange: in a shuffle "
        "of every column, where it was measured. A bar that ends at the black line finds no more than luck.",
        None if found is None else lambda: [_attack_row(found, name) for name in found.gains],
        "no attack was measured",
    )


def _attack_row(found: Assessment, name: str) -> portrait.Row:
    figure = _attack(found, name)
    return {"attack": name, "value": figure.value, "chance": figure.chance, "shuffle": found.known(name)[1]}


def _component_plots(release: Release) -> dict[str, Any]:
    table, few = release.components, portrait.MOST_PAIRED
    state = {True: "perturbed", False: "left as it is"}
    first = set(table.columns[:few])
    return {
        "scree": picture(
            "Components",
            "Share of the total variance in each component, and whether it was perturbed.",
            lambda: [
                {"component": k, "share": float(share), "state": state[k in table.perturbed]}
                for k, share in enumerate(table.explained[:few])
            ],
        ),
        "altered": picture(
            "Altered variance",
            "For each column the share of its variance that lies in perturbed components.",
            lambda: [
                {"column": name, "altered": min(max(1 - stays, 0.0), 1.0)}
                for name, stays in list(table.untouched_variance.items())[: portrait.MOST_BARS]
            ],
        ),
        "weights": picture(
            "Weights of the components",
            "Weight of each column in each component, as a share of the column's weights.",
            lambda: [
                {"column": row["column"], "component": row["component"], "share": row["weight_share"]}
                for row in table.to_rows()
                if row["component"] < few and row["column"] in first
            ],
        ),
    }


def _column_plots(material: Material) -> dict[str, Any]:
    def distributions(view: ThinnedPair) -> list[portrait.Row]:
        """Outlines of the columns; those of dates without numbers, which would be steps since some day."""
        kinds = material.release.kinds
        return [{**row, "time": kinds.get(row["column"]) in TIMES} for row in portrait.histograms(*view.some)]

    return {
        "losses": loss_picture(material),
        "histograms": material.picture(
            "Distributions before and after",
            "Shares of original (area) and released values (line), skewed columns on an axis of ratios. The ends have "
            f"what lies beyond the 2nd and 98th hundredth of the original; fewer than {portrait.FEWEST} records are "
            "drawn as none.",
            distributions,
            some=True,
        ),
        "quantiles": material.picture(
            "Quantiles against each other",
            "The hundredths of the release over those of the original, in standard deviations of the original from its "
            "mean; on the line they are equal.",
            lambda view: portrait.quantiles(*view.some),
            some=True,
        ),
        "correlations": correlation_picture(material),
        **_label_plots(material),
    }


def _label_plots(material: Material) -> dict[str, Any]:
    """What became of labels; nothing of a file without any."""
    labels, before, after = material.labels, material.before, material.after
    if labels is None or not labels.of_labels.names:
        return {}
    plots = {
        "two_way": picture(
            "Change of a table of labels",
            "Of all tables of two columns of labels with some records in each cell, the one that changed most: the "
            "share of the records in each cell of the release less that in the original. Cells of fewer than "
            f"{portrait.FEWEST} original records are not drawn.",
            lambda: portrait.two_way_change(labels),
        )
    }
    if before is not None and after is not None:
        plots["group_means"] = picture(
            "Means of groups before and after",
            "Means of columns in the groups that labels make, in standard deviations of the original from its mean, "
            "for the pairs of columns that lost most; small groups are left out.",
            lambda: portrait.group_means(before, after, material.names, labels),
        )
    return plots
