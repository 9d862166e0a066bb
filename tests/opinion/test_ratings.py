"""Ratings: read strictly, opinions as defined, missing ones counted and named. The observers are simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import observers
import pytest

from microveil.assessment import mos
from microveil.errors import DataError, ParameterError
from microveil.opinion import ratings_from

SENTINEL = 86.97531


def small() -> mos.Session:
    """Two observers, two stimuli and a hidden reference."""
    shown = [{"id": name, "source": "t", "removed": 1, "ssim": 0.5, "psnr": 20.0} for name in ("x", "y")]
    return mos.make_session(shown, ["o1", "o2"], seed=1, simulated=True)


def columns(**changed: Any) -> dict[str, Any]:
    ids = ("x", "y", "t-reference")
    good = {
        "observer": ["o1"] * 3 + ["o2"] * 3,
        "stimulus": [*ids, *ids],
        "reference": [90.0, 80.0, 70.0, 100.0, 0.0, 50.0],
        "processed": [50.0, 85.0, 70.0, 0.0, 100.0, 40.0],
    }
    return {**good, **changed}


def test_opinions_as_defined() -> None:
    found = ratings_from(columns(), small())
    assert found.opinions(found.kind()).tolist() == [[60.0, 100.0, 100.0], [0.0, 100.0, 90.0]]
    assert found.opinions(found.kind("processed")).tolist() == [[50.0, 85.0, 70.0], [0.0, 100.0, 40.0]]
    assert (found.missing, found.absent, found.notes()) == ([], [], [])


def test_a_single_score_is_the_opinion() -> None:
    given = {name: cells for name, cells in columns().items() if name != "reference"}
    given["score"] = given.pop("processed")
    found = ratings_from(given, small())
    assert found.kind() == "processed"
    assert found.opinions("processed").tolist() == [[50.0, 85.0, 70.0], [0.0, 100.0, 40.0]]
    with pytest.raises(ParameterError, match=r"^kind: a difference needs scores of both"):
        mos.score(found, kind="difference")
    with pytest.raises(ParameterError, match=r"^kind: 'ratio' is unknown"):
        mos.score(found, kind="ratio")


def test_missing_ratings_are_counted_and_named() -> None:
    shown = small()
    reference = [90.0, None, 70.0, 100.0, float("nan"), 50.0]
    found = ratings_from(columns(reference=reference), shown)
    assert found.missing == [("o1", "y"), ("o2", "y")]
    assert found.notes() == ["2 ratings missing: 'y' by 'o1', 'y' by 'o2'"]
    assert np.isnan(found.processed[:, 1]).all(), "half of a pair is no rating"
    rows = {name: cells[:2] for name, cells in columns().items()}
    found = ratings_from(rows, shown)
    assert found.absent == ["o2"]
    assert found.missing == [("o1", "t-reference")]
    assert found.notes() == ["1 observer rated nothing: o2", "1 rating missing: 't-reference' by 'o1'"]


def test_many_missing_ratings_are_counted() -> None:
    shown = observers.session(observers=6)
    rows = {name: cells[:-12] for name, cells in observers.rated(shown).items()}
    (note,) = ratings_from(rows, shown).notes()
    assert note.startswith("12 ratings missing: ")
    assert note.endswith(" and 7 more")


def test_a_file_gives_the_same(tmp_path: Path) -> None:
    shown = observers.session(count=6, observers=5)
    given = observers.rated(shown)
    path = observers.write_ratings(tmp_path / "ratings.csv", given)
    mos.write(shown, tmp_path / "session.toml")
    expected = ratings_from(given, shown)
    for session in (shown, tmp_path / "session.toml", str(tmp_path / "session.toml")):
        found = mos.read_ratings(path, session)
        assert np.array_equal(found.processed, expected.processed)
        assert found.reference is not None
        assert np.array_equal(found.reference, expected.reference)


def test_names_that_look_like_numbers_stay_names(tmp_path: Path) -> None:
    shown = [{"id": name, "source": "1", "removed": 1, "ssim": 0.5, "psnr": 20.0} for name in ("7", "1.50", "1e3")]
    session = mos.make_session(shown, ["1", "02"], seed=1)
    path = tmp_path / "ratings.csv"
    path.write_text("observer,stimulus,score\n1, 7,10\n1,1.50,20\n1,1e3 ,30\n1,1-reference,40\n")
    assert mos.read_ratings(path, session).processed[0].tolist() == [10, 20, 30, 40]
    path.write_text("observer,stimulus,score\n1,7,10\n1,1.50,20\n1,1e3,30\n")
    assert mos.read_ratings(path, session).processed[0].tolist()[:3] == [10, 20, 30]


BAD = {
    "unknown stimulus": ({"stimulus": ["z", *"yxyx", "y"]}, r"row 1: stimulus 'z' is not in the session"),
    "unknown observer": ({"observer": ["o1", "o3", *4 * ["o1"]]}, "row 2: observer 'o3' is not in .*there are: o1, o2"),
    "no observer": ({"observer": ["o1", "o1", None, *3 * ["o2"]]}, "row 3 has no observer"),
    "no stimulus": ({"stimulus": [*"xy", "t-reference", *"xy", None]}, "row 6 has no stimulus"),
    "twice": (
        {"stimulus": [*"xyx", *"xy", "t-reference"]}, r"observer 'o1' rated stimulus 'x' twice \(again in row 3\)",
    ),
    "too much": ({"processed": [SENTINEL + 100] * 6}, "processed of stimulus 'x' by observer 'o1' is outside of 0 to"),
    "too little": ({"reference": [1.0, -SENTINEL, *4 * [1.0]]}, "reference of stimulus 'y' by .* is outside of 0 to"),
    "infinite": ({"reference": [1.0, np.inf, *4 * [1.0]]}, "reference of stimulus 'y' by observer 'o1' is outside"),
    "text": ({"processed": [1.0, *5 * [f"about {SENTINEL}"]]}, "processed of stimulus 'y' by .* is not a number"),
    "truth": ({"processed": [True] * 6}, "processed of stimulus 'x' by observer 'o1' is not a number"),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), BAD.values(), ids=BAD)
def test_bad_ratings_are_named_without_their_score(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"^ratings: {message}") as told:
        ratings_from(columns(**changed), small())
    assert str(SENTINEL)[3:] not in str(told.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("observer,stimulus,reference", "there is no column 'processed'"),
        ("who,stimulus,score", "there is no column 'observer'"),
        ("observer,stimulus,score,second", "column 'second' is not known"),
        ("observer,stimulus,score,processed", "column 'processed' is not known"),
        ("observer,stimulus,reference,processed,seconds", "column 'seconds' is not known"),
    ],
)
def test_columns_are_those_that_are_known(header: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(f"{header}\n{','.join(['1'] * (header.count(',') + 1))}\n")
    with pytest.raises(DataError, match=f"^ratings: {message}"):
        mos.read_ratings(path, small())


def test_nothing_printed_holds_a_score() -> None:
    found = ratings_from(columns(processed=[SENTINEL] * 6), small())
    assert str(SENTINEL)[:5] not in repr(found)
    assert repr(found) == "<Ratings: 6 of 6, of <Session 'session': 3 stimuli, 2 simulated observers>>"
