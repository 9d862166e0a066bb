"""The memory engine: whole tables, stratum by stratum.

Around the pipeline it sets aside what is not perturbed (constant columns, columns that follow from others, the
places of missing cells) and puts it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from microveil.core.dependence import Dependence, LinearRule, find_dependence
from microveil.core.errors import DataError
from microveil.core.moments import Array, moments, pair_moments
from microveil.core.rng import Streams
from microveil.core.scan import Scan, scan
from microveil.core.table import Table
from microveil.core.threads import single_threaded_blas
from microveil.engines.pipeline import Progress, Spectrum, protected
from microveil.methods import Plan
from microveil.restore import completed, recalibrated, with_means

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Outcome:
    """Released columns and what happened on the way; numbers count the confidential columns.

    With strata, the spectrum and the rules are those of the largest stratum.
    """

    columns: list[Array]
    perturbed: list[int]
    rules: list[LinearRule]
    spectrum: Spectrum


def run(
    plan: Plan,
    table: Table,
    look: Scan,
    streams: Streams,
    *,
    sensitive: Sequence[int] = (),
    declared: Sequence[LinearRule] = (),
    progress: Progress = lambda *_: None,
) -> Outcome:
    """Protect a table, stratum by stratum if it has strata. `look` is the scan of the whole table."""
    with single_threaded_blas():
        if table.strata is None:
            return _run_stratum(plan, table, look, streams, 0, sensitive, declared, progress)
        released = [np.array(column) for column in table.confidential.columns]
        outcomes: list[Outcome] = []
        strata = int(table.strata.max()) + 1
        for number in range(strata):
            part = table.stratum(number)
            look = scan(part)
            outcome = _run_stratum(plan, part, look, streams, number, sensitive, declared, lambda *_: None)
            for column, new in zip(released, outcome.columns, strict=True):
                column[table.strata == number] = new
            outcomes.append(outcome)
            progress("protecting strata", (number + 1) / strata)
        largest = max(outcomes, key=lambda outcome: outcome.columns[0].size)
        return replace(largest, columns=released)


def _run_stratum(
    plan: Plan,
    table: Table,
    look: Scan,
    streams: Streams,
    stratum: int,
    sensitive: Sequence[int],
    declared: Sequence[LinearRule],
    progress: Progress,
) -> Outcome:
    """Set aside, protect, put back."""
    progress("looking for rules", 0.1)
    holes = _holes(table, look)
    dependence = _dependence(table, look, holes, declared)
    chosen = dependence.independent
    core = table.keep(chosen)
    if holes is None:
        filled, summary = core, look.moments.select([*range(table.public), *(table.public + j for j in chosen)])
    else:
        filled = _filled(core, holes, dependence, streams, stratum)
        summary = moments(filled.pieces, filled.count, weights=filled.weights)
    places = _places(sensitive, dependence, table.confidential_names)
    columns, spectrum = protected(plan, filled, summary, places, streams, stratum, progress)
    if holes is not None:
        columns = _with_pair_moments(plan, core, ~holes[:, chosen], columns)
    released = _put_back(table, dependence, columns)
    if holes is not None:
        for j, column in enumerate(released):
            column[holes[:, j]] = np.nan
    return Outcome(released, chosen, dependence.rules, spectrum)


def _holes(table: Table, look: Scan) -> Mask | None:
    """Where confidential cells are missing; None when none is (known from the scan, without another pass)."""
    if not look.missing():
        return None
    return np.isnan(np.column_stack(table.confidential.columns))


def _dependence(table: Table, look: Scan, holes: Mask | None, declared: Sequence[LinearRule]) -> Dependence:
    """Columns that vary and stand for themselves, and rules for those that follow from them."""
    varying = [j - table.public for j in look.varying() if j >= table.public]
    place = {j: at for at, j in enumerate(varying)}
    rules = [rule.renumbered(place) for rule in declared if {rule.column, *rule.terms} <= place.keys()]
    values = table.confidential.select(varying)
    if holes is None:
        whole, summary = values, look.moments.select([table.public + j for j in varying])
    else:
        whole = values.take(np.flatnonzero(~holes[:, varying].any(axis=1)))
        summary = moments(whole.piece, whole.shape[0]) if whole.shape[0] else look.moments.select([])
    found = find_dependence(values, summary, rules, whole)
    back = dict(enumerate(varying))
    return Dependence([back[j] for j in found.independent], [rule.renumbered(back) for rule in found.rules])


def _places(sensitive: Sequence[int], dependence: Dependence, names: Sequence[str]) -> list[int]:
    """Sensitive columns by their place among the perturbed ones; a rebuilt column stands for its terms."""
    terms = {rule.column: list(rule.terms) for rule in dependence.rules}
    wanted = [j for column in sensitive for j in terms.get(column, [column])]
    place = {j: at for at, j in enumerate(dependence.independent)}
    for j in wanted:
        if j not in place:
            raise DataError(f"sensitive: column '{names[j]}' is constant", "leave it out of sensitive")
    return [place[j] for j in dict.fromkeys(wanted)]


def _filled(core: Table, holes: Mask, dependence: Dependence, streams: Streams, stratum: int) -> Table:
    """The perturbed columns without holes."""
    values = np.column_stack(core.confidential.columns)
    present = ~holes[:, dependence.independent]
    return core.with_confidential(list(completed(values, present, streams, stratum).T))


def _with_pair_moments(plan: Plan, core: Table, present: Mask, columns: list[Array]) -> list[Array]:
    """The released columns with the moments that the cells present had."""
    target = pair_moments(np.column_stack(core.confidential.columns), present, weights=core.weights)
    restore = recalibrated if plan.exact else with_means
    return list(np.ascontiguousarray(restore(np.column_stack(columns), present, target, core.weights).T))


def _put_back(table: Table, dependence: Dependence, columns: list[Array]) -> list[Array]:
    """Perturbed, rebuilt and constant columns in the order of the table."""
    new = dict(zip(dependence.independent, columns, strict=True))
    pending = list(dependence.rules)
    while pending:
        # A declared total may be the sum of other totals: rebuild those first.
        rule = next(rule for rule in pending if rule.terms.keys() <= new.keys())
        new[rule.column] = rule.rebuilt(new)
        pending.remove(rule)
    return [new[j] if j in new else np.array(column) for j, column in enumerate(table.confidential.columns)]
