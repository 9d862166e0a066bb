"""Rows in a random order, on request: nothing is lost, nothing tells where a row was, and measures still know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.io.frames.reorder import format_with_rows
from microveil.io.tables import read_table

pytestmark = pytest.mark.usefixtures("few_exchanges")


def table(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    return pl.DataFrame(
        {
            "town": rng.choice(["a", "b", "c"], rows),
            "wages": rng.lognormal(7, 1, rows),
            "rent": rng.lognormal(6, 1, rows),
            "age": rng.integers(18, 80, rows),
        }
    )


KINDS: dict[str, Any] = {
    "polars": lambda f: f,
    "pandas": lambda f: f.to_pandas(),
    "arrow": lambda f: f.to_arrow(),
    "numpy": lambda f: f.drop("town").to_numpy(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_in_another_order(kind: str) -> None:
    data = KINDS[kind](table())
    plain, shuffled = (mv.protect(data, seed=3, shuffle_rows=wish) for wish in (False, True))
    assert type(shuffled.data) is type(plain.data)

    def rows(release: mv.Release) -> list[tuple[Any, ...]]:
        if isinstance(release.data, np.ndarray):
            return [tuple(row) for row in release.data]
        frame = pl.DataFrame(release.data) if kind != "arrow" else pl.from_arrow(release.data)
        return frame.rows()  # type: ignore[union-attr]

    assert rows(plain) != rows(shuffled)
    assert sorted(rows(plain)) == sorted(rows(shuffled))
    assert rows(shuffled) == [rows(plain)[row] for row in shuffled.order]
    assert "the rows are in a random order, on request" in shuffled.warnings
    assert shuffled.recipe()["shuffle_rows"] is True
    assert "shuffle_rows" not in plain.recipe()
    assert plain.order is None


def test_the_order_is_repeated_from_the_seed_and_the_data_only() -> None:
    one, again, other = (mv.protect(table(), seed=seed, shuffle_rows=True).order for seed in (3, 3, 4))
    assert (one == again).all()
    assert (one != other).any()
    corrected = table().with_columns(age=pl.col("age") + 1)
    assert (mv.protect(corrected, seed=3, shuffle_rows=True).order != one).any(), "a guessed seed is worth nothing"


def test_no_index_tells_the_old_order() -> None:
    data = table().to_pandas()
    data.index = pd.Index([f"person {i}" for i in range(len(data))])
    out = mv.protect(data, seed=1, shuffle_rows=True).data
    assert list(out.index) == list(range(len(data)))


def test_measures_know_where_the_rows_were() -> None:
    data = table()
    plain, shuffled = (mv.protect(data, "noise", seed=3, shuffle_rows=wish, keep="town") for wish in (False, True))
    chosen = {"confidential": ["wages", "rent", "age"], "measures": ["dbrl"], "seed": 1}
    expected = mv.assess(data, plain.data, **chosen)["dbrl"].value
    assert expected > 0.1, "noise leaves something to link"
    assert mv.assess(data, shuffled, **chosen)["dbrl"].value == expected
    assert mv.assess(data, shuffled.data, **chosen)["dbrl"].value < expected / 2
    assert shuffled.audit == plain.audit


def test_reports_tell_of_it(tmp_path: Path) -> None:
    release = mv.protect(table(), seed=3, shuffle_rows=True, drop="town")
    release.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "random order" in text
    assert "dropped" in text


def test_a_file_keeps_the_writing_of_each_row_with_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A word for a missing cell, and the zeros of 1.50, go with their rows: left in place they would tell these."""
    from microveil.cli.main import main

    rng = np.random.default_rng(5)
    lines = [
        f"{i:04d},{rng.integers(1, 99)}.{i % 10}0,{'NA' if i % 9 == 0 else i % 7},{rng.random():.3f}"
        for i in range(200)
    ]
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("code,price,kids,x\n" + "\n".join(lines) + "\n")
    columns = ["--confidential", "x,kids", "--keep", "code"]
    with pytest.raises(SystemExit) as ended:
        main(["protect", str(source), "-o", str(target), *columns, "--shuffle-rows", "--method", "pca"])
    assert ended.value.code == 0
    capsys.readouterr()
    before = {line.split(",")[0]: line.split(",")[1] for line in lines}
    after = {line.split(",")[0]: line.split(",")[1] for line in target.read_text().splitlines()[1:]}
    assert list(after) != list(before)
    assert after == before
    missing = {line.split(",")[0] for line in lines if ",NA," in line}
    assert {line.split(",")[0] for line in target.read_text().splitlines() if ",NA," in line} == missing


def test_what_is_kept_of_a_file_goes_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a,b\n1.50,x\n2.5,y\nNA,z\n")
    _, form = read_table(path)
    order = np.array([2, 0, 1])
    kept = format_with_rows(form, order).columns["a"]
    assert kept.text.to_list() == ["NA", "1.50", "2.5"]
    assert kept.numbers.to_list() == [None, 1.5, 2.5]
    assert form.columns["a"].text.to_list() == ["1.50", "2.5", "NA"]
