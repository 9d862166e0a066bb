"""The attacker collects: release after release of nearly the same data.

Each release tells a little more of the same records, and differences between vintages tell the records that changed. No
single release shows it. A private registry knows without a value of the data that the rows were released before, in
another order, with some records less, more or changed, or with columns left out; and it keeps quiet about other data.
"""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.core.arrays import Array
from microveil.errors import FileError

pytestmark = pytest.mark.usefixtures("few_exchanges")


def firms(count: int = 1_000, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {name: np.round(rng.lognormal(6, 1, count), 2) for name in ("wages", "costs", "stock", "profit")}
    return pl.DataFrame({**columns, "staff": rng.integers(1, 30, count), "region": rng.choice(["n", "s"], count)})


def released(frame: Any, registry: Path, **options: Any) -> list[str]:
    """What is said of earlier releases."""
    warnings = mv.protect(frame, "noise", keep="rest", seed=1, registry=registry, **options).warnings
    return [warning for warning in warnings if "were in a release of" in warning]


def share(said: list[str]) -> float:
    (warning,) = said
    found = re.match(r"about (\d+)% of the rows", warning)
    return int(found[1]) / 100 if found else 0.0


def changed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(wages=pl.Series(np.where(np.arange(frame.height) < 20, 5.0, frame["wages"])))


SAME = {
    "again": lambda frame: frame,
    "sorted": lambda frame: frame.sort("wages"),
    "one record less": lambda frame: frame[1:],
    "more records": lambda frame: pl.concat([frame, firms(50, 9)]),
    "changed records": changed,
    "columns left out": lambda frame: frame.select("staff", "profit", "costs"),
    "two columns": lambda frame: frame.select("wages", "stock"),
    "another kind of table": lambda frame: frame.to_pandas(),
    "columns in another order": lambda frame: frame.select(sorted(frame.columns, reverse=True)),
}


@pytest.mark.parametrize("change", SAME)
def test_a_second_release_of_nearly_the_same_data_is_told(change: str, tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    assert not released(firms(), registry)
    assert share(released(SAME[change](firms()), registry)) >= 0.9


def test_half_of_the_rows_are_told_as_half(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    released(firms(), registry)
    mixed = pl.concat([firms()[:500], firms(500, 7)])
    assert 0.4 <= share(released(mixed, registry)) <= 0.6


@pytest.mark.parametrize("other", [firms(1_000, 2), firms(300, 3).with_columns(staff=pl.lit(1))])
def test_other_data_raise_no_alarm(other: pl.DataFrame, tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    numbered = firms().with_row_index("number")
    released(numbered, registry)
    assert not released(other.with_row_index("number"), registry)


def test_a_file_and_a_table_are_the_same(tmp_path: Path) -> None:
    registry, source, output = (tmp_path / name for name in ("registry", "a.parquet", "b.parquet"))
    firms().write_parquet(source)
    options = {"keep": ["region"], "seed": 1, "registry": registry}
    mv.protect_file(source, output, "pca", **options)
    assert share(released(firms(), registry)) == 1
    said = mv.protect_file(source, output, "pca", overwrite=True, **options).warnings
    assert any("the nearest of 2 such releases" in warning for warning in said)


def test_it_has_no_value_and_is_for_its_owner_only(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    released(firms(), registry, unit="staff")
    assert stat.S_IMODE(registry.stat().st_mode) == 0o600
    text = registry.read_text()
    assert not [name for name in firms().columns if name in text]
    hashes = [sketch for entry in json.loads(text)["releases"] for sketch in entry["sketches"]]
    assert len(json.loads(text)["releases"]) == 1
    assert hashes
    bits: Array = firms()["wages"].to_numpy()
    assert not [value for value in bits[:100] if str(value) in text]
    other = tmp_path / "other"
    released(firms(), other)
    sketches = [set(json.loads(file.read_text())["releases"][0]["sketches"].values()) for file in (registry, other)]
    assert not sketches[0] & sketches[1]


FOREIGN = ["", "{}", "[1]", "not json", '{"microveil registry": 2}', '{"microveil registry": 1, "key": 5}']
FOREIGN += ['{"microveil registry": 1, "key": "ab", "releases": [{"date": "secret", "method": "pca", "rows": 1}]}']
FOREIGN += ["[" * 100_000]


@pytest.mark.parametrize("content", FOREIGN)
def test_a_foreign_file_is_refused_and_stays(content: str, tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    registry.write_text(content)
    registry.chmod(0o600)
    with pytest.raises(FileError, match="is no registry of microveil") as error:
        released(firms(), registry)
    assert registry.read_text() == content
    assert "secret" not in str(error.value)
    registry.chmod(0o640)
    with pytest.raises(FileError, match="others may read or write"):
        released(firms(), registry)


def test_it_is_written_only_with_the_release(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    with pytest.raises(mv.errors.MicroveilError):
        mv.protect(firms(), "pca", components=99, registry=registry)
    assert not registry.exists()


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    firms().write_csv("a.csv")
    Path("p.toml").write_text('[policy]\nname = "x"\nversion = 1\n[limits]\nks = {at_most = 0.0}\n')
    options = ["--method", "pca", "--registry", "registry", "--keep", "region", "--json", "--seed", "1"]
    assert run(capsys, "protect", "a.csv", "-o", "b.csv", *options, "--policy", "p.toml")[0] == 1
    assert not Path("registry").exists()
    code, printed, _ = run(capsys, "protect", "a.csv", "-o", "b.csv", *options, "--save-recipe", "r.toml")
    assert code == 0
    assert "were in a release" not in printed
    assert stat.S_IMODE(Path("registry").stat().st_mode) == 0o600
    for engine in ("memory", "stream"):
        code, printed, _ = run(capsys, "protect", "a.csv", "-o", "b.csv", *options, "--overwrite", "--engine", engine)
        assert code == 0
        assert "about 100% of the rows were in a release of" in printed
    assert "in a release" in run(capsys, "run", "r.toml", "--overwrite", "--registry", "registry", "--json")[1]
    assert len(json.loads(Path("registry").read_text())["releases"]) == 4
