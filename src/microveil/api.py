"""The functions of the package. This is the only place where the rooms are wired together."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from microveil.assessment import measuring
from microveil.assessment.assessment import Assessment, MeasureInfo
from microveil.assessment.pairing import pair_up
from microveil.assessment.policy import Policy
from microveil.assessment.policy_files import read_policy as policy_from
from microveil.assessment.several_releases import combined
from microveil.core.errors import DataError, ParameterError, did_you_mean, one_of
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.threads import single_threaded_blas
from microveil.engines import ENGINES, Outcome, Progress, run
from microveil.engines.release_check import Evidence, evidence
from microveil.intake.derivable import check_not_derivable
from microveil.intake.describe import ColumnDescription, Description, describe_table
from microveil.intake.identifiers import identifier_reason
from microveil.intake.intake import Intake, Rules, take_in, with_values
from microveil.intake.roles import Choice, ColumnId, Roles, named, resolve_roles
from microveil.intake.sources import FrameSource
from microveil.io.blocks import BlockSource
from microveil.io.files.formula_injection import formula_cells, formulas_kept
from microveil.io.frames.dataframes import Frame, open_frame, table_like
from microveil.io.frames.reorder import IndexAndNotes, manner_with_rows, set_apart, with_rows, without_columns
from microveil.io.frames.validation import check_unit
from microveil.io.locations import Database, file_of, own_file, place_from
from microveil.io.tables import Place, ReadOptions, check_target, pending_table, read_table, write_table
from microveil.measures.base import Measure, plain
from microveil.measures.risk import dbrl, leakage_distribution
from microveil.measures.risk.proportions import PAIRS
from microveil.measures.utility import between_correlation, within_correlation
from microveil.methods import DEFAULT_METHOD, METHODS, Plan, method_named
from microveil.release import diagnostics as account
from microveil.release.register import Register
from microveil.release.register import RegisteredRelease as RegisterEntry
from microveil.release.release import Release
from microveil.release.returned import giveaways, returned_records
from microveil.release.secret import secret_key
from microveil.release.units import protected_by_unit
from microveil.report.reporter import Reporter, file_identity, in_file_order
from microveil.rules.column_rules import Rule

DRAWS, FEW_DRAWS, SMALL_FILE = 20, 3, 200
"""Draws of a release at most, if records come back in them: in files of so many rows, and in larger ones."""

READING = "reading columns"
"""The first step, while which everything is checked."""

SPREADSHEETS = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".xls", ".ods")
"""Files that spreadsheet programs open."""

__all__ = [
    "DEFAULT_METHOD",
    "ColumnDescription",
    "Description",
    "Place",
    "Progress",
    "ReadOptions",
    "assess",
    "assess_release",
    "check_target",
    "describe",
    "example_file",
    "file_of",
    "leakage_distribution",
    "measure_details",
    "measures",
    "method_details",
    "methods",
    "own_file",
    "place_from",
    "protect",
    "quick_risk",
    "read_policy",
    "read_table",
    "write_table",
]


def protect(
    data: Any,
    method: str = DEFAULT_METHOD,
    *,
    confidential: Choice = None,
    public: Choice = None,
    strata: Choice = None,
    weight: ColumnId | None = None,
    unit: ColumnId | None = None,
    drop: Choice = None,
    drop_identifiers: bool = False,
    keep: Choice = None,
    keep_notes: bool = False,
    shuffle_rows: bool = False,
    seed: int | None = None,
    secret: str | Path | None = None,
    register: str | Path | None = None,
    rules: Rules = "infer",
    engine: str = "auto",
    progress: Progress | None = None,
    **params: Any,
) -> Release:
    """Protect the confidential columns of a table.

    Args:
        data: a numpy array, a pandas or polars DataFrame or a pyarrow Table; it is not changed.
        method: the id of a method; `methods()` lists them.
        confidential: columns to protect, by name (by number for arrays); by default all numeric columns.
        public: columns that stay as they are and are regressed on, so that their relations to the confidential
            ones stay too; or a formula of them, such as "~ region * size", with interactions.
        strata: columns whose groups are protected one by one; means and covariances are then kept in each.
        weight: the column of survey weights; the moments that are kept are then weighted ones.
        unit: the column that says which rows belong to one unit (the household of a person): columns that are the same
            in all rows of every unit are then protected once per unit.
        drop: columns that are left out of the release.
        drop_identifiers: whether columns that look like direct identifiers are left out, too; `describe` names them.
        keep: levels of a pandas index that are released as they are ("index", if it has no name); by default the index
            is left out, unless it only counts the rows, and `warnings` names it.
        keep_notes: whether `attrs` of pandas and metadata of Arrow are released, too; by default they are left out.
        shuffle_rows: whether the rows come out in a random order; to measure such a release, give it to `assess` whole.
        seed: a whole number for a result that can be repeated; by default each run differs. Keep it secret.
        secret: a file for its owner only that salts the seed, made if it is not there: only with it can the result be
            repeated, or tried by whoever knows the seed and nearly all of the data.
        register: a private file of releases, made if it is not there; a warning tells if nearly the same data were
            released before, and this release is added.
        rules: "infer" finds special codes such as -9 and leaves them alone, and finds sums, ratios and the values a
            column can have; None treats every number as a value; or a dictionary of the columns (dict or file).
        engine: "auto" or "memory"; for what does not fit there is `protect_file`.
        progress: called with the name of the step and the share done.
        **params: the method's parameters; `microveil methods ID` lists them.
    """
    check_seed(seed)
    _check_engine(engine)
    plan = method_named(method).plan(params)
    key = secret_key(secret)
    noted = Noted.of_table(register, method, data)
    dropped = _dropped(data, drop, drop_identifiers, unit)
    released, beside = set_apart(without_columns(data, dropped), names_kept(keep), keep_notes=keep_notes)
    frame = open_frame(released)
    numeric = {name: frame.is_numeric(name) for name in frame.names}
    asked: dict[str, Any] = {"confidential": confidential, "public": public, "strata": strata, "weight": weight}
    roles = resolve_roles(numeric, **{**asked, **plan.named_columns})
    if confidential is None:
        check_nothing_slips_through(frame)
        check_no_hidden_numbers(frame, {*roles.shown, *named(numeric, "unit", unit)})
    if unit is not None:
        options = {**params, "method": method, "seed": seed, "rules": rules, "engine": engine, "progress": progress}
        options["secret"] = secret
        release = protected_by_unit(protect, released, unit, asked, plan.named_columns, options)
        return noted.kept(_arranged(release, data, dropped, shuffle_rows, beside, key))
    tell = progress or (lambda *_: None)
    with single_threaded_blas():
        tell(READING, 0.0)
        roles = with_values(frame, roles) if confidential is None else roles
        source = FrameSource(frame, pull_in=plan.maps_values and not plan.exact)
        intake = take_in(source, roles, rules)
        mostly = check_not_derivable(source, roles.confidential, rules)
        check_fits(plan, intake)
        intake = _beside_other(plan, intake)
        streams = Streams.from_seed(None if seed is None else int(seed), intake.profile.fingerprint, key)
        outcome = _drawn(plan, frame, intake, streams, tell)
        settings = settings_of(plan, roles, rules, engine, secret)
        writer = reporter_of(plan, data, intake, outcome)
        release = _release(plan, frame, roles, intake, outcome, settings, streams.seed, writer)
        release = dataclasses.replace(release, warnings=[*release.warnings, *mostly])
        release = _arranged(release, data, dropped, shuffle_rows, beside, key)
    tell("done", 1.0)
    return noted.kept(release)


def describe(data: Any) -> Description:
    """Columns, domains, special codes, missing cells and linear rules of a table, without any of its values."""
    return describe_table(open_frame(data))


def methods() -> dict[str, str]:
    """The methods: id and one line."""
    return {method.id: method.summary for method in METHODS.values()}


def method_details(name: str) -> dict[str, Any]:
    """A method with its paper and all its parameters, as declared."""
    method = method_named(name)
    return {
        "id": method.id,
        "summary": method.summary,
        "reference": method.reference,
        "parameters": [
            {
                "perturb": group.perturb,
                "summary": group.summary,
                "reference": group.reference,
                "parameters": [dataclasses.asdict(parameter) for parameter in group.parameters],
            }
            for group in method.parameters()
        ],
    }


def quick_risk(original: Any, release: Release) -> tuple[Measure, Measure]:
    """Linkage of the original file with itself, and with the release: the first risk figure anyone asks for."""
    chosen = release.settings
    both = pair_up(
        open_frame(original),
        open_frame(in_file_order(release)),
        confidential=chosen["confidential"],
        public=None,
        rules=chosen["rules"],
    )
    # Of many records a sample is tried: this figure is shown whenever a file has been protected.
    options = {"seed": release.seed, "pairs": PAIRS}
    before, after = (dbrl(both.original, file, **options) for file in (both.original, both.released))
    return before, after


def assess(
    original: Any,
    released: Any,
    *,
    confidential: Choice = None,
    public: Choice = None,
    measures: str | Sequence[str] = "default",
    seed: int | None = None,
    rules: Rules = "infer",
    sensitive: Choice = None,
    holdout: Any = None,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    sanity: bool = True,
    progress: Progress | None = None,
) -> Assessment:
    """Measure what a release gives away and what it is still good for.

    Both files are of any kind that `protect` takes. Columns are matched by name (arrays: by number), and rows by their
    place: measures that compare records one by one need both files in the same order, and are skipped where the files
    have different numbers of rows.

    Args:
        original: the file as it was.
        released: the file to judge, made by microveil or by anything else; or what `protect` gave back, which knows
            where its rows were if it has shuffled them; or a list of several releases of the file, which an intruder
            may hold against each other.
        confidential: columns to compare; by default all that are numeric in both files.
        public: columns that were to stay as they are: not compared, but a note tells if they did change.
        measures: "default", "all", or ids; `measures()` lists them.
        seed: a whole number for figures that can be repeated, whichever measures are asked for.
        rules: as for `protect`: special codes are found in the original, given in a dictionary, or values (None).
        sensitive: columns that were to be hidden, if not all of the compared ones: attacks are on these alone, what a
            release is still good for is measured on all, and `selectivity` tells them from the others.
        holdout: records of the same population that did not enter the release, of the same kind and with the same
            columns: what it tells of them is no risk. `membership`, `classifier_auc` and attacks with a control use it.
        policy: limits on the figures (a file, a dict or `read_policy`'s); its measures are taken too.
        sanity: whether to measure the originals themselves and a shuffle of them too, for the scale.
        progress: called with the name of the step and the share done.
    """
    check_seed(seed)
    limits = policy if policy is None or isinstance(policy, Policy) else read_policy(policy)
    ids = measuring.chosen(measures, also=limits.measures if limits else ())
    frame, tell = open_frame(original), progress or (lambda *_: None)
    tell(READING, 0.0)
    releases = list(released) if isinstance(released, list | tuple) else [released]
    if not releases:
        raise ParameterError("released: no release is given", "give one, or several as a list")
    pairs = [
        pair_up(
            frame,
            open_frame(in_file_order(one) if isinstance(one, Release) else one),
            confidential=confidential,
            public=public,
            rules=rules,
            sensitive=sensitive,
            holdout=None if holdout is None else open_frame(holdout),
            order_known=isinstance(one, Release),
        )
        for one in releases
    ]
    both = pairs[0] if len(pairs) == 1 else combined(pairs)
    streams = Streams.from_seed(None if seed is None else int(seed))
    found = measuring.assessment(both, ids, streams, like=frame, sanity=sanity, tell=tell)
    tell("done", 1.0)
    return found if limits is None else dataclasses.replace(found, verdict=limits.check(found))


def assess_release(original: Any, release: Release, **options: Any) -> Assessment:
    """`assess` with the columns, rules and seed of a release."""
    settings = release.settings
    return assess(
        original,
        release,
        confidential=settings["confidential"],
        rules=settings["rules"],
        seed=release.seed,
        **options,
    )


def read_policy(source: Mapping[str, Any] | str | Path) -> Policy:
    """A policy from a TOML file, or from a dict of the same shape; `policy.check(assessment)` gives the verdict."""
    return policy_from(source, measuring.entries())


def measures() -> dict[str, str]:
    """The measures of risk and utility, and the scores: id and one line."""
    return {name: entry.summary for name, entry in measuring.entries().items()}


def measure_details(name: str) -> dict[str, Any]:
    """A measure with its story, range and direction, as declared."""
    known = measuring.entries()
    if name not in known:
        raise ParameterError(f"there is no measure '{name}'", did_you_mean(name, known))
    return {key: plain(value) for key, value in dataclasses.asdict(known[name]).items()}


def measure_entries() -> dict[str, MeasureInfo]:
    """Every measure as it is declared."""
    return measuring.entries()


def chosen_measures(measures: str | Sequence[str]) -> list[str]:
    """The ids that "default", "all" or a list of ids stand for."""
    return measuring.chosen(measures)


def correlation_structure(
    data: Any, sensitive: Sequence[ColumnId], others: Sequence[str] | None = None
) -> tuple[float, float]:
    """Mean absolute correlations between sensitive and other columns, and among the others (eq. 6 and 7)."""
    frame = open_frame(data)
    names = [name for name in frame.names if frame.is_numeric(name)]
    if others is not None:
        beside = {*others, *named(dict.fromkeys(frame.names, True), "sensitive", sensitive)}
        names = [name for name in names if name in beside]
    chosen = named(dict.fromkeys(frame.names, True), "sensitive", sensitive)
    for name in chosen:
        if name not in names:
            raise ParameterError(f"sensitive: column '{name}' is not numeric", "name columns of numbers")
    table = Matrix([frame.numbers(name) for name in names])
    places = [names.index(name) for name in chosen]
    found = (measure(table, table, sensitive=places).value for measure in (between_correlation, within_correlation))
    return next(found), next(found)


def numeric_columns(data: Any) -> list[str]:
    """The columns of numbers, by name."""
    frame = open_frame(data)
    return [name for name in frame.names if frame.is_numeric(name)]


def columns_by_role(data: Any, roles: Mapping[str, Any]) -> Roles:
    """The columns of a table by what they are to `protect`."""
    frame = open_frame(data)
    return resolve_roles({name: frame.is_numeric(name) for name in frame.names}, **roles)


def check_method(name: str, parameters: Mapping[str, Any]) -> None:
    """Is there such a method, and does it take these parameters?"""
    method_named(name).plan(parameters)


def draws_at_random(name: str, parameters: Mapping[str, Any]) -> bool:
    """Does the method give another release each time?"""
    return method_named(name).plan(parameters).perturb.random


def fingerprint(data: Any) -> str:
    """A number that tells this table from others: of all its cells, none of which can be found from it."""
    frame = open_frame(data)
    digest = hashlib.blake2b(json.dumps(frame.names).encode(), digest_size=16)
    for name in frame.names:
        cells = frame.numbers(name) if frame.is_numeric(name) else frame.labels(name)
        digest.update(np.ascontiguousarray(cells).tobytes())
    return digest.hexdigest()


def frame_maker(data: Any) -> Callable[[Mapping[str, list[Any]]], Any]:
    """Makes frames of the kind that the data have (polars for arrays)."""
    return partial(table_like, open_frame(data))


def report_twin(path: Path) -> Path:
    """Where the JSON twin of a report goes."""
    from microveil.report import twin

    return twin(path)


def report_measures(cells: int, *, public_only: bool = False) -> tuple[list[str], str]:
    """What the command line measures for a report of so many cells, and a word on it for the reader."""
    return measuring.for_report(cells, public_only=public_only)


def write_report(
    release: Release,
    page: Path,
    twin: Path,
    audience: str,
    *,
    assessment: Assessment | None,
    measured: str,
    files: Mapping[str, tuple[Path, str]],
    options: Sequence[str] = (),
) -> None:
    """A report and its twin, with the names of the files it is about: where each is, and what it is to be called.

    `options` are those of the command that are no settings of the release.
    """
    known = {which: file_identity(path, name) for which, (path, name) in files.items()}
    release.writer(release, page, audience, assessment, beside=twin, files=known, measured=measured, options=options)


def write_study_report(study: Any, page: Path, twin: Path) -> None:
    """The report of a study, and its twin, for their owner only."""
    from microveil.report import study_texts, write_texts

    write_texts(study_texts(study), page, twin, private=True)


def study_map(study: Any, path: Path | None, risk: str | None, loss: str | None) -> Any:
    """The map of a study as an altair chart, and in a file, if one is named."""
    from microveil.report import study_map

    return study_map(study, path, risk, loss)


def write_release(release: Release, target: Any, like: Any, *, formulas: bool = False, **options: Any) -> None:
    """The released table into a file, as the original was written; `formulas` says to leave text as it is."""
    if release.order is not None:
        like = manner_with_rows(like, release.order)
    with formulas_kept() if formulas else nullcontext():
        write_table(release.data, target, like, **options)


@contextmanager
def pending_release(release: Release, target: Any, like: Any, *, replacing: bool) -> Iterator[None]:
    """The released table in a database, for others to see when the block ends well."""
    if not isinstance(target, Database):
        raise ParameterError("output: is no table of a database", "write it as a file")
    if release.order is not None:
        like = manner_with_rows(like, release.order)
    with pending_table(release.data, target, like, replacing=replacing):
        yield


def about_notes(has_notes: bool, *, keep_notes: bool) -> list[str]:
    """What became of notes on a file (its label, comments, metadata), if it has some."""
    word = "are released as they are, on request" if keep_notes else "are left out of the release (--keep-notes)"
    return [f"notes on the file (its label, comments, metadata) {word}"] if has_notes else []


def about_formulas(release: Release, target: Any, *, formulas: bool) -> list[str]:
    """What a spreadsheet program would do with the text of a release, and what was done about it."""
    file = file_of(place_from(target))
    if file is None or file.suffix.lower() not in SPREADSHEETS:
        return []
    return told_formulas(formula_cells(release.data), release.data.columns, formulas=formulas)


def told_formulas(count: int, columns: Sequence[str], *, formulas: bool) -> list[str]:
    """The same for cells that have been counted."""
    names = [name for name in columns if name.startswith(("=", "+", "-", "@", "\t", "\r"))]
    said = [f"columns whose names a spreadsheet would take for formulas: {len(names)}; rename them"] if names else []
    if not count:
        return said
    cells = f"{count} cells of text begin as formulas do"
    done = "they are written as they are" if formulas else "written with an apostrophe in front (--keep-formulas)"
    return [*said, f"{cells}, which spreadsheets would run; {done}"]


def example_file() -> Path:
    """The bundled business survey: 1,200 invented firms with what real files have."""
    return Path(__file__).parent / "examples" / "business_survey.csv"


@dataclasses.dataclass(frozen=True, repr=False)
class Noted:
    """A release that is going to be in a register, if there is one."""

    register: Register | None = None
    entry: RegisterEntry | None = None

    @classmethod
    def of_table(cls, path: str | Path | None, method: str, data: Any) -> Noted:
        """What a register is told of a table."""
        register = Register.opened(path)
        if register is None:
            return cls()
        frame = open_frame(data)
        cells = {name: frame.numbers(name) for name in frame.names if frame.is_numeric(name)}
        return cls(register, register.entry(method, [cells] if cells else []))

    @property
    def text(self) -> str:
        """The register with this release in it."""
        return "" if self.register is None or self.entry is None else self.register.text_with(self.entry)

    def warned(self, release: Release) -> Release:
        """The release, with what there is to say of earlier ones."""
        if self.register is None or self.entry is None:
            return release
        return dataclasses.replace(release, warnings=[*self.register.warnings(self.entry), *release.warnings])

    def kept(self, release: Release) -> Release:
        """The same, and the release is in the register now."""
        if self.register is not None and self.entry is not None:
            self.register.add(self.entry)
        return self.warned(release)


def check_seed(seed: int | None) -> None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise ParameterError("seed: must be a whole number of at least 0", "leave it out for a fresh one")


def _check_engine(engine: str) -> None:
    if engine not in ENGINES:
        raise ParameterError(f"engine: '{engine}' is unknown", f"it is {one_of(ENGINES)}")
    if engine not in ("auto", "memory"):
        raise ParameterError(f"engine: '{engine}' is not for a table in memory", "use protect_file, or engine='memory'")


def _dropped(data: Any, drop: Choice, drop_identifiers: bool, unit: ColumnId | None) -> list[str]:
    """The columns that are left out of the release. That of the units stays: rows that belong together need it."""
    if drop is None and not drop_identifiers:
        return []
    frame = open_frame(data)
    dropped = list(dict.fromkeys(named(dict.fromkeys(frame.names, True), "drop", drop)))
    if drop_identifiers:
        stay = {*dropped, *named(dict.fromkeys(frame.names, True), "unit", unit)}
        dropped += [name for name in frame.names if name not in stay and identifier_reason(frame, name)]
    return dropped


def names_kept(keep: Choice) -> list[str]:
    """Levels of the index by name; numbers may be names, as those of columns may."""
    names = [] if keep is None else keep if isinstance(keep, list | tuple) else [keep]
    for name in names:
        if not isinstance(name, str | int | np.integer):
            # A Series is the column itself, and its cells must not end up in a message.
            raise ParameterError(f"keep: takes the names of index levels, not {type(name).__name__}", "give names")
    return [str(name) for name in names]


def _arranged(
    release: Release, data: Any, dropped: list[str], shuffle_rows: bool, beside: IndexAndNotes, secret: bytes
) -> Release:
    """The release with its rows in a random order, if asked for, and with what was done to the file in its account."""
    told, settings, order, arranged = list(release.warnings), dict(release.settings), None, release.data
    if dropped:
        settings["drop"] = dropped
        told.append(f"dropped, on request: {', '.join(dropped)}")
    if shuffle_rows:
        settings["shuffle_rows"] = True
        streams = Streams.from_seed(release.seed, int(fingerprint(data), 16), secret)
        order = streams.stream("order of rows").generator().permutation(release.rows)
        arranged = with_rows(release.data, order)
        told.append("the rows are in a random order, on request")
    arranged = beside.put_back(arranged, order)
    settings |= beside.settings
    return dataclasses.replace(release, data=arranged, warnings=[*told, *beside.told], settings=settings, order=order)


def _drawn(plan: Plan, frame: Frame, intake: Intake, streams: Streams, tell: Progress) -> Outcome:
    """What the engine makes of the table, drawn again as long as somebody's record stands in it."""
    sensitive, original = sensitive_columns(plan, frame.names, intake), intake.table.confidential.columns
    draws = (DRAWS if intake.table.count <= SMALL_FILE else FEW_DRAWS) if plan.draws_anew else 1
    fewest, best = np.inf, None
    for attempt in range(draws):
        drawn = dataclasses.replace(streams, attempt=attempt)
        outcome = run(plan, intake.table, intake.profile, drawn, sensitive=sensitive, known=intake.known, progress=tell)
        changed = outcome.perturbed
        back = returned_records([original[j] for j in changed], [outcome.columns[j] for j in changed])
        fewest, best = (back, outcome) if best is None or back < fewest else (fewest, best)
        if not back:
            break
    return best or outcome


def check_nothing_slips_through(frame: Frame) -> None:
    """A column of amounts that was read as text would be released in clear, and nobody would notice."""
    for name in frame.names:
        if frame.looks_numeric(name):
            raise DataError(
                f"column '{name}' is text, but most of its cells look like numbers (decimal commas, '<5'?)",
                "turn them into numbers, or name the columns to protect with confidential",
            )


def check_no_hidden_numbers(columns: Frame | BlockSource, shown: Collection[str]) -> None:
    """So would numbers in columns of other types; those that are `shown` for a reason may be categories."""
    for name in columns.names:
        if name not in shown and columns.hides_numbers(name):
            raise DataError(
                f"column '{name}' holds numbers, but its type is none that is protected (categories, lists, ...)",
                "turn it into numbers or text, drop it, or name the columns to protect with confidential",
            )


def check_fits(plan: Plan, intake: Intake) -> None:
    """Is there enough to protect, and do the parameters fit the table?"""
    table, needed = intake.table, METHODS[plan.method].minimum_columns
    names = table.confidential_names
    if len(names) < needed:
        raise DataError(
            f"confidential: column '{names[0]}' is alone, and {plan.method} needs at least {needed} columns",
            "one column has no components: its values would come back in another order; add columns",
        )
    most = plan.decompose.most_columns
    if most is not None and len(names) > most:
        raise DataError(
            f"confidential: {plan.method} takes at most {most} columns, and there are {len(names)}",
            "use a method of components, such as pca, or protect some columns at a time",
        )
    if not any(j >= table.public for j in intake.profile.varying()):
        raise DataError("confidential: every column is constant", "there is nothing to perturb; check the data")
    if plan.given_draws and table.strata is not None:
        raise ParameterError(f"{next(iter(plan.given_draws))}: does not go with strata", "use one or the other")
    # Values that are exchanged between records until the moments return go by weighted ones.
    arranged = plan.maps_values and plan.marginals.exchange
    if table.weights is not None and not (plan.exact or arranged or plan.perturb.knows_weights):
        perturb = plan.parameters["perturb"]
        raise ParameterError(
            f"weight: perturb='{perturb}' keeps weighted moments only with exact=True",
            "use exact=True, or a method that redraws or keeps moments exactly",
        )


def _beside_other(plan: Plan, intake: Intake) -> Intake:
    """The table with another masker's output beside it, where the method starts from one."""
    if not plan.perturb.from_other:
        return intake
    given, table = plan.other, intake.table
    frame = open_frame(read_table(Path(given))[0] if isinstance(given, str) else given)
    names = table.confidential_names
    numbered = isinstance(given, np.ndarray) and len(frame.names) == len(names)
    missing = [] if numbered else [name for name in names if name not in frame.names]
    if frame.count != table.count or missing:
        lacks = f"no column '{missing[0]}'" if missing else f"{frame.count} rows, the data {table.count}"
        raise DataError(f"other: has {lacks}", "give every protected column, and a row for each record in their order")
    columns = [np.array(frame.numbers(name)) for name in (frame.names if numbered else names)]
    for name, column in zip(names, columns, strict=True):
        hole = intake.holes[name]
        if hole is not None:
            column[hole] = np.nan
        there = column if hole is None else column[~hole]
        if not np.isfinite(there).all():
            raise DataError(f"other: column '{name}' has missing or infinite cells", "fill them first")
        check_unit("other", name, float(there.min()), float(there.max()))
    return dataclasses.replace(intake, table=dataclasses.replace(table, other=Matrix(columns)))


def sensitive_columns(plan: Plan, columns: Sequence[str], intake: Intake) -> list[int]:
    """Sensitive columns by their number among the confidential ones."""
    names = intake.table.confidential_names
    chosen = named(dict.fromkeys(columns, True), "sensitive", plan.select.sensitive_columns)
    for name in chosen:
        if name not in names:
            raise ParameterError(f"sensitive: column '{name}' is not confidential", "name protected columns only")
    return [names.index(name) for name in chosen]


def _release(
    plan: Plan,
    frame: Frame,
    roles: Roles,
    intake: Intake,
    outcome: Outcome,
    settings: dict[str, Any],
    seed: int,
    writer: Reporter,
) -> Release:
    """Measure what came out, and put it into a frame of the kind that came in."""
    table = intake.table
    names = table.confidential_names
    stored = [frame.as_stored(name, column) for name, column in zip(names, outcome.columns, strict=True)]
    rounded = any(new is not old for new, old in zip(stored, outcome.columns, strict=True))
    for name, column in zip(names, stored if rounded else (), strict=rounded):
        if np.isinf(column).any():
            raise DataError(f"column '{name}' does not fit its type after protection", "convert it to float64 first")
    outcome = dataclasses.replace(outcome, columns=stored)
    proof = evidence(table, stored, intake.present, intake.profile.moments)
    changed = {name: None if hole is None else ~hole for name, hole in intake.holes.items()}
    data = frame.rebuilt(dict(zip(names, stored, strict=True)), changed)
    release = told(plan, frame, roles, intake, outcome, proof, settings, seed, data, writer, rounded=rounded)
    perturbed = outcome.perturbed
    own = [table.confidential.columns[j] for j in perturbed]
    seen = giveaways(own, [stored[j] for j in perturbed], exact=plan.exact and not plan.rounded)
    said = [*release.warnings, *about_decimals(frame, names, open_frame(data)), *seen]
    return dataclasses.replace(release, warnings=said)


def about_decimals(before: Frame, names: Sequence[str], after: Frame | None = None) -> list[str]:
    """Columns of decimals that are of doubles now; those that are written block by block always are."""
    doubles = [name for name in names if before.is_decimal(name) and (after is None or not after.is_decimal(name))]
    reason = "in blocks" if after is None else "as they have more digits now"
    return [f"decimals that come back as float64, {reason}: {', '.join(doubles)}"] if doubles else []


def told(
    plan: Plan,
    frame: Frame,
    roles: Roles,
    intake: Intake,
    outcome: Outcome,
    proof: Evidence,
    settings: dict[str, Any],
    seed: int,
    data: Any,
    writer: Reporter,
    *,
    rounded: bool,
) -> Release:
    """The release with its account; `frame` tells what kind of columns there are."""
    kept = account.kept(plan, intake, outcome, proof)
    dose = account.doses(plan, intake, outcome, proof)
    return Release(
        data=data,
        method=plan.method,
        kind=plan.kind(outcome.untouched),
        kept=kept,
        kept_on_average=account.kept_on_average(plan, intake, outcome),
        dose=dose,
        warnings=account.remarks(plan, frame, roles, intake, outcome, kept, dose, proof.same_records, rounded=rounded),
        rules=account.rules(intake, outcome),
        components=account.component_table(outcome),
        rows=intake.table.count,
        leakage=account.leakage(plan, intake, outcome),
        settings=settings,
        seed=seed,
        writer=writer,
        found=outcome.spectrum.found,
    )


def settings_of(
    plan: Plan, roles: Roles, rules: Rules, engine: str, secret: str | Path | None = None
) -> dict[str, Any]:
    """What a recipe holds: everything but the seed."""
    parameters = {name: list(value) if isinstance(value, tuple) else value for name, value in plan.parameters.items()}
    return {
        "method": plan.method,
        "confidential": list(roles.confidential),
        "public": roles.public.setting,
        "strata": list(roles.strata),
        "weight": roles.weight,
        "rules": "none" if rules is None else str(rules) if isinstance(rules, Path) else copy.deepcopy(rules),
        "engine": engine,
        "parameters": parameters,
        **({} if secret is None else {"secret": str(secret)}),
        **({"needs": list(plan.needs)} if plan.needs else {}),
    }


def reporter_of(plan: Plan, data: Any, intake: Intake, outcome: Outcome) -> Reporter:
    """What writes the reports of a release; it audits every rule that was found or declared, kept or not."""
    method, known = METHODS[plan.method], intake.known
    near = () if outcome.restored is None else outcome.restored.near_rules
    ratios = dict.fromkeys([*outcome.ratios, *known.ratios, *known.found_ratios])
    domains = known.domains(mapped=False)
    rules: list[Rule] = [*outcome.rules, *near, *ratios, *known.orders, *known.watched]
    return Reporter(data, method.summary, method.reference, rules, domains, fingerprint)
