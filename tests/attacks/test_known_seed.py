"""The attacker knows the seed, the file, and all of it but one cell.

The streams follow from the seed and the data, so the attacker protects the file with one candidate after the other in
the unknown cell: the truth gives the release to the last bit. That is documented, and the internal report says it.
With a `secret` that salts the seed no candidate does.
"""

from __future__ import annotations

import json
import pickle
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.errors import FileError, MicroveilError
from microveil.release import recipe
from microveil.release.secret import secret_key

pytestmark = pytest.mark.usefixtures("few_exchanges")

CANDIDATES = np.arange(20_000.0, 20_300.0, 10.0)
TRUTH = float(CANDIDATES[17])


def firms() -> pl.DataFrame:
    table = np.round(np.random.default_rng(3).lognormal(10, 0.5, (60, 3)), 1)
    table[5, 1] = TRUTH
    return pl.DataFrame(table, schema=["wages", "costs", "stock"])


def survivors(released: pl.DataFrame, method: str, **options: Any) -> list[float]:
    """The candidates whose release is the one that was published."""
    found = []
    for candidate in CANDIDATES.tolist():
        tried = firms().with_columns(costs=pl.Series(firms()["costs"]).scatter(5, candidate))
        if mv.protect(tried, method, seed=42, **options).data.equals(released):
            found.append(candidate)
    return found


@pytest.mark.parametrize("method", ["pca", "noise"])
def test_the_seed_alone_lets_candidates_be_tried(method: str) -> None:
    """Documented: a seed keeps its meaning."""
    assert survivors(mv.protect(firms(), method, seed=42).data, method) == [TRUTH]


@pytest.mark.parametrize("method", ["pca", "noise"])
def test_with_a_secret_no_candidate_gives_the_release(method: str, tmp_path: Path) -> None:
    released = mv.protect(firms(), method, seed=42, secret=tmp_path / "secret").data
    assert survivors(released, method) == []
    assert survivors(released, method, secret=tmp_path / "of the attacker") == []
    assert mv.protect(firms(), method, seed=42, secret=tmp_path / "secret").data.equals(released)


def test_units_and_the_order_of_rows_are_salted_too(tmp_path: Path) -> None:
    frame = firms().with_columns(u=pl.Series(np.arange(60) // 2), rent=pl.Series(np.repeat(np.arange(30.0) ** 2, 2)))
    options: dict[str, Any] = {"unit": "u", "shuffle_rows": True, "seed": 42}
    plain, salted, again = (
        mv.protect(frame, "noise", **options, secret=secret)
        for secret in (None, tmp_path / "secret", tmp_path / "secret")
    )
    assert not np.array_equal(plain.order, salted.order)
    assert again.data.equals(salted.data)
    assert not np.isin(salted.data["wages"], plain.data["wages"]).mean() > 0.1


def test_a_stream_is_salted_as_a_table_in_memory_is(tmp_path: Path) -> None:
    source, output, secret = (tmp_path / name for name in ("a.parquet", "b.parquet", "secret"))
    firms().write_parquet(source)
    mv.protect_file(source, output, "pca", seed=42, secret=secret)
    assert pl.read_parquet(output).equals(mv.protect(firms(), "pca", seed=42, secret=secret).data)
    assert not pl.read_parquet(output).equals(mv.protect(firms(), "pca", seed=42).data)


def test_the_file_is_made_for_its_owner_only_and_told_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    release = mv.protect(firms(), "pca", seed=42, secret=secret)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    text = secret.read_text().strip()
    assert len(bytes.fromhex(text)) == 32
    release.report(tmp_path / "internal.html")
    release.report(tmp_path / "public.html", audience="public")
    recipe.write(release.recipe(include_seed=True), tmp_path / "recipe.toml")
    (tmp_path / "pickle").write_bytes(pickle.dumps(release))
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        assert file == secret or (text.encode() not in content and bytes.fromhex(text) not in content)
    assert str(secret) not in (tmp_path / "public.json").read_text()
    assert mv.run(tmp_path / "recipe.toml", firms()).data.equals(release.data)


def test_only_a_secret_that_is_one_is_taken(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    planted = "deadbeef" * 8
    secret.write_text(planted)
    secret.chmod(0o644)
    with pytest.raises(FileError, match=r"others may read or write .*chmod 600"):
        mv.protect(firms(), "pca", secret=secret)
    secret.chmod(0o600)
    mv.protect(firms(), "pca", secret=secret)
    for bad in ("", planted[:-1], planted + "00", planted.upper(), "x" * 64, "a" * 10_000):
        secret.write_text(bad)
        with pytest.raises(FileError, match="is no secret of microveil") as error:
            mv.protect(firms(), "pca", secret=secret)
        assert not bad or bad not in str(error.value)
    for bad in (tmp_path, tmp_path / "no folder" / "secret", "", 7):
        with pytest.raises(MicroveilError):
            mv.protect(firms(), "pca", secret=bad)


def test_a_recipe_never_makes_the_secret_that_it_names(tmp_path: Path) -> None:
    release = mv.protect(firms(), "pca", seed=42, secret=tmp_path / "secret")
    (tmp_path / "secret").unlink()
    with pytest.raises(FileError, match=r"secret: there is no file .* cannot be repeated"):
        mv.run(release.recipe(include_seed=True), firms())
    assert not (tmp_path / "secret").exists()


def test_the_internal_report_says_what_a_seed_alone_is_worth(tmp_path: Path) -> None:
    for name, secret in (("alone", None), ("salted", tmp_path / "secret")):
        mv.protect(firms(), "pca", seed=42, secret=secret).report(tmp_path / f"{name}.html")
        said = " ".join(json.loads((tmp_path / f"{name}.json").read_text())["residual_risk"])
        assert ("all of the data but one cell" in said) == (secret is None)


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    firms().write_csv("a.csv")
    options = ["--seed", "42", "--secret", "secret", "--method", "pca"]
    asked = ["protect", "a.csv", "-o", "b.csv", *options, "--save-recipe", "r.toml", "--include-seed"]
    assert run(capsys, *asked)[0] == 0
    assert stat.S_IMODE(Path("secret").stat().st_mode) == 0o600
    assert 'secret = "secret"' in Path("r.toml").read_text()
    first = Path("b.csv").read_bytes()
    assert run(capsys, "run", "r.toml", "--overwrite")[0] == 0
    assert Path("b.csv").read_bytes() == first
    assert run(capsys, "protect", "a.csv", "-o", "secret", *options)[0] == 2
    assert secret_key("secret")
