"""A recommendation that a person can sign: what the papers say, what was measured, and where the two disagree."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from microveil.core.displayed import Displayed
from microveil.core.errors import ParameterError, one_of
from microveil.core.threads import worker_count
from microveil.io.frames.dataframes import open_frame
from microveil.methods import method_named
from microveil.options import DECIMALS, NEGATIVE, Protect, Recommend, declared_by
from microveil.protection.columns import treatment_of
from microveil.studies.columns import correlation_structure, numeric_columns, protected_columns
from microveil.studies.compare import ROLES, Progress, label_of, labelled, measures_for, without_roles
from microveil.studies.race import BEHIND, CONFIRM, RANKS, SHUFFLE, Contest, Race, in_order, race
from microveil.studies.store import Store
from microveil.studies.study import FEWEST, KEPT, LOSS, UNPROTECTED, WORST, Study, Summary, without_tables

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
    "veil": [("veil", {}), *(("veil", {"window": window}) for window in (40, 80))],
    "primp_cholesky": [("primp_cholesky", {})],
    "shuffle": [("shuffle", {})],
}
"""Every method that protects all columns, from its smallest dose to its largest."""

FIRST = "veil"
"""What is tried first: if there is time for nothing else, there is an answer."""

ALLOWED = (NEGATIVE, DECIMALS)

IN_ONE = " as far as one release shows (what is beyond it may be luck)"
IN_FEW = " (the time was up before more releases could confirm it)"

RACING = 0.94
"""Share of the time for the race: a file is read before, and the advice written afterwards."""


@dataclass(frozen=True, repr=False)
class Advice(Displayed):
    """A method with its parameters, what to expect of it, and why; `method` is None where none keeps the limit.

    `params` has the roles of columns, too: `protect(data, advice.method, **advice.params)` is what was measured.
    `why` says in two sentences why it is advised, and what it costs. `smallest_dose` has, for each method with a dose,
    the smallest one that keeps the limit, or None; `left_out` says why others went no further, and `untried` what the
    time did not allow. Figures were measured on `rows` of all rows.
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
    why: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    untried: Sequence[str] = ()
    rows: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    sure: bool = False
    """Were the limits kept in releases enough, or only in a few, or as far as one release shows?"""

    def __repr__(self) -> str:
        return f"<Advice: {self.label or 'no method keeps the limit'}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "label": self.label,
            "why": self.why,
            "sure": self.sure,
            "method": self.method,
            "parameters": without_tables(self.params),
            "limit": dict(self.limit),
            "expected": [vars(row) for row in self.expected],
            "runners_up": list(self.runners_up),
            "smallest_dose": dict(self.smallest_dose),
            "cookbook": self.cookbook,
            "reasons": list(self.reasons),
            "left_out": dict(self.left_out),
            "untried": list(self.untried),
            "rows": {"measured": self.rows[0], "of": self.rows[1]},
            "seconds": round(self.seconds, 1),
            "study": self.study.to_dict(),
        }


@declared_by(Recommend)
def recommend(data: Any, *, progress: Progress | None = None, **options: Any) -> Advice:
    """Which method for this table: the least loss of those that keep a limit on the attacks, measured on the table.

    Candidates race against the clock: all on a few rows, the better half on more of them and with all attacks, the best
    with several releases. What makes values negative or broken where none were, leaves a column as it was, or loses
    more than a shuffle of the columns is never advised.

    Args:
        data: any table that `protect` takes.
        progress: called with the name of the step and the share done.
        **options: the options below. Advice holds for the run that has the same roles of columns.
    """
    began, asked = time.monotonic(), Recommend.checked(options)
    for word in asked.allow or ():
        if word not in ALLOWED:
            raise ParameterError(f"allow: '{word}' is unknown", f"it is {one_of(ALLOWED)}")
    roles = {name: getattr(asked, name) for name in (*ROLES, "rules")}
    columns = None if asked.sensitive is None else _columns(data, asked.sensitive)
    # What would be protected as well, were all columns to be: not weights, nor what makes the strata.
    by_role = {name: roles[name] for name in ROLES}
    others = [name for name in protected_columns(data, by_role) if name not in (columns or [])]
    limit = LIMIT if asked.limit is None else asked.limit
    limits = {WORST: float(limit)} if isinstance(limit, int | float) else dict(limit)
    ladders = DOSES if columns is None else selective(columns, others if asked.public is None else asked.public)
    ladders = _chosen(ladders, asked)
    measures = measures_for(MEASURES, limits)
    contest = Contest(
        data,
        _candidates(data, ladders, roles),
        [list(map(_label, ladder)) for ladder in ladders.values()],
        roles,
        measures if columns is None else [*measures, KEPT],
        limits,
        columns,
        asked.allow or (),
        asked.repeats,
        asked.seed,
    )
    store = Store(None if asked.store is None else Path(asked.store))
    left = None if asked.time is None else max(RACING * asked.time - (time.monotonic() - began), 0.1)
    found = race(contest, store, asked.workers or worker_count(), left, progress)
    return _advice(contest, found, ladders, asked, _cookbook(data, columns, others))


def _advice(
    contest: Contest, found: Race, ladders: Mapping[str, Ladder], asked: Recommend, cookbook: tuple[str, str]
) -> Advice:
    """The advice that follows from a race; `cookbook` is the method that the papers advise, and why."""
    study, limits = found.study, contest.limits
    places = {n: place for n, place in in_order(study, limits, found.low_gains).items() if n not in found.out}
    kept = [label for label, (place, _) in places.items() if place == 0]
    order = kept or [label for label, (place, _) in places.items() if place == 1]
    chosen = order[0] if order else None
    confirmed = chosen is not None and len(study.figures[chosen]) >= CONFIRM * contest.repeats
    doubt = IN_FEW if kept and not confirmed else "" if kept else IN_ONE
    method, params = study.methods[chosen] if chosen else (None, {})
    return Advice(
        label=chosen,
        method=method,
        params={
            n: v for n, v in {**asked.changed([*ROLES, "rules"]), **params}.items() if n not in ROLES or v is not None
        }
        if chosen
        else {},
        limit=limits,
        expected=[row for row in study.summaries() if row.label == chosen],
        runners_up=order[1:4],
        smallest_dose={
            name: next((label for label in map(_label, ladder) if label in order), None)
            for name, ladder in ladders.items()
        },
        cookbook=cookbook[0],
        reasons=_reasons(limits, order, found, *cookbook, doubt),
        study=study,
        why=_why(found, limits, order, doubt),
        left_out=found.out,
        untried=found.untried,
        rows=found.rows,
        seconds=found.seconds,
        sure=bool(kept) and confirmed,
    )


def _chosen(ladders: Mapping[str, Ladder], asked: Recommend) -> dict[str, Ladder]:
    """The ladders of candidates, as far as methods are named; what is tried first is first."""
    if asked.methods is not None:
        named: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
        for method, given in labelled(asked.methods).values():
            named.setdefault(method, []).extend(
                [(method, given)] if given or method not in ladders else ladders[method]
            )
        ladders = named
    if asked.weight is not None and FIRST in ladders:  # a weight in clear may tell what it goes with
        hidden = {"weight": None, "protected_weight": asked.weight}
        own = [(method, {**given, **hidden}) for method, given in ladders[FIRST] if "protected_weight" not in given]
        ladders = {**ladders, FIRST: [*own, *ladders[FIRST]]}
    return {name: ladders[name] for name in sorted(ladders, key=lambda one: one != FIRST)}


def _candidates(
    data: Any, ladders: Mapping[str, Ladder], roles: Mapping[str, Any]
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Candidates by label. Those that know no labels release them as they are, which counts among the attacks."""
    frame = open_frame(data)
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for method, given in (entry for ladder in ladders.values() for entry in ladder):
        plan = method_named(method).plan(without_roles(given))
        options = Protect.checked({**roles, **{name: given[name] for name in given if name in Protect.model_fields}})
        labels = () if plan.arranges else treatment_of(frame, options, plan).labels
        keep = {"keep": list(labels)} if labels and options.confidential is None else {}
        found[_label((method, given))] = method, {**given, **keep}
    return found


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
    return label_of(*entry, hidden={"confidential", "public", "sensitive", "keep", "weight"})


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


def _limits(study: Study, limit: Mapping[str, float]) -> str:
    sides = {name: "at least" if study.better(name) == "high" else "at most" for name in limit}
    return ", ".join(f"{name.replace('_', ' ')} {sides[name]} {most:g}" for name, most in limit.items())


def _why(found: Race, limit: Mapping[str, float], order: Sequence[str], doubt: str) -> str:
    """Why this one, and what it costs, in two sentences; `doubt` is what speaks against being sure."""
    study, limits = found.study, _limits(found.study, limit)
    if not order:
        late = " The time was up before all were tried." if found.untried else ""
        return f"No candidate keeps {limits}{_nearest(study, limit)}.{late}"
    chosen = order[0]
    loss, shuffle = study.summary(chosen, LOSS).mean, found.shuffle.get(LOSS)
    scale = "" if shuffle is None else f", where {SHUFFLE} loses {shuffle:.3g}"
    said = [f"{chosen} loses least ({LOSS} {loss:.3g}{scale}) of those that keep {limits}{doubt}"]
    if WORST in study.measures and study.has(chosen, WORST) and found.worst[chosen]:
        gain = study.summary(chosen, WORST)
        ends = "" if gain.mean_low is None else f" (95 % interval {gain.mean_low:.2g} to {gain.mean_high:.2g})"
        average = "in one release" if gain.repeats == 1 else f"on the average of {gain.repeats} releases{ends}"
        said[0] += f"; its worst attack, {found.worst[chosen]}, gains {gain.mean:.3g} {average}"
    names = {RANKS: "rank correlations", "correlation_difference": "correlations", "ks": "distributions"}
    costs = [f"{word} are off by up to {study.summary(chosen, n).mean:.2g}" for n, word in names.items()
             if n in study.measures and study.has(chosen, n)]  # fmt: skip
    if not costs:
        costs = [f"{LOSS} is {loss:.3g}, where 0 is the file itself"]
    return f"{said[0]}. What it costs: {', '.join(costs)}."


def _reasons(
    limit: Mapping[str, float], order: Sequence[str], found: Race, cookbook: str, why_cookbook: str, doubt: str
) -> list[str]:
    """Plain words: the limit, what was found, and where the papers' advice and the measurement part.

    Args:
        limit: by measure.
        order: the methods that keep the limit, from the least loss on.
        found: what was measured, who is out, and what was not tried.
        cookbook: the method that the papers advise.
        why_cookbook: and why.
        doubt: what speaks against being sure.
    """
    study = found.study
    limits, often = _limits(study, limit), _often(study, order[0] if order else None, limit)
    left_out = [
        f"{label} is left out: a sensitive column keeps a correlation of {kept:.2f} with its original, and more than "
        f"{UNPROTECTED:g} is no protection"
        for label, kept in study.unprotected.items()
    ]
    left_out += _grouped(found.out, [*found.out, *study.methods, *found.untried])
    if found.untried:
        left_out.append(f"not tried, as the time was up: {', '.join(found.untried)}")
    if found.rows[0] < found.rows[1]:
        left_out.append(f"measured on {found.rows[0]:,} of {found.rows[1]:,} rows, drawn at random")
    left_out += [found.checked] if found.checked else []
    if not order:
        return [f"no method keeps {limits} {often}{_nearest(study, limit)}", why_cookbook, *left_out]
    chosen, loss = order[0], study.summary(order[0], LOSS)
    spread = "" if loss.mean_low is None else f" [{loss.mean_low:.3f}, {loss.mean_high:.3f}]"
    said = [
        f"{len(order)} of the {len(study.figures)} candidates of the last round "
        f"{'keeps' if len(order) == 1 else 'keep'} {limits}{doubt if doubt == IN_ONE else f' {often}'}",
        f"of these {chosen} loses least: {LOSS} {loss.mean:.3f}{spread}",
    ]
    if len(order) > 1:
        said.append(f"next comes {order[1]} with {LOSS} {study.summary(order[1], LOSS).mean:.3f}")
    agree = not cookbook or chosen.split()[0] == cookbook
    said.append(why_cookbook + ("" if agree else f"; measured on this table, {_against(found, cookbook, order)}"))
    return [*said, *left_out]


def _grouped(out: Mapping[str, str], of: Collection[str]) -> list[str]:
    """Who is out, by the reason, a method of which all candidates are by its name; those that came behind are not."""
    by_reason: dict[str, dict[str, str]] = {}
    for label, why in out.items():
        if not why.startswith(BEHIND):
            others = [one for one in of if one.split()[0] == label.split()[0] and one not in out]
            by_reason.setdefault(why.partition(f": {LOSS}")[0], {})[label if others else label.split()[0]] = why
    return [f"left out: {', '.join(names)} ({next(iter(names.values()))})" for names in by_reason.values()]


def _often(study: Study, chosen: str | None, limit: Mapping[str, float]) -> str:
    """In which releases a limit is kept; of a few it cannot be said what others would do."""
    made = [len(study.figures[chosen])] if chosen else map(len, study.figures.values())
    count = max(made, default=0)
    if set(limit) == {WORST}:
        return "in one release" if count == 1 else f"on the average of {count} releases"
    if count >= FEWEST:
        return "in 95 % of the releases"
    return f"in every release ({count}, too few to say where 95 % lie; ask for {FEWEST} or more)"


def _nearest(study: Study, limit: Mapping[str, float]) -> str:
    """Who comes nearest to the first limit."""
    measure = next(iter(limit))
    sign = -1 if study.better(measure) == "high" else 1
    out = study.unprotected
    there = [label for label in study.figures if study.has(label, measure) and label not in out]
    worst = {label: study.worst(label, measure) for label in there}
    nearest = min(worst, key=lambda label: sign * worst[label], default=None)
    return "" if nearest is None else f"; nearest comes {nearest} ({worst[nearest]:.3g})"


def _against(found: Race, cookbook: str, order: Sequence[str]) -> str:
    """How the cookbook's method fared, compared with the one that was chosen."""
    study = found.study
    own = [label for label in (*study.figures, *found.out) if label.split()[0] == cookbook]
    within = [label for label in order if label in own]
    if within:
        loss = study.summary(within[0], LOSS).mean
        return f"{within[0]} keeps the limit too, but loses more ({LOSS} {loss:.3f})"
    if own and set(own) <= set(study.unprotected):
        return f"{cookbook} does not protect the sensitive columns"
    if own and own[-1] in found.out and "could not" not in found.out[own[-1]]:
        return f"{own[-1]} went no further: {found.out[own[-1]]}"
    return f"{cookbook} does not keep the limit" if own else f"{cookbook} could not be applied"
