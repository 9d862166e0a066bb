"""A recommendation that a person can sign: what the papers say, what was measured, and where the two disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from microveil.core.displayed import Displayed
from microveil.core.errors import ParameterError
from microveil.options import Compare, Recommend, declared_by
from microveil.studies.columns import correlation_structure, numeric_columns, protected_columns
from microveil.studies.compare import ROLES, Progress, compare, label_of, measures_for
from microveil.studies.study import FEWEST, LOSS, UNPROTECTED, WORST, Study, Summary, without_tables

LIMIT = {WORST: 0.02}
"""What an attack may gain over chance, where nothing is said: one record in fifty."""

SIGNIFICANT, HIGH = 0.3, 0.5
"""Between- and within-correlations from which on the cookbook's "significant" and "high" hold; it gives no figures."""

MEASURES = (
    "dbrl",
    "mahalanobis_linkage",
    "rank_linkage",
    "optimal_linkage",
    "subspace_linkage",
    "known_columns_linkage",
    "interval_disclosure",
    "interval_disclosure_own",
    "extreme_disclosure",
    "exact_matches",
    "near_matches",
    "membership",
    "pil",
    "propensity_3",
    "classifier_auc",
    "ks",
    "correlation_difference",
    "rank_correlation_difference",
)
"""All attacks that `assess` and `compare` measure where nothing is said, so that the worst of them is the same one; and
a loss for each thing that files are used for."""

Ladder = Sequence[tuple[str, Mapping[str, Any]]]
"""One method at growing doses."""

DOSES: dict[str, Ladder] = {
    "pca": [("pca", {"components": count}) for count in (1, 3, 5, 8)] + [("pca", {})],
    "score_mix": [("score_mix", {"correlation": rho}) for rho in (0.9, 0.7, 0.5, 0.3)] + [("ipso", {})],
    "rank_swap": [("rank_swap", {"rank_window": window}) for window in (0.05, 0.1, 0.2, 0.5)],
    "noise": [("noise", {"noise_sd_ratio": ratio}) for ratio in (0.2, 0.5, 1.0)],
    "microaggregate_noise": [("microaggregate_noise", {"group_size": size}) for size in (3, 5, 10, 25)],
    "microhybrid": [("microhybrid", {"group_size": size}) for size in (10, 30, 100)],
    "veil": [("veil", {})],
    "primp_cholesky": [("primp_cholesky", {})],
    "shuffle": [("shuffle", {})],
}
"""Every method that protects all columns, from its smallest dose to its largest."""


@dataclass(frozen=True, repr=False)
class Advice(Displayed):
    """A method with its parameters, what to expect of it, and why; `method` is None where none keeps the limit.

    `params` has the roles of columns, too: `protect(data, advice.method, **advice.params)` is what was measured.
    `smallest_dose` has, for each method with a dose, the smallest one that keeps the limit, or None.
    """

    label: str | None
    method: str | None
    params: Mapping[str, Any]
    limit: Mapping[str, float]
    expected: Sequence[Summary]
    runners_up: Sequence[str]
    smallest_dose: Mapping[str, str | None]
    cookbook: str
    reasons: Sequence[str]
    study: Study

    def __repr__(self) -> str:
        return f"<Advice: {self.label or 'no method keeps the limit'}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "label": self.label,
            "method": self.method,
            "parameters": without_tables(self.params),
            "limit": dict(self.limit),
            "expected": [vars(row) for row in self.expected],
            "runners_up": list(self.runners_up),
            "smallest_dose": dict(self.smallest_dose),
            "cookbook": self.cookbook,
            "reasons": list(self.reasons),
            "study": self.study.to_dict(),
        }


@declared_by(Recommend)
def recommend(data: Any, *, progress: Progress | None = None, **options: Any) -> Advice:
    """Which method for this table: the least loss of those that keep a limit on the attacks, measured on the table.

    Args:
        data: any table that `protect` takes.
        progress: called with the name of the step and the share done.
        **options: the options below. Advice holds for the run that has the same roles of columns.
    """
    asked = Recommend.checked(options)
    roles = {name: getattr(asked, name) for name in ROLES}
    columns = None if asked.sensitive is None else _columns(data, asked.sensitive)
    # What would be protected as well, were all columns to be: not weights, nor what makes the strata.
    others = [name for name in protected_columns(data, roles) if name not in (columns or [])]
    limit = LIMIT if asked.limit is None else asked.limit
    limits = {WORST: float(limit)} if isinstance(limit, int | float) else dict(limit)
    ladders = DOSES if columns is None else selective(columns, others if asked.public is None else asked.public)
    candidates = {_label(entry): entry for ladder in ladders.values() for entry in ladder}
    shared = {**asked.only(Compare), "sensitive": columns, "measures": measures_for(MEASURES, limits)}
    study = compare(data, candidates, **shared, progress=progress)
    order = study.ranked(limits) if study.figures else []
    chosen = order[0] if order else None
    method, params = study.methods[chosen] if chosen else (None, {})
    cookbook, why = _cookbook(data, columns, others)
    return Advice(
        label=chosen,
        method=method,
        params={**asked.changed([*ROLES, "rules"]), **params} if chosen else {},
        limit=limits,
        expected=[row for row in study.summaries() if row.label == chosen],
        runners_up=order[1:4],
        smallest_dose={
            name: next((label for label in map(_label, ladder) if label in order), None)
            for name, ladder in ladders.items()
        },
        cookbook=cookbook,
        reasons=_reasons(study, limits, order, cookbook, why),
        study=study,
    )


def selective(sensitive: Sequence[str], public: Sequence[str] | str) -> dict[str, Ladder]:
    """Methods that leave the other columns alone, or nearly so, from the smallest dose to the largest."""
    alone = {"confidential": list(sensitive)}
    regressed = {**alone, "public": public} if public else alone
    factors = {"select": "loads_on_sensitive", "rotation": "sensitive_first", "rest": "perturb_sensitive"}
    return {
        "pca": [
            ("pca", {"components": "sensitive", "sensitive": list(sensitive), "sensitive_share": share})
            for share in (0.5, 0.8, 0.95)
        ],
        "factor": [("factor", {**factors, "sensitive": list(sensitive)})],
        "residual_mix": [("residual_mix", {"correlation": rho, **regressed}) for rho in (0.9, 0.7, 0.4)]
        + [("ipso", regressed)],
        "microhybrid": [("microhybrid", {"group_size": size, **regressed}) for size in (54, 180)],
        "microaggregate_noise": [("microaggregate_noise", {"group_size": size, **alone}) for size in (3, 10, 25)],
    }


def _columns(data: Any, sensitive: Sequence[str | int] | str | int) -> list[str]:
    """Sensitive columns by name, each once."""
    given = [sensitive] if isinstance(sensitive, str | int) else list(sensitive)
    if not given:
        raise ParameterError("sensitive: no column named", "name at least one, or leave it out for all")
    numeric = numeric_columns(data)
    return list(dict.fromkeys(numeric[one] if isinstance(one, int) else one for one in given))


def _label(entry: tuple[str, Mapping[str, Any]]) -> str:
    """The method and its dose; which columns are protected is the same for all."""
    return label_of(*entry, hidden={"confidential", "public", "sensitive"})


def _cookbook(data: Any, sensitive: Sequence[str] | None, others: Sequence[str]) -> tuple[str, str]:
    """The method that the cookbook names (Calviño, Aldeguer and Domingo-Ferrer 2017, §V), and why."""
    if sensitive is None:
        return "pca", "the cookbook says pca, as all columns are protected"
    between, within = correlation_structure(data, sensitive, others)
    seen = f"correlations are {between:.2f} between sensitive and other columns, and {within:.2f} among the others"
    if within >= HIGH and between < SIGNIFICANT:
        return "pca", f"the cookbook says pca: {seen}"
    if within < HIGH and between >= SIGNIFICANT:
        return "factor", f"the cookbook says factor: {seen}"
    if between < SIGNIFICANT:
        return "microaggregate_noise", f"the cookbook says microaggregation: {seen}"
    return "", f"the cookbook names no method: {seen}, both are high"


def _reasons(
    study: Study, limit: Mapping[str, float], order: Sequence[str], cookbook: str, why_cookbook: str
) -> list[str]:
    """Plain words: the limit, what was found, and where the papers' advice and the measurement part.

    `order` has the methods that keep the limit, from the least loss on; `cookbook` the method that the papers advise.
    """
    sides = {name: "at least" if study.better(name) == "high" else "at most" for name in limit}
    limits = ", ".join(f"{name.replace('_', ' ')} {sides[name]} {most:g}" for name, most in limit.items())
    often = _often(study)
    left_out = [
        f"{label} is left out: a sensitive column keeps a correlation of {kept:.2f} with its original, and more than "
        f"{UNPROTECTED:g} is no protection"
        for label, kept in study.unprotected.items()
    ]
    if not order:
        return [f"no method keeps {limits} in {often}{_nearest(study, limit)}", why_cookbook, *left_out]
    chosen, loss = order[0], study.summary(order[0], LOSS)
    spread = "" if loss.mean_low is None else f" [{loss.mean_low:.3f}, {loss.mean_high:.3f}]"
    found = [
        f"{len(order)} of {len(study.figures)} candidates keep {limits} in {often}",
        f"of these {chosen} loses least: {LOSS} {loss.mean:.3f}{spread}",
    ]
    if len(order) > 1:
        found.append(f"next comes {order[1]} with {LOSS} {study.summary(order[1], LOSS).mean:.3f}")
    agree = not cookbook or chosen.split()[0] == cookbook
    found.append(why_cookbook + ("" if agree else f"; measured on this table, {_against(study, cookbook, order)}"))
    return [*found, *left_out, *(f"{label} could not be applied: {reason}" for label, reason in study.failed.items())]


def _often(study: Study) -> str:
    """In how many releases a limit is kept; of a few it cannot be said what others would do."""
    made = max((len(releases) for releases in study.figures.values()), default=0)
    if made >= FEWEST:
        return "95 % of the releases"
    return f"every release ({made} of each, too few to say where 95 % lie; ask for {FEWEST} or more)"


def _nearest(study: Study, limit: Mapping[str, float]) -> str:
    """Who comes nearest to the first limit."""
    measure = next(iter(limit))
    sign = -1 if study.better(measure) == "high" else 1
    out = study.unprotected
    there = [label for label in study.figures if study.has(label, measure) and label not in out]
    worst = {label: study.worst(label, measure) for label in there}
    nearest = min(worst, key=lambda label: sign * worst[label], default=None)
    return "" if nearest is None else f"; nearest comes {nearest} ({worst[nearest]:.3g})"


def _against(study: Study, cookbook: str, order: Sequence[str]) -> str:
    """How the cookbook's method fared, compared with the one that was chosen."""
    own = [label for label in study.figures if label.split()[0] == cookbook]
    within = [label for label in order if label in own]
    if within:
        loss = study.summary(within[0], LOSS).mean
        return f"{within[0]} keeps the limit too, but loses more ({LOSS} {loss:.3f})"
    if own and set(own) <= set(study.unprotected):
        return f"{cookbook} does not protect the sensitive columns"
    return f"{cookbook} does not keep the limit" if own else f"{cookbook} could not be applied"
