"""Recipes: everything a release was asked for, in a file that asks for it again.

A recipe is TOML, or a dict of the same shape. Only the version and the method have to be there:

    recipe = 2
    method = "pca"
    confidential = ["turnover", "wages"]
    rules = "infer"

    [parameters]
    components = 3

    [input]
    path = "firms.csv"

    [output]
    path = "released.csv"
    report = "internal.html"

`microveil run` does what `microveil protect` did; `run` gives the release back and writes nothing. Paths are relative
to the folder of the recipe. A recipe holds no value of the data: tables that were given as parameters are named in
`needs`, and have to be given again. The seed is in it only if it was asked for; so is the hash of the input, by which a
guess at the whole file could be confirmed. Such a recipe is a secret, and is written for its owner only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from microveil.core.errors import ParameterError
from microveil.core.version import __version__
from microveil.io.config_files import Strict, plain_data, read_strictly, toml_text
from microveil.io.files.formats import ReadOptions
from microveil.io.locations import Place, file_of, own_file, place_from
from microveil.methods import method_named
from microveil.options import Protect, Reading, Settings, option
from microveil.release.release import RECIPE_VERSION
from microveil.storage.atomic import atomic_targets, system_errors

Content = dict[str, Any]

UPGRADES: dict[int, Callable[[Content], Content]] = {
    1: lambda content: {**content, "keep": ["rest", *content.get("keep", [])]}
}
"""What makes a recipe of one version (the key) one of the next. In the first, columns without a role were in clear."""

TELLS_MORE = "Two releases of the same data tell more than one: let only one of them out"
ANOTHER_DRAW = f"this is another draw: the recipe has no seed to repeat a release by. {TELLS_MORE}"

HINT = "`microveil protect --save-recipe FILE.toml` writes one to start from"
INFERRED = ("infer", "none")


def _names(value: Any) -> Any:
    given = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str | int) and not isinstance(name, bool) for name in given):
        raise ValueError("takes names of columns")
    return value


def _of_the_method(parameters: Content) -> Content:
    for name in parameters:
        if name in Protect.model_fields:
            raise ValueError(f"'{name}' is no parameter of a method, and has its own place above them")
    return parameters


FilePath = Annotated[str, Field(min_length=1)]


class Input(Strict, Reading):
    """The file to protect (or the address of a table), how to read it, and the hash that its bytes had."""

    path: FilePath | None = Field(default=None, repr=False)  # an address may have a password in it
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @property
    def reading(self) -> ReadOptions:
        """How to read it."""
        return ReadOptions.of(self)


class Output(Strict):
    """The files to write."""

    path: FilePath | None = Field(default=None, repr=False)
    report: FilePath | None = None
    public_report: FilePath | None = None
    keep_formulas: bool = False
    replace: bool = Field(default=False, description="of older recipes; what exists is replaced with --overwrite only")

    @property
    def files(self) -> dict[str, str | None]:
        """The reports."""
        return {"report": self.report, "public_report": self.public_report}


class Recipe(Strict, Settings):
    """What a recipe holds: the settings of a release, and what it was made of and written to."""

    recipe: int = RECIPE_VERSION
    microveil: str | None = Field(None, description="the version that wrote it; `run` says if it is another")
    method: str
    memory: str | None = Field(None, description="for engine = 'stream': about how much memory to take")
    policy: Any = option(None, "limits on the figures: a file, or what it would hold", "rules")
    seed: int | None = Field(None, ge=0, repr=False)
    needs: list[str] = Field(default_factory=list)
    parameters: Annotated[dict[str, Any], AfterValidator(_of_the_method)] = Field(default_factory=dict)
    input: Input = Input()
    output: Output = Output()

    @field_validator("*", mode="before")
    @classmethod
    def _right_kind(cls, value: Any, info: ValidationInfo) -> Any:
        """What is typed as columns are names, and what is typed as a file is its path or what it would hold."""
        kind = cls.about(info.field_name or "").get("kind")
        if value is None or kind is None:
            return value
        if kind in ("columns", "formula"):
            return _names(value)
        if kind == "column":
            return _names([value])[0]
        if kind == "rules" and not isinstance(value, str | dict):
            raise ValueError("takes the path of a file, or a table with what it would hold")
        return value

    def settings_given(self) -> dict[str, Any]:
        """The settings by name, as `protect` takes them."""
        return self.only(Settings)


def read(source: Recipe | Mapping[str, Any] | str | Path) -> Recipe:
    """A recipe from a TOML file, or from a dict of the same shape; what it names as paths can be opened from here."""
    if isinstance(source, Recipe):
        return source
    if isinstance(source, Mapping):
        return read_strictly(Recipe, "recipe", plain_data(source), HINT, _upgraded)
    folder = Path(os.path.realpath(source)).parent
    return _moved(read_strictly(Recipe, "recipe", source, HINT, _upgraded), lambda path: str(folder / path))


def write(recipe: Recipe | Mapping[str, Any], path: str | Path) -> None:
    """Write a recipe, such as `release.recipe()`, whole or not at all; one with a seed is for its owner only."""
    asked = read(recipe)
    private = [Path(path)] if asked.seed is not None else []
    with atomic_targets([Path(path)], private=private) as (temporary,):
        temporary.write_text(text(asked, temporary.parent), encoding="utf-8")


def text(recipe: Recipe, folder: Path) -> str:
    """The recipe as TOML, for a file in a folder."""
    there = os.path.realpath(folder)
    stored = _moved(recipe, lambda path: _seen_from(there, path)).model_copy(update={"microveil": __version__})
    stored = stored.model_copy(update={part: _without_password(getattr(stored, part)) for part in ("input", "output")})
    secret = " It holds the seed: keep it secret." if recipe.seed is not None else ""
    heading = f"# `microveil run FILE` does it again. Paths are relative to this file.{secret}\n"
    first = {"recipe": stored.recipe, "microveil": stored.microveil}
    content = {
        **first,
        **stored.model_dump(exclude_none=True),
        "input": dict(sorted(stored.input.model_dump(exclude_none=True).items(), key=lambda entry: entry[0] != "path")),
        "output": stored.output.model_dump(exclude_defaults=True),
    }
    return heading + toml_text({name: value for name, value in content.items() if value not in ([], {})})


def parameters(recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the method: the recipe's, but for those that are given instead."""
    found = {**recipe.parameters, **given}
    for name in recipe.needs:
        if name not in found:
            raise ParameterError(
                f"recipe: the release was made with '{name}', a table that no recipe holds",
                f"give it again: run(..., {name}=TABLE), or --set {name}=FILE",
            )
    return found


def file_hash(path: Path) -> str:
    """The hash of a file's bytes."""
    with system_errors("read", path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def differs(recipe: Recipe, place: Place) -> list[str]:
    """A note, where the input is not the file that the recipe was written for."""
    file = own_file(place)
    if recipe.input.sha256 is None or (file is not None and file_hash(file) == recipe.input.sha256):
        return []
    return ["the input is not the file that the recipe was written for: its bytes have another hash"]


def about_draw(recipe: Recipe, seed: int | None, given: Mapping[str, Any]) -> list[str]:
    """A note, where a run does not give the bytes that the recipe was written for: no seed, or another version.

    `seed` is the one that is used, `given` are the parameters of the method.
    """
    if not method_named(recipe.method).plan(given).perturb.random:
        return []
    if seed is None:
        return [ANOTHER_DRAW]
    if recipe.microveil is None or recipe.microveil == __version__:
        return []
    return [
        f"the recipe was written by microveil {recipe.microveil}, and this is {__version__}: the same seed may give "
        f"other values; then this is another draw. {TELLS_MORE}"
    ]


def _upgraded(content: Content) -> Content:
    """The content as this version writes it."""
    version = content.get("recipe")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ParameterError("recipe: it does not say its version", f"a recipe has the line recipe = {RECIPE_VERSION}")
    if version > RECIPE_VERSION:
        raise ParameterError(
            f"recipe: it is of version {version}, and this microveil reads {RECIPE_VERSION}", "use a newer microveil"
        )
    for older in range(version, RECIPE_VERSION):
        content = {**UPGRADES[older](content), "recipe": older + 1}
    return content


def _moved(recipe: Recipe, place: Callable[[str], str]) -> Recipe:
    """The recipe with every path in it as seen from another place."""
    changed: Content = {}
    for part in ("input", "output"):
        section = getattr(recipe, part)
        files = {name: getattr(section, name) for name in ("path", "report", "public_report") if hasattr(section, name)}
        moved = {name: _moved_address(file, place) for name, file in files.items() if file is not None}
        changed[part] = section.model_copy(update=moved)
    named = {name: getattr(recipe, name) for name in ("rules", "policy", "secret")}
    changed |= {name: place(file) for name, file in named.items() if isinstance(file, str) and file not in INFERRED}
    own = {name: recipe.parameters.get(name) for name in path_parameters(recipe.method)}
    moved = {name: place(path) for name, path in own.items() if isinstance(path, str)}
    return recipe.model_copy(update={**changed, "parameters": {**recipe.parameters, **moved}})


def _moved_address(text: str, place: Callable[[str], str]) -> str:
    """A path as seen from another place; of an address, the file of the database, if it has one."""
    if "://" not in text:
        return place(text)
    file = file_of(place_from(text))
    if file is None:
        return text
    scheme, table = text.partition("://")[0], text.rpartition("#")[2] if "#" in text else ""
    return f"{scheme}:///{quote(place(str(file)))}{f'#{table}' if table else ''}"


def _without_password(part: Input | Output) -> Input | Output:
    """The printed form of an address has none."""
    if part.path is None or "://" not in part.path:
        return part
    return part.model_copy(update={"path": str(place_from(part.path))})


def path_parameters(method: str) -> set[str]:
    """The parameters of a method of which a text is the path of a file."""
    groups = method_named(method).parameters()
    return {parameter.name for group in groups for parameter in group.parameters if parameter.is_path}


def place(text: str | None) -> Place | None:
    """Where a path or an address in a recipe is."""
    return None if text is None else place_from(text)


def _seen_from(folder: str, path: str) -> str:
    """A path as seen from a folder; as it is, where there is no way from one to the other."""
    real = Path(os.path.realpath(Path(path).parent)) / Path(path).name  # a link stays the link it is
    try:
        return Path(os.path.relpath(real, folder)).as_posix()
    except ValueError:  # Windows: on another drive
        return str(real)
