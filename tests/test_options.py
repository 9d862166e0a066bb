"""Options are declared once: what is added to a declaration is found everywhere."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import checkout
import pytest

import microveil as mv
from microveil import options
from microveil.errors import ParameterError
from microveil.tables.audit import Intruder
from microveil.tables.fill import ResidualOptions

ADDED = """
import inspect, json, sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

# The declarations with one more: a setting of a release.
place = '    method: str = option(DEFAULT_METHOD'
more = '    colour: str = option("blue", "The colour of the release.", metavar="C")\\n' + place
load = SourceFileLoader.get_code

def get_code(self, name):
    if name != "microveil.options.jobs":
        return load(self, name)
    text = Path(self.path).read_text()
    assert text.count(place) == 1
    return compile(text.replace(place, more), self.path, "exec")

SourceFileLoader.get_code = get_code

import numpy as np
import microveil as mv
from microveil.cli.commands import app_for
from microveil.release.recipe import Recipe, read, text as recipe_text
from microveil.report.command_line import protect_words
from typer.testing import CliRunner

data = np.random.default_rng(0).lognormal(size=(60, 3))
release = mv.protect(data, "noise", colour="red", seed=1)
found = {
    "python": inspect.signature(mv.protect).parameters["colour"].default,
    "docstring": "colour: the colour of the release." in mv.protect.__doc__,
    "python, files": "colour" in inspect.signature(mv.protect_file).parameters,
    "settings": release.settings["colour"],
    "recipe": release.recipe()["colour"],
    "recipe file": read(release.recipe()).colour,
    "recipe text": 'colour = "red"' in recipe_text(read(release.recipe()), Path.cwd()),
    "schema": Recipe.model_json_schema()["properties"]["colour"]["description"],
    "replayed": mv.run(release.recipe(), data).settings["colour"],
    "typed": "--colour red" in " ".join(protect_words("a", "b", release.settings)),
    "help": [
        line.split() for line in CliRunner().invoke(app_for([]), ["protect", "--help"]).output.splitlines()
        if "--colour" in line
    ],
    "unused": "colour" in mv.protect(data, "noise", seed=1).settings,
}
sys.path.insert(0, sys.argv[1])
import make_docs
found["docs"] = "| `colour` | `--colour C` | blue | The colour of the release. |" in make_docs.options_page()
print(json.dumps(found))
"""


def test_an_option_that_is_added_in_one_place_is_found_everywhere(tmp_path: Path) -> None:
    scripts = Path(checkout.script("make_docs").__file__).parent
    command = [sys.executable, "-c", ADDED, str(scripts)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "python": "blue",
        "docstring": True,
        "python, files": True,
        "settings": "red",
        "recipe": "red",
        "recipe file": "red",
        "recipe text": True,
        "schema": "The colour of the release.",
        "replayed": "red",
        "typed": True,
        "help": [["--colour", "C", "The", "colour", "of", "the", "release.", "[default:", "blue]"]],
        "unused": False,
        "docs": True,
    }


@pytest.mark.parametrize(
    ("function", "model"),
    [
        (mv.protect, options.Protect),
        (mv.protect_file, options.ProtectFile),
        (mv.assess, options.Assess),
        (mv.compare, options.Compare),
        (mv.recommend, options.Recommend),
        (mv.tables.fill, ResidualOptions),
        (mv.tables.intervals, Intruder),
    ],
)
def test_signatures_show_every_option_with_its_default(function: object, model: type[options.Options]) -> None:
    shown = inspect.signature(function).parameters  # type: ignore[arg-type]
    for name, field in model.model_fields.items():
        if field.is_required():
            assert shown[name].default is inspect.Parameter.empty
        elif model.about(name).get("only") != "command line":
            assert shown[name].default == field.get_default()
            assert f"    {name}: " in (function.__doc__ or "")


def test_a_misspelt_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ParameterError, match="there is no option 'mesures'; did you mean 'measures'"):
        mv.assess([[1.0]], [[1.0]], mesures="all")


def test_an_option_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="shuffle_rows: "):
        mv.protect([[1.0]], shuffle_rows="perhaps")


def test_what_only_the_command_line_has_is_no_option_in_python(tmp_path: Path) -> None:
    """Given as one, it would be taken and not used."""
    with pytest.raises(ParameterError, match="has no parameter 'parameters'"):
        mv.protect_file(mv.example_file(), tmp_path / "out.csv", "pca", parameters={"components": 2})


def test_options_are_printed_without_their_values() -> None:
    shown = repr(options.Protect(seed=918273645, confidential=["secret column"]))
    assert shown == str(options.Protect(seed=918273645, confidential=["secret column"]))
    assert shown == "<Protect: confidential, seed>"


def test_a_bad_measure_or_policy_is_refused_before_the_work() -> None:
    with pytest.raises(ParameterError, match="measures: there is no 'dbrrl'"):
        mv.assess("no table", "none either", measures=["dbrrl"])
    with pytest.raises(ParameterError, match="policy: 'policy' is missing"):
        mv.run({"recipe": 1, "method": "pca", "policy": {"limits": {"dbrl": {"at_most": 1}}}}, "no table")
