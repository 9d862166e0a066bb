"""What a command was asked for: what is typed, as the functions of the api take it."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from microveil import api, large
from microveil.cli.shared import names_in
from microveil.core.errors import ParameterError
from microveil.release import recipe as recipes
from microveil.report.command_line import protect_words

DEFAULT_METHOD, MEMORY = api.DEFAULT_METHOD, large.MEMORY


@dataclass(frozen=True, repr=False)
class Columns:
    """The roles of columns, and the rules that they follow, as the functions of the api take them."""

    confidential: Any = None
    public: Any = None
    strata: Any = None
    weight: Any = None
    rules: Any = "infer"

    @property
    def protected(self) -> dict[str, Any]:
        """For what makes releases."""
        return {role.name: getattr(self, role.name) for role in fields(self)}

    @property
    def compared(self) -> dict[str, Any]:
        """For what holds two files against each other."""
        return {"confidential": self.confidential, "public": self.public, "rules": self.rules}


def columns(
    confidential: str | None = None,
    public: str | None = None,
    strata: str | None = None,
    weight: str | None = None,
    rules: str = "infer",
) -> Columns:
    """The roles as they are typed."""
    return Columns(
        columns_in(confidential),
        columns_or_formula(public),
        columns_in(strata),
        weight,
        None if rules == "none" else rules,
    )


@dataclass(frozen=True, repr=False)
class Arrangement:
    """What becomes of rows and columns beside the protected cells."""

    unit: Any = None
    drop: Any = None
    drop_identifiers: bool = False
    shuffle_rows: bool = False
    keep: Any = None
    keep_notes: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """As `api.protect` takes them."""
        return {option.name: getattr(self, option.name) for option in fields(self)}


def arrangement(
    unit: str | None, drop: str | None, drop_identifiers: bool, shuffle_rows: bool, keep_notes: bool
) -> Arrangement:
    """What was asked for, as it is typed."""
    return Arrangement(unit, columns_in(drop), drop_identifiers, shuffle_rows, keep_notes=keep_notes)


@dataclass(frozen=True, repr=False)
class Request:
    """Everything `microveil protect` was asked for, by options or by a recipe."""

    source: api.Place
    output: api.Place
    method: str = DEFAULT_METHOD
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: Columns = Columns()
    arrangement: Arrangement = Arrangement()
    keep_formulas: bool = False
    reading: api.ReadOptions = field(default_factory=api.ReadOptions)
    overwrite: bool = False
    seed: int | None = None
    secret: Path | None = None
    register: Path | None = None
    report: Path | None = None
    public_report: Path | None = None
    save_recipe: Path | None = None
    include_seed: bool = False
    policy: Path | Mapping[str, Any] | None = None
    engine: str = "auto"
    memory: str = MEMORY
    recipe: Path | None = None
    """The recipe that asks for it."""

    @property
    def extras(self) -> list[Path]:
        """The files asked for beside the output."""
        reports = [file for path in (self.report, self.public_report) if path for file in (path, api.report_twin(path))]
        return [*reports, *(path for path in (self.save_recipe, self.register) if path is not None)]

    @property
    def private(self) -> list[Path]:
        """Those that hold the seed, or what confirms a guess, and are for their owner only."""
        secret = [] if self.report is None else [self.report, api.report_twin(self.report)]
        secret += [] if self.register is None else [self.register]
        return [*secret, self.save_recipe] if self.save_recipe is not None and self.include_seed else secret

    @property
    def typed(self) -> list[str]:
        """The options that say how the files are read and written."""
        words = [word for name in self.reading.said for word in (f"--{name}", getattr(self.reading, name))]
        return words + ["--keep-formulas"] * self.keep_formulas + ["--overwrite"] * self.overwrite

    @property
    def inputs(self) -> list[api.Place]:
        """Everything that is read, and must not be overwritten."""
        rules = self.columns.rules if self.columns.rules not in recipes.INFERRED else None
        own = [self.parameters.get(name) for name in recipes.path_parameters(self.method)]
        named = [self.recipe, rules, self.policy, self.secret, *own]
        return [self.source, *(api.place_from(place) for place in named if isinstance(place, str | Path))]


@dataclass(frozen=True, repr=False)
class Replay:
    """Everything `microveil run` was asked for; what is given goes before what the recipe says."""

    recipe: Path
    source: api.Place | None = None
    output: api.Place | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    report: Path | None = None
    public_report: Path | None = None
    overwrite: bool = False
    register: Path | None = None


@dataclass(frozen=True, repr=False)
class Inquiry:
    """Everything `microveil assess` was asked for."""

    original: api.Place
    released: api.Place
    holdout: api.Place | None = None
    measures: str = "default"
    columns: Columns = Columns()
    sensitive: str | None = None
    reading: api.ReadOptions = field(default_factory=api.ReadOptions)
    seed: int | None = None
    policy: Path | None = None
    engine: str = "memory"
    memory: str = MEMORY


@dataclass(frozen=True, repr=False)
class Comparison:
    """Everything `microveil compare` was asked for."""

    source: api.Place
    methods: str
    repeats: int
    measures: str = "default"
    limits: Sequence[str] = ()
    columns: Columns = Columns()
    sensitive: str | None = None
    reading: api.ReadOptions = field(default_factory=api.ReadOptions)
    seed: int | None = None
    store: Path | None = None
    report: Path | None = None


@dataclass(frozen=True, repr=False)
class Consultation:
    """Everything `microveil recommend` was asked for."""

    source: api.Place
    repeats: int
    limits: Sequence[str] = ()
    columns: Columns = Columns()
    sensitive: str | None = None
    reading: api.ReadOptions = field(default_factory=api.ReadOptions)
    seed: int | None = None
    store: Path | None = None


def typed(asked: Consultation, method: str, given: Mapping[str, Any]) -> str:
    """The command that makes a release as it was advised."""
    roles = {name: given[name] for name in asked.columns.protected if name in given}
    settings = {name: value for name, value in given.items() if name not in roles}
    if "rules" in roles:
        roles["rules"] = roles["rules"] or "none"
    reading = [word for name in asked.reading.said for word in (f"--{name}", getattr(asked.reading, name))]
    words = protect_words(str(asked.source), "OUTPUT", {"method": method, "parameters": settings, **roles})
    return shlex.join([*words, *reading])


def columns_in(text: str | None) -> list[str] | None:
    """`a,b` as columns, if there are any."""
    return None if text is None else names_in(text)


def columns_or_formula(text: str | None) -> list[str] | str | None:
    """A formula, which begins with `~` and may have commas in its names, as it is; else columns."""
    return text if text is not None and text.lstrip().startswith("~") else columns_in(text)


def methods_in(text: str) -> list[tuple[str, dict[str, Any]]]:
    """`pca components=[0,2], score_mix correlation=0.5`: methods with what is set of each, by commas."""
    entries = [_parted(entry, " ") for entry in _parted(text, ",")]
    return [(method, parameters(settings)) for method, *settings in entries]


def _parted(text: str, sign: str) -> list[str]:
    """What stands between the signs that are in no brackets and in no double quotes; nothing is left out."""
    parts, depth, quoted = [""], 0, False
    for place, letter in enumerate(text):
        quoted ^= letter == '"' and text[place - 1 : place] != "\\"
        depth += 0 if quoted else (letter in "[{(") - (letter in "]})")
        if letter == sign and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    if quoted or depth:
        raise ParameterError("--methods: a quote or a bracket is left open", "close it")
    return [part.strip() for part in parts if part.strip()]


def limits_in(texts: Sequence[str]) -> dict[str, float]:
    """`dbrl=0.02`, by the id of a measure."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise ParameterError(f"--limit: '{text}' is not id=number", "write --limit dbrl=0.02") from None
    return found


def parameters(settings: Sequence[str]) -> dict[str, Any]:
    """`--set key=value` pairs; values are read as JSON where they are, as a list where they have commas."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ParameterError(f"--set: '{setting}' is not KEY=VALUE", "for example --set components=3")
        if key.strip() in found:
            raise ParameterError(f"--set: '{key.strip()}' is set twice", "set it once")
        if key.strip() in inspect.signature(api.protect).parameters:
            raise _no_parameter(key.strip())
        found[key.strip()] = _value(value.strip())
    return found


def _no_parameter(key: str) -> ParameterError:
    """What `api.protect` takes beside the parameters of the method cannot be set as one of them."""
    if key in {option.name for option in (*fields(Request), *fields(Columns))}:
        return ParameterError(f"--set: '{key}' is an option of its own", f"use --{key}")
    return ParameterError(f"--set: '{key}' is not a parameter of a method", "`microveil methods ID` lists them")


def _value(text: str) -> Any:
    if text.startswith("~"):
        return text  # a formula, whose names may have commas
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return [_value(part.strip()) for part in text.split(",")] if "," in text else text
