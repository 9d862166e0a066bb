"""The options of the jobs: a model each, a field for each option.

The docstring of a model that is a command (`ProtectFile` for `microveil protect`) is the help of the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt

from microveil.options.declaring import Options, option, same_as

DEFAULT_METHOD = "veil"
MEMORY = "1GB"
NEGATIVE, DECIMALS = "negative", "decimals"
"""What a method may do to values only where it is allowed: numbers below zero or broken ones where none were."""


class Settings(Options):
    """What a recipe holds: everything that decides a release but the seed and the parameters of the method."""

    method: str = option(DEFAULT_METHOD, "The method; see `microveil methods`.")
    confidential: Any = option(
        None,
        "Columns to protect; by default all but those that other options name, identifiers and free text.",
        "columns",
    )
    kinds: Any = option(
        None,
        "The kind of a column, if it is not what `microveil describe` says: amount, category, date, identifier, ...",
        "kinds",
        flag="--kind",
    )
    public: Any = option(
        None,
        "Columns that stay, and whose relations to the others stay; or a formula such as '~ region*size'.",
        "formula",
    )
    strata: Any = option(None, "Columns whose groups are protected one by one.", "columns", metavar="G")
    weight: Any = option(None, "The column of survey weights.", "column", metavar="W")
    protected_weight: Any = option(
        None,
        "The column of survey weights, if it is to be protected, too: it tells the size of a firm. It is calibrated to "
        "the weighted totals.",
        "column",
        metavar="W",
    )
    unit: Any = option(
        None, "Column of the unit that rows belong to: what is its own is protected once.", "column", metavar="U"
    )
    drop: Any = option(None, "Columns that are left out of the release.", "columns")
    keep: Any = option(
        None,
        "Columns that are released as they are; 'rest' for all that have no other role.",
        "columns",
        explained="Levels of a pandas index, too ('index', if it has no name): by default the index is left out, "
        "unless it only counts the rows.",
    )
    keep_notes: bool = option(False, "Release what is noted about the file, too: its label, comments, metadata.")
    shuffle_rows: bool = option(
        False,
        "Write the rows in a random order; their number stays.",
        explained="To measure such a release, give it to `assess` whole.",
    )
    rules: Any = option(
        "infer",
        "infer, none, or a dictionary of the columns (TOML or JSON).",
        "rules",
        explained="'infer' finds special codes such as -9, sums, ratios and the values a column can have, and keeps "
        "them; None treats every number as a value.",
    )
    epsilon: float | None = option(
        None,
        "Release under differential privacy, with so much loss of privacy at most; see docs/differential-privacy.md.",
        metavar="E",
        explained="Needs bounds and levels of all columns, and the extra 'privacy' (OpenDP).",
    )
    delta: float = option(1e-6, "With epsilon: the chance that its promise may fail by; below 1 / rows.", metavar="D")
    bounds: Any = option(
        None,
        "With epsilon: the least and the largest value of an amount, and its step; never from the data.",
        "bounds",
        explained="A dict: {'income': (0, 200_000, 1)}; dates as text or dates.",
    )
    levels: Any = option(
        None,
        "With epsilon: all labels that a category can have; never from the data.",
        "levels",
        explained="A dict: {'sex': ['f', 'm']}.",
    )
    bounds_from_data_without_guarantee: bool = option(
        False,
        "With epsilon: take bounds and levels that are not given from the data. NOTHING IS PROMISED THEN, and every "
        "report says so.",
    )
    may_be_missing: Any = option(None, "With epsilon: columns that may have missing cells.", "columns")
    rows: int | None = option(
        None, "With epsilon: rows of the release; by default a noisy count of the original ones.", "number"
    )
    rows_per_unit: int | None = option(
        None, "With epsilon and unit: rows of a unit that are used at most; others are left out.", "number"
    )
    engine: str = option(
        "auto", "memory, stream (block by block, for files larger than it), spark, or auto: by their size."
    )
    secret: Any = option(
        None,
        "A file for its owner only that salts the seed, made if it is not there.",
        "path",
        explained="Only with it can the result be repeated, or guessed at by somebody who knows the seed.",
    )

    def settings(self) -> dict[str, Any]:
        """What is not at its default, by name, for the recipe of a release."""
        return self.changed(Settings.model_fields)


PRIVATE = ("delta", "bounds", "levels", "bounds_from_data_without_guarantee", "may_be_missing", "rows", "rows_per_unit")
"""Options that go with epsilon only."""


class Protect(Settings):
    """The options of `protect`."""

    drop_identifiers: bool = option(
        False, "Deprecated, without effect: columns that name or number the rows are left out by default."
    )
    seed: Any = option(None, "For a result that can be repeated. Keep it secret.", "number")
    registry: Any = option(None, "A private file of releases: tells of a second one of nearly the same data.", "path")


class ReadingText(Options):
    """How a text file is read."""

    delimiter: str | None = option(
        None, "Of a text file: comma, semicolon, tab or bar; by default found.", metavar="SIGN"
    )
    decimal: str | None = option(None, "Of a text file: point or comma; by default found.", metavar="SIGN")
    encoding: str | None = option(None, "Of a text file: utf-8, cp1252, utf-16 ...; by default found.", metavar="NAME")


class Reading(ReadingText):
    """How a table is read from a file or a database."""

    sheet: str | None = option(None, "Of a workbook, as in firms.xlsx#NAME; by default the first.", metavar="NAME")
    header_row: int | None = option(
        None, "Row of a sheet or text file that has the names of the columns; by default found.", "number"
    )
    skip_rows: int | None = option(None, "Rows at the top of a sheet or text file that are not looked at.", "number")
    query: str | None = option(None, "Of a database, instead of its #TABLE; it can only read.", metavar="SQL")


class ProtectFile(Reading, Protect):
    """Protect the confidential columns of a file."""

    parameters: Any = option(
        None, "A parameter of the method; see `microveil methods ID`.", "pairs", flag="--set",
        only="command line",
    )  # fmt: skip
    keep_formulas: bool = option(False, "Write text as it is where a spreadsheet would run it as a formula, too.")
    report: Path | None = option(None, "Write the internal report, and FILE.json with it.", "path", metavar="FILE.html")
    public_report: Path | None = option(
        None, "Write the report for the users of the data, and FILE.json with it.", "path", metavar="FILE.html"
    )
    recipe: Path | None = option(
        None,
        "Write the settings, for `microveil run`; not the seed.",
        "path",
        metavar="FILE.toml",
        flag="--save-recipe",
    )
    include_seed: bool = option(False, "Put the seed into the recipe, for the same bytes again. Keep it secret.")
    policy: Any = option(
        None, "Limits on the figures; if they are not met, nothing is written.", "path", metavar="FILE.toml"
    )
    memory: Any = option(MEMORY, "With --engine stream: about how much memory to take.", metavar="1GB")
    overwrite: bool = option(
        False, "Replace files, or a table of a database, that exist already.", flag="--overwrite --replace"
    )


class Run(Options):
    """Protect a file again as a recipe says.

    Paths in a recipe are relative to it. Without a seed, in the recipe or given here, the release is another one of the
    same doses. A note tells where the recipe has the hash of its input, and the file has another. With another output
    than the recipe's, its reports are those of another release and stay as they are: name new ones. A recipe writes
    below its own folder only, and through no link; files elsewhere are to be named here.
    """

    parameters: Any = same_as(ProtectFile, "parameters")
    seed: Any = same_as(Protect, "seed")
    report: Path | None = option(
        None, "Where the internal report goes, instead of the recipe's.", "path", metavar="FILE.html"
    )
    public_report: Path | None = option(
        None, "Where the public report goes, instead of the recipe's.", "path", metavar="FILE.html"
    )
    overwrite: bool = same_as(ProtectFile, "overwrite")
    registry: Any = same_as(Protect, "registry")


class Describe(Reading):
    """Show columns, domains, special codes and the rules found, without any value."""

    save: Path | None = option(
        None,
        "Write what was found as a dictionary (TOML, or JSON by its name) to edit and pass to --rules.",
        "path",
        metavar="FILE.toml",
        flag="-o --save",
    )
    overwrite: bool = same_as(ProtectFile, "overwrite")


class Budget(Reading):
    """What a release under differential privacy will be off by, before you spend any of it; no data are needed.

    Prints standard deviations of the noise on a correlation, a cell of a two-way table and a distribution.
    """

    rows: int | None = option(None, "Records, about.", "number")
    amounts: int = option(0, "Columns of amounts.", "number")
    level_counts: Any = option(None, "How many levels each category has.", "ids", metavar="2,5,3")
    epsilon: float | None = option(None, "One epsilon; by default a table of several.", metavar="E")
    delta: float = same_as(Settings, "delta")
    rows_per_unit: int | None = same_as(Settings, "rows_per_unit")
    save: Path | None = option(
        None,
        "Write a dictionary with the names of INPUT's columns, to fill in bounds and levels and pass to --rules.",
        "path",
        metavar="FILE.toml",
        flag="-o --save",
    )
    overwrite: bool = same_as(ProtectFile, "overwrite")


class Assess(Options):
    """The options of `assess`."""

    measures: Any = option("default", "default, all, or ids; see `microveil measures`.", "ids")
    measure_options: Any = option(
        None,
        "An option of a measure (ssim.window=7), or the weight of a part of a score (summary.dbrl=2).",
        "settings",
        flag="--measure-option",
        explained="A dict of dicts: {'ssim': {'window': 7}}.",
    )
    confidential: Any = option(None, "Columns to compare; by default all but identifiers and free text.", "columns")
    public: Any = option(None, "Columns that were to stay: not compared, only checked.", "formula")
    sensitive: Any = option(None, "Columns that are to be hidden, if not all: attacks are on these alone.", "columns")
    keys: Any = option(
        None,
        "Columns that an intruder knows, for measures of labels; by default labels and what is in clear.",
        "columns",
    )
    weight: Any = option(None, "The column of survey weights, for measures of a population.", "column", metavar="W")
    kinds: Any = same_as(Settings, "kinds")
    rules: Any = option("infer", "infer, none, or a dictionary of the columns (TOML or JSON).", "rules")
    seed: Any = option(None, "For figures that can be repeated.", "number")
    holdout: Any = option(
        None,
        "Records of the same population that are not in the original: strangers for `membership`, `classifier_auc` and "
        "`train_on_release`.",
        "place",
    )
    policy: Any = option(None, "Limits on the figures; exit code 1 if they are not met.", "path", metavar="FILE.toml")
    sanity: bool = option(
        True, "Whether to measure the originals themselves and a shuffle of them too, for the scale.", only="python"
    )


class AssessFiles(ReadingText, Assess):
    """Measure what a release gives away and what it is still good for."""

    engine: str = option("memory", "memory, stream (block by block, for files larger than it), or spark (Parquet).")
    memory: Any = same_as(ProtectFile, "memory")
    sample: int | None = option(None, "Originals that linkages try, with --engine stream.", only="python")
    report: Path | None = option(
        None, "Write the figures as a page for its owner, and FILE.json with it.", "path", metavar="FILE.html",
        only="command line",
    )  # fmt: skip
    overwrite: bool = option(
        False, "Replace files, or a table of a database, that exist already.", flag="--overwrite --replace",
        only="command line",
    )  # fmt: skip


class _Study(Options):
    """What `compare` and `recommend` share. Advice holds for the run that has the same roles of columns."""

    confidential: Any = same_as(Settings, "confidential")
    public: Any = option(None, "Columns that stay, or a formula.", "formula")
    strata: Any = same_as(Settings, "strata")
    weight: Any = same_as(Settings, "weight")
    rules: Any = same_as(Assess, "rules")
    seed: Any = option(None, "For a study that can be repeated.", "number")
    store: Any = option(
        None, "Note finished releases there; with it a killed study goes on.", "path", metavar="FILE.jsonl"
    )
    workers: int | None = option(None, "Processes to work in; by default one for each core.", only="python")


class Compare(_Study):
    """The options of `compare`."""

    methods: Any = option(..., "Methods, by commas, each with what is to be set.", "methods")
    repeats: Annotated[int, Ge(1)] = option(
        20, "Releases of each method.", "number", explained="One that draws nothing is released once."
    )
    measures: Any = same_as(Assess, "measures")
    sensitive: Any = option(
        None,
        "Columns that are to be hidden, if not all: attacks are on these alone.",
        "columns",
        explained="What a release is good for is measured on all, and the parameters of a method may say which columns "
        "it protects.",
    )


class CompareFile(Compare, Reading):
    """Protect a file with several methods many times, and compare risk and loss."""

    limit: Any = option(None, "A limit on a measure: the best method that keeps all of them is named.", "limits")
    report: Path | None = option(None, "Write a report with the map of risk and loss.", "path", metavar="FILE.html")
    overwrite: bool = same_as(ProtectFile, "overwrite")


class Recommend(_Study):
    """The options of `recommend`."""

    sensitive: Any = option(
        None,
        "Columns that need protection, if not all numeric ones do.",
        "columns",
        explained="The others stay as they are.",
    )
    limit: Any = option(
        None,
        "A limit on a measure; by default worst_attack=0.02: what the best of the attacks gains over chance (of those "
        "that `assess` measures by default).",
        "limits",
        explained="The largest value by the id of the measure; or a number, for what the worst attack may gain.",
    )
    methods: Any = option(
        None,
        "The candidates, as for `microveil compare`; by default every method at several doses.",
        "methods",
        explained="An id stands for all doses that are tried of it.",
    )
    allow: Any = option(
        None,
        "What the method may do to values: negative (where none were), decimals (where whole numbers were).",
        "ids",
    )
    time: Annotated[float | None, Gt(0)] = option(
        60.0,
        "Seconds on the clock: then comes the best answer so far, and what was not tried.",
        metavar="SECONDS",
        explained="None for as long as it takes.",
    )
    repeats: Annotated[int, Ge(1)] = option(5, "Releases of each candidate that comes to the last round.", "number")


class RecommendFile(Recommend, Reading):
    """Name the method that loses least within a limit on the attacks, measured on the file, with reasons."""

    report: Path | None = option(None, "Write a report with the map of risk and loss.", "path", metavar="FILE.html")
    overwrite: bool = same_as(ProtectFile, "overwrite")
