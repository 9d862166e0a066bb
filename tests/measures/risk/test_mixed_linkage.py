"""Linkage on columns of all kinds, and the headline that covers the whole file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import run
from numpy.typing import NDArray

import microveil as mv
from microveil.core.table import Matrix
from microveil.measures.labels import LabelPair
from microveil.measures.risk.linkage import clear_uniques, mixed_linkage

NO_NUMBERS = Matrix([])


def labels_of(original: NDArray[np.int64], released: NDArray[np.int64], clear: tuple[int, ...] = ()) -> LabelPair:
    width = original.shape[1]
    return LabelPair(
        names=tuple("abcdefgh"[:width]),
        kinds=("category",) * width,
        sizes=tuple(int(max(o.max(), r.max())) + 1 for o, r in zip(original.T, released.T, strict=True)),
        original=original,
        released=released,
        in_clear=tuple(j in clear for j in range(width)),
        keys=tuple(range(width)),
    )


def by_hand(old: NDArray[np.int64], new: NDArray[np.int64]) -> float:
    """Gower's distance of labels, record by record."""
    hits = 0.0
    for number, record in enumerate(old):
        apart = (new != record).sum(axis=1)
        hits += (apart[number] == apart.min()) / (apart == apart.min()).sum()
    return hits / len(old)


def test_the_kernel_does_what_the_definition_says() -> None:
    rng = np.random.default_rng(1)
    old = rng.integers(-1, 4, (150, 5))
    new = np.where(rng.random(old.shape) < 0.4, rng.integers(-1, 4, old.shape), old)
    found = mixed_linkage(NO_NUMBERS, NO_NUMBERS, labels=labels_of(old, new), seed=1)
    assert found.value == pytest.approx(by_hand(old, new), abs=1e-12)
    assert found.chance == 1 / 150


def test_numbers_and_labels_together_find_what_neither_finds_alone() -> None:
    rng = np.random.default_rng(2)
    old, numbers = rng.integers(0, 8, (400, 2)), rng.normal(size=400)
    table = Matrix([numbers])
    noisy = Matrix([numbers + 0.001 * rng.normal(size=400)])
    both = mixed_linkage(table, noisy, labels=labels_of(old, old), seed=1).value
    labels = mixed_linkage(NO_NUMBERS, NO_NUMBERS, labels=labels_of(old, old), seed=1).value
    assert both > 0.95
    assert labels < 0.3


def test_columns_in_clear_are_trusted() -> None:
    rng = np.random.default_rng(3)
    old = rng.integers(0, 30, (300, 4))
    new = np.column_stack([old[:, 0], *(rng.permutation(column) for column in old.T[1:])])
    found = mixed_linkage(NO_NUMBERS, NO_NUMBERS, labels=labels_of(old, new, clear=(0,)), seed=1)
    assert found.parts["in clear"] == pytest.approx(np.unique(old[:, 0]).size / 300)
    assert found.value == pytest.approx(found.parts["in clear"], abs=0.06), "the others tell nothing"


def test_uniqueness_in_clear() -> None:
    old = np.array([[0, 1], [0, 1], [1, 1], [2, -1]])
    found = clear_uniques(NO_NUMBERS, NO_NUMBERS, labels=labels_of(old, old, clear=(0, 1)))
    assert (found.value, found.chance, found.parts["smallest group"]) == (0.5, 0.0, 1.0)
    few = labels_of(old, old)
    with pytest.raises(mv.errors.DataError, match="no column is released as it is"):
        clear_uniques(NO_NUMBERS, NO_NUMBERS, labels=few)


def patients(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "cost": rng.lognormal(8, 1, rows).round(2),
            "days": rng.poisson(5, rows),
            "sex": rng.choice(["f", "m"], rows),
            "diagnosis": rng.choice([f"K{number}" for number in range(40)], rows),
            "born": (pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 30_000, rows), unit="D")),
        }
    )


@pytest.mark.filterwarnings("ignore::microveil.errors.DisclosureWarning")
def test_no_small_figure_stands_above_rows_that_are_unique_in_clear(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = patients()
    release = mv.protect(data, "veil", keep=["born", "sex"], seed=1)
    assert "100.0 % of the rows unique on them" in repr(release)
    for measures in ("dbrl", "default"):
        found = mv.assess(data, release.data, measures=measures, seed=1, sanity=False)
        assert found.in_clear is not None
        assert found.worst_gain == found.in_clear.value == 1
        assert "worst attack clear_uniques 1" in repr(found) or "worst attack mixed_linkage 1" in repr(found)
    policy = {"policy": {"name": "old", "version": 1}, "limits": {"dbrl": {"at_most": 0.5}}}
    judged = mv.assess(data, release, policy=policy, measures="dbrl", sanity=False)
    assert judged.met
    assert "no limit on clear_uniques, and 100.0 % of the rows" in str(judged.verdict)
    strict = {**policy, "limits": {"worst_attack": {"at_most": 0.1}}}
    assert mv.assess(data, release, policy=strict, measures="dbrl", sanity=False).met is False
    data.to_csv(tmp_path / "in.csv", index=False)
    code, printed, _ = run(
        capsys, "protect", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--keep", "born,sex",
        "--report", tmp_path / "r.html",
    )  # fmt: skip
    assert code == 0
    assert "Risk: 100.0 % of the rows are unique" in printed or "100.00 % after" in printed
    assert "100 % of the rows are unique on the columns in clear" in (tmp_path / "r.html").read_text()


def test_a_protected_file_of_all_kinds_is_linked_by_luck_alone() -> None:
    data = patients(1_000)
    release = mv.protect(data, seed=1)
    found = mv.assess(data, release, measures="mixed_linkage", seed=1, sanity=True)
    assert found["mixed_linkage"].value <= 0.01
    assert found.known("mixed_linkage")[0] == 1
    assert found.in_clear is None


@pytest.mark.filterwarnings("ignore::microveil.errors.DisclosureWarning")
def test_files_in_blocks_have_the_same_headline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = patients(2_000)[["cost", "days", "diagnosis"]].assign(age=np.arange(2_000) % 97)
    data.to_csv(tmp_path / "in.csv", index=False)
    places = [tmp_path / name for name in ("in.csv", "out.csv")]
    code, printed, _ = run(
        capsys, "protect", places[0], "-o", places[1], "--method", "pca", "--engine", "stream", "--confidential",
        "cost,days", "--keep", "diagnosis,age",
    )  # fmt: skip
    assert code == 0
    alone = ~data.duplicated(["diagnosis", "age"], keep=False)
    assert f"Risk: {100 * alone.mean():.1f} % of the rows are unique on the columns in clear" in printed
