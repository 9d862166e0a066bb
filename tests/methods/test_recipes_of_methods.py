"""Every method with every parameter goes into a recipe and comes out of it as it was."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import pandas as pd
import pytest
from annotated_types import Ge, Gt, Le, Lt
from recipe_tables import SEED, STRANGE, table

import microveil as mv
from microveil.core.errors import MicroveilError
from microveil.io.config_files import toml_text
from microveil.methods import METHODS, Method, Plan
from microveil.perturb import PERTURBATIONS
from microveil.release import recipe as recipes

pytestmark = pytest.mark.usefixtures("few_exchanges")


FOUND_BY_CHANCE = {"outlier_split"}
"""Methods whose groups of records are found from random starts: what is asked for is the same, its share is not."""


every_method = pytest.mark.parametrize("method", [name for name, found in METHODS.items() if not found.labels_only])


def beside(method: str) -> dict[str, Any]:
    """A table for methods that start from another masker's output."""
    starts = any(step.from_other for step in METHODS[method].perturbations.values())
    return {"other": mv.protect(table(), "noise", seed=1).data} if starts and METHODS[method].fixed else {}


# --- Every method, every parameter


@pytest.mark.quick("pca", "noise", "cluster_hybrid", "correct")
@every_method
def test_a_file_with_the_seed_gives_the_same_bytes_and_one_without_the_same_doses(method: str, tmp_path: Path) -> None:
    data, also, path = table(), beside(method), tmp_path / "recipe.toml"
    release = mv.protect(data, method, seed=SEED, **also)
    recipes.write(release.recipe(include_seed=True), path)
    again = mv.run(path, data, **also)
    assert again.data.equals(release.data)
    assert again.recipe(include_seed=True) == release.recipe(include_seed=True)
    recipes.write(release.recipe(), path)
    fresh = mv.run(path, data, **also)
    drawn = bool(release.components.perturbed) and METHODS[method].plan({**also}).perturb.random
    assert fresh.data.equals(release.data) != drawn
    assert fresh.recipe() == release.recipe()
    for name, dose in release.dose.items() if method not in FOUND_BY_CHANCE else ():
        assert fresh.dose[name].asked == (dose.asked if dose.asked is None else pytest.approx(dose.asked, rel=1e-9))


WORDS = {"perturb": PERTURBATIONS, "utility": ["spectral_utility", "psnr", "ssim"]}
"""What parameters of text may be; any other is the name of a column, or a formula."""


TOGETHER: dict[str, dict[str, Any]] = {
    "components": {"sensitive": STRANGE[:2]},
    "sensitive": {"components": "sensitive", "select": "loads_on_sensitive"},
    "sensitive_share": {"components": "sensitive", "sensitive": STRANGE[:2]},
    "sensitive_loading": {"components": "sensitive", "sensitive": STRANGE[:2]},
    "select": {"sensitive": STRANGE[:1]},
    "threshold": {"select": "loads_on_sensitive", "sensitive": STRANGE[:1]},
    "rotation": {"sensitive": STRANGE[:1]},
    "rest": {"sensitive": STRANGE[:1], "sources": 3},
    "root": {"exact": True},
    "exchange": {"marginals": "smoothed"},
    "tail_group": {"marginals": "smoothed"},
    "window": {"marginals": "smoothed"},
    "sizes": {"grouping": "univariate"},
    "utility": {"threshold": 0.4},
    "modification": {"clusters": STRANGE[:1]},
    "alpha": {"modification": "b"},
    "pieces": {"clusters": STRANGE[:1]},
    "local_pieces": {"pieces": STRANGE[:1]},
    "groups": {"clusters": STRANGE[1:2], "grouped": STRANGE[2:3]},
    "grouped": {"clusters": STRANGE[1:2], "groups": STRANGE[:1]},
}
"""What some parameters cannot be without."""


def possible(kind: Any, name: str, limits: list[Any]) -> Iterator[Any]:
    """Values of a declared type, within its limits."""
    if get_origin(kind) is Annotated:
        kind, *inside = get_args(kind)
        found = [limit for part in inside for limit in getattr(part, "metadata", [part])]
        yield from possible(kind, name, [*limits, *found])
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from possible(one, name, limits)
    elif get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) is tuple:
        yield from ((one,) for one in possible(get_args(kind)[0], name, []))
    elif kind is bool:
        yield from (True, False)
    elif kind is str:
        yield from WORDS.get(name, [STRANGE[0], f"~ `{STRANGE[5]}` * g"])
    elif kind in (int, float):
        low = max(
            (getattr(limit, "ge", getattr(limit, "gt", 0)) for limit in limits if isinstance(limit, Ge | Gt)), default=0
        )
        high = min(
            (getattr(limit, "le", getattr(limit, "lt", 9)) for limit in limits if isinstance(limit, Le | Lt)), default=9
        )
        yield int(low) + 4 if kind is int else low + 0.3712345678901234 * (high - low)
    elif kind is NoneType:
        yield None


def plans(method: Method, name: str, perturb: str, values: Iterator[Any]) -> Iterator[Plan]:
    """The method with the parameter set to each value that it takes."""
    step = method.perturbations[perturb]
    also = {"perturb": perturb, **({"other": "other.csv"} if step.from_other else {})}
    for value in values:
        whole = TOGETHER.get(name, {})
        for further in (whole, *({key: one} for key, one in whole.items()), {}):
            known = {
                key: one for key, one in further.items() if any(key in s.model_fields for s in method.shared_steps)
            }
            try:
                yield method.plan({**method.fixed, **also, **known, name: value})
                break
            except MicroveilError:
                continue


def settled(plan: Plan) -> dict[str, Any]:
    """What a method was told, all but a file."""
    return {name: value for name, value in plan.parameters.items() if name != "other"}


def round_trip(plan: Plan) -> dict[str, Any]:
    recipe = recipes.read({"recipe": 1, "method": plan.method, "parameters": plan.parameters})
    again = recipes.read(tomllib.loads(recipes.text(recipe, Path.cwd())))
    return settled(METHODS[plan.method].plan(again.parameters))


@pytest.mark.quick("pca", "veil", "noise", "cluster_hybrid", "microaggregate")
@every_method
def test_every_parameter_comes_back_with_every_kind_of_value(method: str) -> None:
    found = METHODS[method]
    open_parameters: set[str] = set()
    tried: set[str] = set()
    for group, (perturb, step) in zip(found.parameters()[1:], found.perturbations.items(), strict=True):
        declared = {
            parameter.name
            for parameter in [*found.parameters()[0].parameters, *group.parameters]
            if not parameter.for_tests
        }
        for kind in (step,) if open_parameters else (*found.shared_steps, step):  # the shared ones need it once
            for name, field in kind.model_fields.items():
                if name not in declared or name in ("other", "link"):  # files, and tested as such
                    continue
                open_parameters.add(name)
                for plan in plans(found, name, perturb, possible(field.annotation, name, field.metadata)):
                    assert round_trip(plan) == settled(plan), name
                    if plan.parameters[name] != next(p for p in found._own(kind) if p.name == name).default:
                        tried.add(name)
    assert tried == open_parameters


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("pca", {"components": np.int64(2), "exact": np.bool_(False)}),
        ("pca", {"components": np.array([0, 2]), "perturb": "noise", "noise_sd_ratio": np.float64(0.25)}),
        ("pca", {"components": (0, 1), "perturb": np.str_("normal")}),
        ("score_mix", {"correlation": np.float32(0.5)}),
        ("score_mix", {"correlation": [0.5, None, None, 0.25, 1, 0]}),
        ("score_mix", {"correlation": None}),
        ("romm", {"noise": None, "target_correlation": np.float64(0.7)}),
        ("microhybrid", {"group_size": np.int32(20)}),
        ("factor", {"select": "loads_on_sensitive", "sensitive": (STRANGE[1],), "factors": 2}),
        ("ipso", {"public": STRANGE[:2], "confidential": tuple(STRANGE[2:])}),
        ("ipso", {"public": f"~ `{STRANGE[0]}` * `{STRANGE[5]}`"}),
        ("pca", {"strata": "g", "weight": "w", "rules": None}),
        ("pca", {"rules": {"columns": {STRANGE[0]: {"special_codes": (np.int64(-9),), "minimum": None}}}}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_numpy_none_tuples_and_strange_names_come_back(method: str, params: dict[str, Any], tmp_path: Path) -> None:
    data = table().to_pandas() if "weight" in params else table()
    if "weight" in params:
        data["g"], data["w"] = np.repeat(['é, "1"', "two"], 40), np.arange(80) + 1.0
    release = mv.protect(data, method, seed=np.int64(7), **params)
    path = tmp_path / "recipe.toml"
    recipes.write(release.recipe(include_seed=True), path)
    again = mv.run(path, data)
    assert pd.DataFrame(again.data).equals(pd.DataFrame(release.data))
    assert toml_text(again.recipe()) == toml_text(release.recipe())
    assert json.loads(json.dumps(release.recipe())) == release.recipe()
