"""The attacker sends a recipe.

A recipe names the files to write. One that came by mail can name a file of its reader (`report = ".bashrc"`), one
above its folder, or one behind a link that was packed beside it. A run writes below the folder of its recipe, or
where its user says, through no link, and over nothing that is there unless the user says so. Nothing is begun before.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.errors import FileError

pytestmark = pytest.mark.usefixtures("few_exchanges")

Said = pytest.CaptureFixture[str]


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    """A folder that came from elsewhere, with data in it, in the home of its reader."""
    folder = tmp_path / "home" / "mail"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    pl.DataFrame(rng.lognormal(3, 1, (40, 3)).round(1), schema=list("abc")).write_csv(folder / "in.csv")
    (folder.parent / ".bashrc").write_text("mine")
    return folder


def recipe(folder: Path, **output: str) -> Path:
    lines = [f'{name} = "{value}"' for name, value in output.items()]
    file = folder / "recipe.toml"
    file.write_text("\n".join(['recipe = 1\nmethod = "noise"\n[input]\npath = "in.csv"\n[output]', *lines]))
    return file


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def refused(capsys: Said, *arguments: object, home: Path) -> str:
    before = files(home)
    code, _, said = run(capsys, *arguments)
    assert code == 2
    assert files(home) == before, "nothing is written"
    assert (home / ".bashrc").read_text() == "mine"
    return said


OUTSIDE = {
    "above": {"path": "../out.csv"},
    "a path of its own": {"path": "/HOME/out.csv"},
    "there and back": {"path": "../mail2/../out.csv"},
    "a report": {"path": "out.csv", "report": "../.bashrc"},
    "a public report": {"path": "out.csv", "public_report": "/HOME/p.html"},
    "a database": {"path": "sqlite:////HOME/db.sqlite#t"},
    "another database": {"path": "duckdb:///../db.duckdb#t"},
    "a server": {"path": "postgresql://u@localhost:1/db#t"},
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_nothing_is_written_outside_of_its_folder(case: str, mail: Path, capsys: Said) -> None:
    home = mail.parent
    named = {name: path.replace("/HOME", str(home)) for name, path in OUTSIDE[case].items()}
    said = refused(capsys, "run", recipe(mail, **named), home=home)
    option = "output" if list(named) == ["path"] else list(named)[1].replace("_", "-")
    assert "below" in said
    assert f"--{option}" in said
    assert "below" in refused(capsys, "run", recipe(mail, **named), "--overwrite", home=home)


def test_nothing_is_replaced_unless_the_user_says_so(mail: Path, capsys: Said) -> None:
    home, asked = mail.parent, recipe(mail, path="out.csv", report="r.html")
    for name in ("out.csv", "r.html", "r.json"):
        (mail / name).write_text("mine")
        said = refused(capsys, "run", asked, home=home)
        assert f"'{mail / name}' exists already; name another, or say --overwrite" in said
        (mail / name).unlink()
    (mail / "out.csv").write_text("mine")
    assert run(capsys, "run", asked, "--overwrite")[0] == 0
    assert (mail / "out.csv").read_text() != "mine"


def test_a_recipe_cannot_say_it_itself(mail: Path, capsys: Said) -> None:
    with sqlite3.connect(mail / "db.sqlite") as base:
        base.execute("CREATE TABLE t (mine)")
    base.close()
    asked = recipe(mail, path="sqlite:///db.sqlite#t")
    asked.write_text(asked.read_text() + "\nreplace = true")
    assert "exists already" in refused(capsys, "run", asked, home=mail.parent)
    assert run(capsys, "run", asked, "--overwrite")[0] == 0


LINKS = {
    "a file": ("out.csv", "../kept.csv"),
    "a file that is not there": ("out.csv", "../new.csv"),
    "a file beside it": ("out.csv", "beside.csv"),
    "a folder": ("sub", ".."),
    "a folder beside it": ("sub", "other"),
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("case", LINKS)
def test_no_link_is_followed(case: str, overwrite: bool, mail: Path, capsys: Said) -> None:
    (mail.parent / "kept.csv").write_text("mine")
    (mail / "other").mkdir()
    name, target = LINKS[case]
    (mail / name).symlink_to(target)
    asked = recipe(mail, path="out.csv" if name == "out.csv" else "sub/out.csv")
    said = refused(capsys, "run", asked, *(["--overwrite"] * overwrite), home=mail.parent)
    assert "reached by a symbolic link" in said
    assert (mail.parent / "kept.csv").read_text() == "mine"
    assert (mail / name).is_symlink()


def test_the_twin_of_a_report_is_looked_at_too(mail: Path, capsys: Said) -> None:
    (mail / "r.json").symlink_to("../new.json")
    asked = recipe(mail, path="out.csv", report="r.html")
    assert "reached by a symbolic link" in refused(capsys, "run", asked, "--overwrite", home=mail.parent)


def test_folders_below_and_places_the_user_names_are_fine(mail: Path, capsys: Said) -> None:
    (mail / "sub").mkdir()
    assert run(capsys, "run", recipe(mail, path="sub/out.csv", report="sub/../r.html"))[0] == 0
    assert (mail / "sub" / "out.csv").exists()
    assert (mail / "r.html").exists()
    above = mail.parent / "out.csv"
    assert run(capsys, "run", recipe(mail, path="../out.csv"), "-o", above)[0] == 0
    assert above.exists()
    said = refused(capsys, "run", recipe(mail, path="../out.csv"), "-o", above, home=mail.parent)
    assert "exists already" in said


def test_a_recipe_that_is_reached_by_a_link_writes_where_it_is(mail: Path, capsys: Said) -> None:
    asked = recipe(mail, path="out.csv")
    link = mail.parent / "link.toml"
    link.symlink_to(asked)
    assert run(capsys, "run", link)[0] == 0
    assert (mail / "out.csv").exists()


def test_run_in_python_writes_nothing(mail: Path) -> None:
    before = files(mail.parent)
    release = mv.run(recipe(mail, path="../out.csv", report="../.bashrc"))
    assert release.rows == 40
    assert files(mail.parent) - before == {mail / "recipe.toml"}


# The same for what is typed


@pytest.mark.slow
def test_protect_replaces_nothing_unless_told_to(mail: Path, capsys: Said) -> None:
    options = ("protect", mail / "in.csv", "-o", mail / "out.csv", "--method", "noise", "--quiet")
    extras = ("--report", mail / "r.html", "--public-report", mail / "p.html", "--save-recipe", mail / "s.toml")
    for name in ("out.csv", "r.html", "r.json", "p.html", "p.json", "s.toml"):
        (mail / name).write_text("mine")
        assert f"'{mail / name}' exists already" in refused(capsys, *options, *extras, home=mail.parent)
        (mail / name).unlink()
    (mail / "out.csv").symlink_to("nowhere.csv")
    assert "exists already" in refused(capsys, *options, home=mail.parent)
    (mail / "out.csv").unlink()
    assert run(capsys, *options, *extras)[0] == 0
    assert run(capsys, *options, *extras, "--overwrite")[0] == 0


def test_blocks_replace_nothing_unless_told_to(mail: Path) -> None:
    (mail / "out.csv").write_text("mine")
    with pytest.raises(FileError, match="exists already"):
        mv.protect_file(mail / "in.csv", mail / "out.csv", "pca", rules=None)
    assert (mail / "out.csv").read_text() == "mine"
    mv.protect_file(mail / "in.csv", mail / "out.csv", "pca", rules=None, overwrite=True)
    assert (mail / "out.csv").read_text() != "mine"
