"""The memory engine: whole tables, stratum by stratum.

Around the pipeline it sets aside what is not perturbed (constant columns, columns that follow from others, the
places of missing cells) and puts it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.dependence import Dependence, LinearRule, find_dependence, in_order
from microveil.core.errors import DataError, MicroveilError
from microveil.core.moments import moments, pair_moments
from microveil.core.rng import Streams
from microveil.core.scan import Scan, scan
from microveil.core.table import Table, rows_by_group
from microveil.engines.pipeline import Progress, Spectrum, protected
from microveil.methods import Plan
from microveil.restore import completed, recalibrated, with_means

ROWS_PER_COLUMN = 3
"""Rows without holes for each column that rules are looked for among."""


@dataclass(frozen=True, repr=False)
class Outcome:
    """Released columns and what happened on the way; numbers count the confidential columns.

    `altered` and `variance` are, per column, the variance in perturbed components and the whole (sums over rows).
    `untouched` is the number of components left as they are, `single` tells of records that have one component only.
    With strata the spectrum is that of the largest, and the other figures are the worst, or the sums, of all.
    """

    columns: list[Array]
    perturbed: list[int]
    rules: list[LinearRule]
    spectrum: Spectrum
    altered: Array
    variance: Array
    determined: list[int]
    leverage: int
    untouched: int
    single: bool

    @property
    def constant(self) -> list[int]:
        """Columns that came through because they are constant."""
        moved = {*self.perturbed, *(rule.column for rule in self.rules)}
        return [j for j in range(len(self.columns)) if j not in moved]


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
    progress("looking for rules", 0.1)
    if table.strata is None:
        whole = _run_stratum(plan, table, look, streams, 0, sensitive, declared, progress)
        if whole is None:
            raise DataError("confidential: every column is constant", "there is nothing to perturb; check the data")
        return whole
    rules = _dependence(table, look, _holes(table, look), declared).rules
    parts = []
    members = rows_by_group(table.strata)
    for number, rows in enumerate(members):
        part = table.take(rows)
        try:
            parts.append(_run_stratum(plan, part, scan(part), streams, number, sensitive, rules, lambda *_: None))
        except MicroveilError as error:
            raise type(error)(f"in a stratum of {rows.size} rows: {error.problem}", error.hint) from None
        progress("protecting strata", (number + 1) / len(members))
    return _joined(table, look, members, parts, rules)


def _joined(
    table: Table, look: Scan, members: list[NDArray[np.intp]], parts: list[Outcome | None], rules: list[LinearRule]
) -> Outcome:
    """The strata in one: only rules of the whole table are told of, and a column is constant if it is everywhere."""
    columns = [np.array(column) for column in table.confidential.columns]
    changed = [(rows, part) for rows, part in zip(members, parts, strict=True) if part is not None]
    if not changed:
        raise DataError("strata: every column is constant in every group", "use fewer strata")
    for rows, part in changed:
        for column, new in zip(columns, part.columns, strict=True):
            column[rows] = new
    outcomes = [part for _, part in changed]
    return Outcome(
        columns=columns,
        perturbed=sorted({j for part in outcomes for j in part.perturbed}),
        rules=rules,
        spectrum=max(outcomes, key=lambda part: part.columns[0].size).spectrum,
        altered=np.sum([part.altered for part in outcomes], axis=0),
        variance=_variance(table, look) * table.count,
        determined=sorted({j for part in outcomes for j in part.determined}),
        leverage=sum(part.leverage for part in outcomes),
        untouched=max(part.untouched for part in outcomes),
        single=any(part.single for part in outcomes),
    )


def _run_stratum(
    plan: Plan,
    table: Table,
    look: Scan,
    streams: Streams,
    stratum: int,
    sensitive: Sequence[int],
    rules: Sequence[LinearRule],
    progress: Progress,
) -> Outcome | None:
    """Set aside, protect, put back; None if nothing varies.

    `rules` hold in the whole table; a stratum may have others by accident.
    """
    holes = _holes(table, look)
    dependence = _dependence(table, look, holes, rules)
    chosen = dependence.independent
    if not chosen:
        return None
    places = _places(sensitive, dependence, table.confidential_names)
    core = table.keep(chosen)
    if holes is None:
        summary = look.moments.select([*range(table.public), *(table.public + j for j in chosen)])
        columns, spectrum = protected(plan, core, summary, places, streams, stratum, progress)
        released = _put_back(table, dependence, columns)
    else:
        present = ~holes[:, chosen]
        filled = _filled(core, present, streams, stratum)
        summary = moments(filled.pieces, filled.count, weights=filled.weights)
        columns, spectrum = protected(plan, filled, summary, places, streams, stratum, progress)
        released = _put_back(table, dependence, _with_pair_moments(plan, core, present, columns))
        for column, hole in zip(released, holes.T, strict=True):
            column[hole] = np.nan
    return Outcome(
        columns=released,
        perturbed=chosen,
        rules=dependence.rules,
        spectrum=spectrum,
        altered=_altered(spectrum, dependence, len(released)) * table.count,
        variance=_variance(table, look) * table.count,
        determined=[chosen[j] for j in spectrum.determined],
        leverage=spectrum.leverage,
        untouched=spectrum.untouched,
        single=spectrum.axes.count == 1,
    )


def _variance(table: Table, look: Scan) -> Array:
    """The variance of each confidential column, over the cells present."""
    known = look.moments.variance[table.public :].copy()
    for j in np.flatnonzero(np.isnan(known)).tolist():
        column = table.confidential.columns[j]
        present = ~np.isnan(column)
        known[j] = pair_moments(column[:, None], present[:, None], weights=table.weights).covariance[0, 0]
    return np.nan_to_num(known)


def _altered(spectrum: Spectrum, dependence: Dependence, width: int) -> Array:
    """The variance of each column in the perturbed components; a rebuilt column has what its terms add up to."""
    loadings = dict(zip(dependence.independent, spectrum.axes.loadings.T, strict=True))
    for rule in in_order(dependence.rules, loadings.keys())[0]:
        loadings[rule.column] = np.sum([c * loadings[j] for j, c in rule.terms.items()], axis=0)
    chosen = spectrum.selected
    altered = np.zeros(width)
    for j, loading in loadings.items():
        altered[j] = np.square(loading[chosen]) @ spectrum.axes.variance[chosen]
    return altered


def _holes(table: Table, look: Scan) -> Mask | None:
    """Where confidential cells are missing; None when none is (known from the scan, without another pass)."""
    if not look.missing():
        return None
    return np.isnan(np.column_stack(table.confidential.columns))


def _dependence(table: Table, look: Scan, holes: Mask | None, declared: Sequence[LinearRule]) -> Dependence:
    """Columns that vary and stand for themselves, and rules for those that follow from them."""
    varying = [j - table.public for j in look.varying() if j >= table.public]
    among = varying if holes is None else _searchable(varying, holes, declared)
    place = {j: at for at, j in enumerate(among)}
    rules = [rule.renumbered(place) for rule in declared if {rule.column, *rule.terms} <= place.keys()]
    values = table.confidential.select(among)
    whole, summary = values, look.moments.select([table.public + j for j in among])
    if holes is not None:
        whole = values.take(np.flatnonzero(~holes[:, among].any(axis=1)))
    if (holes is not None or table.weights is not None) and whole.shape[0]:
        summary = moments(whole.piece, whole.shape[0])  # a rule is about rows: each counts once
    found = find_dependence(values, summary, rules, whole)
    back = dict(enumerate(among))
    left_out = {back[rule.column] for rule in found.rules}
    return Dependence([j for j in varying if j not in left_out], [rule.renumbered(back) for rule in found.rules])


def _searchable(varying: list[int], holes: Mask, declared: Sequence[LinearRule]) -> list[int]:
    """Columns to look for rules among: those with the fewest holes, as long as enough rows are whole in all of them."""
    chosen = sorted({j for rule in declared for j in (rule.column, *rule.terms)} & set(varying))
    broken = holes[:, chosen].any(axis=1)
    for j in sorted(varying, key=lambda j: int(holes[:, j].sum())):
        wider = broken | holes[:, j]
        if j not in chosen and np.count_nonzero(~wider) > ROWS_PER_COLUMN * (len(chosen) + 1):
            chosen, broken = [*chosen, j], wider
    return sorted(chosen)


def _places(sensitive: Sequence[int], dependence: Dependence, names: Sequence[str]) -> list[int]:
    """Sensitive columns by their place among the perturbed ones; a rebuilt column stands for its terms."""
    terms = {rule.column: list(rule.terms) for rule in dependence.rules}
    wanted = list(sensitive)
    while any(j in terms for j in wanted):
        wanted = [k for j in wanted for k in terms.get(j, [j])]
    place = {j: at for at, j in enumerate(dependence.independent)}
    for j in wanted:
        if j not in place:
            raise DataError(f"sensitive: column '{names[j]}' is constant", "leave it out of sensitive")
    return [place[j] for j in dict.fromkeys(wanted)]


def _filled(core: Table, present: Mask, streams: Streams, stratum: int) -> Table:
    """The perturbed columns without holes."""
    values, known = core.beside_public(core.confidential.columns, present)
    filled = completed(values, known, core.weights, streams, stratum)
    return core.with_confidential(list(filled[:, core.public :].T))


def _with_pair_moments(plan: Plan, core: Table, present: Mask, columns: list[Array]) -> list[Array]:
    """The released columns with the moments that the cells present had, among themselves and with public columns."""
    if not (plan.exact or plan.perturb.keeps_mean):
        return columns
    original, known = core.beside_public(core.confidential.columns, present)
    released, _ = core.beside_public(columns, present)
    target = pair_moments(original, known, weights=core.weights)
    if plan.exact:
        restored = recalibrated(released, known, target, core.weights, fixed=core.public)
    else:
        restored = with_means(released, known, target, core.weights)
    return list(np.ascontiguousarray(restored[:, core.public :].T))


def _put_back(table: Table, dependence: Dependence, columns: list[Array]) -> list[Array]:
    """Perturbed, rebuilt and constant columns in the order of the table."""
    new = dict(zip(dependence.independent, columns, strict=True))
    for rule in in_order(dependence.rules, new.keys())[0]:
        new[rule.column] = rule.rebuilt(new)
    return [new[j] if j in new else np.array(column) for j, column in enumerate(table.confidential.columns)]
