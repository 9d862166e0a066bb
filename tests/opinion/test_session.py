"""Sessions: balanced, reproducible, written and read back, and strictly."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import observers
import pytest
import tomli_w

from microveil.assessment import mos
from microveil.errors import FileError, MicroveilError, ParameterError
from microveil.opinion.session import balanced_orders, balanced_sides

SEED = 918273645546372819


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- Balance


@pytest.mark.parametrize("stimuli", [2, 3, 4, 7, 10, 13])
def test_over_as_many_observers_as_stimuli_each_comes_once_in_each_place(stimuli: int) -> None:
    orders = np.array(balanced_orders(stimuli, 3 * stimuli, generator()))
    for block in np.split(orders, 3):
        for place in block.T:
            assert sorted(place) == list(range(stimuli))
    assert all(sorted(order) == list(range(stimuli)) for order in orders)


@pytest.mark.parametrize("stimuli", [4, 10, 5, 13])
def test_each_stimulus_follows_each_other_equally_often(stimuli: int) -> None:
    whole = stimuli if stimuli % 2 == 0 else 2 * stimuli
    orders = balanced_orders(stimuli, whole, generator(1))
    follows = np.zeros((stimuli, stimuli), dtype=int)
    for order in orders:
        for before, after in itertools.pairwise(order):
            follows[before, after] += 1
    assert (follows[~np.eye(stimuli, dtype=bool)] == whole // stimuli).all()


@pytest.mark.parametrize(("stimuli", "people"), [(6, 4), (6, 11), (7, 9), (5, 23), (1, 3)])
def test_any_number_of_observers_is_balanced_within_one(stimuli: int, people: int) -> None:
    orders = np.array(balanced_orders(stimuli, people, generator(2)))
    for place in orders.T:
        counts = np.bincount(place, minlength=stimuli)
        assert counts.max() - counts.min() <= 1
    left = balanced_sides(stimuli, people, generator(3))
    for axis in (0, 1):
        right = (~left).sum(axis=axis)
        assert (np.abs(left.sum(axis=axis) - right) <= 1).all()


def test_any_order_is_as_likely_as_any_other() -> None:
    draws = 6000
    firsts = [tuple(balanced_orders(3, 1, generator(seed))[0].tolist()) for seed in range(draws)]
    counts = np.array([firsts.count(order) for order in set(firsts)])
    assert counts.size == 6
    expected, sd = draws / 6, np.sqrt(draws * (1 / 6) * (5 / 6))
    assert (np.abs(counts - expected) < 4 * sd).all()


# --- What is in it


def test_every_source_has_a_hidden_reference_and_everybody_sees_everything() -> None:
    made = observers.session(count=9, observers=7)
    hidden = [stimulus for stimulus in made.stimuli if stimulus.hidden]
    assert [(stimulus.source, stimulus.removed, stimulus.ssim, stimulus.psnr) for stimulus in hidden] == [
        ("a", 0, 1.0, np.inf), ("b", 0, 1.0, np.inf),
    ]  # fmt: skip
    everything = {stimulus.id for stimulus in made.stimuli}
    assert len(everything) == 11
    assert all(set(observer.order) == everything for observer in made.observers)
    assert len({observer.order for observer in made.observers}) == 7
    again = mos.make_session(made.stimuli, 7, seed=1, simulated=True)
    assert [stimulus.id for stimulus in again.stimuli] == [stimulus.id for stimulus in made.stimuli]


def test_the_seed_repeats_it_and_is_not_in_it(tmp_path: Path) -> None:
    first, second = (mos.make_session(observers.stimuli(), 12, seed=SEED) for _ in range(2))
    assert first == second
    assert first != mos.make_session(observers.stimuli(), 12, seed=SEED + 1)
    assert mos.make_session(observers.stimuli(), 12) != mos.make_session(observers.stimuli(), 12)
    mos.write(first, tmp_path / "session.toml")
    assert str(SEED) not in (tmp_path / "session.toml").read_text()
    assert str(SEED) not in repr(first)


def test_names_of_observers_can_be_given() -> None:
    made = mos.make_session(observers.stimuli(), ["anna", "bo c"], seed=1)
    assert [observer.id for observer in made.observers] == ["anna", "bo c"]
    assert [observer.id for observer in mos.make_session(observers.stimuli(), 10).observers][::9] == [
        "observer-01", "observer-10",
    ]  # fmt: skip


def test_a_session_comes_back_from_its_file(tmp_path: Path) -> None:
    made = mos.make_session(observers.stimuli(), ["Zoë", "ü 2"], seed=1, name="first try", simulated=True)
    path = tmp_path / "session.toml"
    mos.write(made, path)
    assert mos.read_session(path) == made
    assert mos.read_session(str(path)) == made
    assert mos.read_session(made.to_dict()) == made


def test_a_stimulus_is_measured_as_the_measures_do() -> None:
    import microveil as mv

    data = np.random.default_rng(1).gamma(1.5, size=(200, 4)) @ np.random.default_rng(2).normal(size=(4, 4))
    release = mv.protect(data, "component_removal", threshold=0.6)
    made = mos.stimulus("s", data, release.data, source="gamma", removed=len(release.components.perturbed))
    figures = mv.assess(data, release.data, measures=["ssim", "psnr"], sanity=False)
    assert (made.ssim, made.psnr) == (figures["ssim"].value, figures["psnr"].value)
    assert mos.stimulus("same", data, data, source="gamma").psnr == np.inf
    with pytest.raises(ParameterError, match=r"^stimulus: id: "):
        mos.stimulus("", data, release.data, source="gamma")


# --- Strictness


def content() -> dict[str, Any]:
    return copy.deepcopy(observers.session(count=3, observers=2).to_dict())


def spoilt(*path: Any, value: Any) -> dict[str, Any]:
    found: Any = (whole := content())
    for part in path[:-1]:
        found = found[part]
    if value is KeyError:
        del found[path[-1]]
    else:
        found[path[-1]] = value
    return whole


BAD = {
    "no header": (spoilt("session", value=KeyError), "'session' is missing"),
    "no name": (spoilt("session", "name", value=KeyError), "'name' is missing in session"),
    "another version": (spoilt("session", "version", value=2), "version 2 is not known; this microveil reads 1"),
    "true is no version": (spoilt("session", "version", value=True), "session.version: "),
    "a key too many": (spoilt("session", "nme", value="x"), "no key 'nme' in session; did you mean 'name'"),
    "a key of a stimulus": (spoilt("stimuli", 1, "sim", value=1), r"no key 'sim' in stimuli 2 \('s1'\); did you mean"),
    "a stimulus lacks": (spoilt("stimuli", 1, "psnr", value=KeyError), r"'psnr' is missing in stimuli 2 \('s1'\)"),
    "no stimuli": (spoilt("stimuli", value=[]), "stimuli: has fewer entries than 1"),
    "ssim above 1": (spoilt("stimuli", 0, "ssim", value=1.5), r"stimuli 1 \('s0'\).ssim: "),
    "ssim as text": (spoilt("stimuli", 0, "ssim", value="0.5"), r"stimuli 1 \('s0'\).ssim: "),
    "ssim no number": (spoilt("stimuli", 0, "ssim", value=float("nan")), r"stimuli 1 \('s0'\).ssim: "),
    "psnr below 0": (spoilt("stimuli", 2, "psnr", value=-1.0), r"stimuli 3 \('s2'\).psnr: "),
    "psnr no number": (spoilt("stimuli", 2, "psnr", value=float("nan")), r"stimuli 3 \('s2'\).psnr: "),
    "removed by half": (spoilt("stimuli", 2, "removed", value=1.5), r"stimuli 3 \('s2'\).removed: "),
    "removed below 0": (spoilt("stimuli", 2, "removed", value=-1), r"stimuli 3 \('s2'\).removed: "),
    "hidden and changed": (spoilt("stimuli", 2, "hidden", value=True), r"stimuli 3 \('s2'\): a hidden reference"),
    "an empty id": (spoilt("stimuli", 0, "id", value=""), r"stimuli 1 \(''\).id: "),
    "an id of two lines": (spoilt("stimuli", 0, "id", value="a\nb"), r"stimuli 1 \('a\\nb'\).id: must be printable"),
    "a stimulus twice": (spoilt("stimuli", 1, "id", value="s0"), "stimulus 's0' is there twice"),
    "an observer twice": (spoilt("observers", 1, "id", value="observer-1"), "observer 'observer-1' is there twice"),
    "a side": (spoilt("observers", 1, "reference", 0, value="up"), r"observers 2 \('observer-2'\).reference 1: "),
    "an order": (spoilt("observers", 0, "order", 0, value="s9"), "observer 'observer-1': there is no stimulus 's9'"),
    "a short order": (spoilt("observers", 0, "order", value=["s0"]), "'observer-1': stimulus 's1' is not in the order"),
    "no sides": (spoilt("observers", 0, "reference", value=[]), "observer 'observer-1': 0 sides for 5 stimuli"),
    "an order of text": (spoilt("observers", 0, "order", value="s0"), r"observers 1 \('observer-1'\).order: "),
}  # fmt: skip


@pytest.mark.parametrize(("broken", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named(broken: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=f"^session: .*{message}") as told:
        mos.read_session(broken)
    assert told.value.__cause__ is None
    assert "\n" not in str(told.value)
    path = tmp_path / "session.toml"
    path.write_text(tomli_w.dumps(broken))
    with pytest.raises(FileError, match=f"session.toml' is no session file: .*{message}"):
        mos.read_session(path)


def test_a_stimulus_that_comes_twice_in_an_order_is_named() -> None:
    twice = content()
    order = twice["observers"][0]["order"]
    order[0] = order[1]
    with pytest.raises(ParameterError, match=f"observer 'observer-1': stimulus '{order[1]}' is there twice"):
        mos.read_session(twice)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[session\n", r"not valid TOML \(line 1\)"),
        (b"\xff\xfe", "not valid TOML"),
        (b"", "'session' is missing"),
        (b"x = " + 5000 * b"[", "not valid TOML"),
    ],
    ids=["syntax", "not text", "empty", "deep"],
)
def test_hostile_files(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "session.toml"
    path.write_bytes(text)
    with pytest.raises(FileError, match=message):
        mos.read_session(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path, Path("a\0b")):
        with pytest.raises(FileError):
            mos.read_session(path)


@pytest.mark.parametrize(
    ("stimuli", "people", "options", "message"),
    [
        ([], 5, {}, "stimuli: has fewer entries than 1"),
        ([{"id": "x"}], 5, {}, r"'source' is missing in stimuli 1 \('x'\)"),
        (["x"], 5, {}, "stimuli 1: "),
        (observers.stimuli(3), 0, {}, "^observers: "),
        (observers.stimuli(3), True, {}, "^observers: "),
        (observers.stimuli(3), 10**9, {}, "^observers: "),
        (observers.stimuli(3), 60_000, {}, "more than 100000 pairs"),
        (observers.stimuli(3), [], {}, "observers: has fewer entries than 1"),
        (observers.stimuli(3), ["a", "a"], {}, "observer 'a' is there twice"),
        (observers.stimuli(3), [1], {}, "observers 1.id: "),
        (observers.stimuli(3), 5, {"seed": -1}, "^seed: "),
        (observers.stimuli(3), 5, {"seed": True}, "^seed: "),
        (observers.stimuli(3), 5, {"name": ""}, "session.name: "),
        ([{**observers.stimuli(1)[0], "id": "a-reference"}], 5, {}, "'a-reference' is there twice"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_session_can_be_made_of(stimuli: Any, people: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MicroveilError, match=message):
        mos.make_session(stimuli, people, **options)


# --- Files to be shown


def test_files_of_a_pair_are_two_and_a_hidden_reference_has_the_original_twice(tmp_path: Path) -> None:
    figures = {"removed": 1, "ssim": 0.5, "psnr": 9.0}
    pair = {"id": "a-1", "source": "a", "original": "a.csv", "processed": "b.csv", **figures}
    made = mos.make_session([pair, {"id": "b-1", "source": "b", **figures}], 2, seed=1)
    files = {stimulus.id: (stimulus.original, stimulus.processed) for stimulus in made.stimuli}
    assert files == {
        "a-1": ("a.csv", "b.csv"),
        "b-1": (None, None),
        "a-reference": ("a.csv", "a.csv"),
        "b-reference": (None, None),
    }
    mos.write(made, tmp_path / "session.toml")
    assert mos.read_session(tmp_path / "session.toml") == made
    with pytest.raises(ParameterError, match="two files"):
        mos.make_session([{**pair, "processed": None}], 2)
