"""Libraries of tables and pictures by their spectra: what each class can spare, and how far its answers are off."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.assessment import mos
from microveil.cli.main import main
from microveil.core.errors import DataError, ParameterError
from microveil.core.table import Matrix
from microveil.opinion.library import Member, library_of, member

Array = NDArray[np.float64]
LIMIT = 50.0

LINK = mos.read_link(
    {
        "link": {
            "predictor": "psnr", "bottom": 5.0, "top": 95.0, "middle": 20.0, "slope": 0.5, "lowest": 10.0,
            "highest": 60.0, "r2": 0.9, "residual_sd": 4.0, "stimuli": 14, "observers": 20, "scores": "difference",
            "simulated": True,
        }
    }
)  # fmt: skip


def table(common: float, seed: int, columns: int = 8) -> Array:
    """Columns that share one factor, which carries more or less of them."""
    rng = np.random.default_rng(seed)
    return common * rng.normal(size=(200, 1)) + rng.normal(size=(200, columns))


def test_a_member_spares_what_component_removal_takes() -> None:
    for common, seed in ((0.2, 1), (1.0, 2), (3.0, 3)):
        data = table(common, seed)
        found = member("one", Matrix.from_array(data), LINK, LIMIT)
        release = mv.protect(data, "component_removal", utility="mos", link=LINK, threshold=LIMIT, rules=None)
        assert found.spared == len(release.components.perturbed)
        values = np.linalg.eigvalsh(np.corrcoef(data.T))
        assert found.share == pytest.approx(values[-1] / values.sum())


def members(spared: list[list[int]]) -> list[Member]:
    """Groups of members with shares that rise from group to group."""
    return [
        Member(f"{i}-{j}", 0.1 + 0.2 * i + 0.01 * j, count, 9)
        for i, group in enumerate(spared)
        for j, count in enumerate(group)
    ]


def test_a_class_answers_with_its_median_and_the_error_is_of_those_left_out() -> None:
    found = library_of(members([[5, 5, 6], [2, 2, 3], [0, 1, 1]]), LINK, LIMIT)
    assert [one.components for one in found.classes] == [5, 2, 1]
    assert [(one.fewest, one.most, one.members) for one in found.classes] == [(5, 6, 3), (2, 3, 3), (0, 1, 3)]
    # Of two others the lower one answers: 5 of (5, 6), 5 of (5, 6), 5 of (5, 5); and so on.
    assert found.error == pytest.approx(np.mean([0, 0, 1, 0, 0, 1, 1, 1, 1]))
    assert found.helps
    assert not library_of(members([[1, 5, 3], [3, 1, 5], [5, 3, 1]]), LINK, LIMIT).helps
    assert found.class_of(0.0).components == 5
    assert found.class_of(0.41).components == 2 or found.class_of(0.41).components == 1
    assert found.class_of(0.99).components == 1


def test_what_makes_no_sense_is_refused() -> None:
    few = members([[1, 2, 3]])
    with pytest.raises(ParameterError, match="each needs 3 files"):
        library_of(few, LINK, LIMIT, classes=2)
    with pytest.raises(ParameterError, match="the link never leaves"):
        library_of(few, LINK, 99.0, classes=1)
    with pytest.raises(DataError, match="missing cells"):
        member("holes", Matrix.from_array(np.where(table(1, 1) > 2, np.nan, table(1, 1))), LINK, LIMIT)


def test_from_files_to_a_file_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    files = []
    for number, common in enumerate((0.1, 0.2, 0.3, 2.0, 2.5, 3.0)):
        data = table(common, number)
        if number % 2:
            path = tmp_path / f"{number}.png"
            shades = 255 * (data - data.min()) / np.ptp(data)
            image.fromarray(shades.astype(np.uint8)).resize((12, 60)).save(path)
        else:
            path = tmp_path / f"{number}.csv"
            pl.DataFrame(data, schema=[f"c{j}" for j in range(8)]).write_csv(path)
        files.append(str(path))
    link, target = tmp_path / "link.toml", tmp_path / "library.toml"
    mos.write(LINK, link)
    arguments = ["mos", "library", *files, "--link", str(link), "--limit", "50", "--classes", "2", "-o", str(target)]
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--json"])
    assert not stopped.value.code
    told = json.loads(capsys.readouterr().out)
    assert len(told["members"]) == 6
    found = mos.read_library(target)
    assert found.to_dict()["library"] == told["library"]
    assert "nobody was asked" in found.notes[0]
    assert found.classes[0].high <= found.classes[1].low
    count, of = found.components_for(table(3.0, 9))
    assert (count, of) == (found.classes[1].components, found.classes[1])
    target.unlink()
    with pytest.raises(SystemExit):
        main(arguments)
    assert "left out, the answer of its class is off by" in capsys.readouterr().out.replace("\n", " ")
