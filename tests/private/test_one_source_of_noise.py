"""OpenDP is the only source of noise: without its noise exact sums come out, and no other draw comes before it."""

import ast
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import microveil as mv
from microveil.core.rng import Streams
from microveil.io.frames.dataframes import open_frame
from microveil.private import distributions, mechanism
from microveil.private.distributions import Scale
from microveil.private.mechanism import Account
from microveil.private.moments import MomentGroup
from microveil.private.targets import Records, measured
from microveil.protection import privately

ROOM = Path(mechanism.__file__).parent
MEASURING = [*sorted(ROOM.glob("*.py")), Path(privately.__file__)]
AFTER_THE_NOISE = {"distributions.py": "drawn"}
"""A function that may draw, as it has noisy answers only."""

DRAWS = {name for name in dir(np.random.Generator) if not name.startswith("_")}
DRAWS |= {"default_rng", "RandomState", "SeedSequence", "urandom", "rvs", "getrandbits", "gauss", "randint", "uniform"}
SOURCES = {"random", "scipy", "torch", "numba", "os", "uuid"}


def draws_in(source: str, allowed: str = "") -> list[str]:
    """Calls in a source that draw at random, and modules in it that could, but for one function."""
    tree = ast.parse(source)
    inside = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == allowed]
    apart = {id(node) for function in inside for node in ast.walk(function)}
    found = []
    for node in (node for node in ast.walk(tree) if id(node) not in apart):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found += [name] if name in DRAWS else []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [name for name in names if name.split(".")[0] in SOURCES or name.startswith("numpy.random")]
    return found


@pytest.mark.parametrize("file", MEASURING, ids=lambda file: file.name)
def test_nothing_is_drawn_before_the_noise(file):
    if file.name == "arrangement.py":  # all of it comes after: it is given no records
        assert not {"Records", "Frame", "Account"} & {
            getattr(n, "id", "") for n in ast.walk(ast.parse(file.read_text()))
        }
        return
    assert draws_in(file.read_text(), AFTER_THE_NOISE.get(file.name, "")) == []


PLANTED = [
    "import random\n",
    "from numpy.random import default_rng\n",
    "answers = answers + np.random.normal(0, sd, answers.size)\n",
    "def f(rng):\n    return exact + rng.integers(-3, 3, exact.size)\n",
    "noise = np.random.default_rng().laplace(size=3)\n",
    "from scipy import stats\n",
]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_draw_is_found(planted):
    assert draws_in((ROOM / "targets.py").read_text() + planted)


@pytest.fixture
def silent(monkeypatch):
    """OpenDP without its noise, but with its costs; what it was given, in order."""
    given, dp = [], mechanism._opendp()

    def make_gaussian(*args, **options):
        real = dp.m.make_gaussian(*args, **options)

        class Silent:
            map = staticmethod(real.map)

            def __call__(self, exact):
                given.append(list(exact))
                return exact

        return Silent()

    parts = {name: getattr(dp, name) for name in ("vector_domain", "atom_domain", "l2_distance")}
    quiet = SimpleNamespace(**parts, m=SimpleNamespace(make_gaussian=make_gaussian))
    conversion = mechanism.largest_rho(1.0, 1e-6)
    monkeypatch.setattr(mechanism, "_opendp", lambda: quiet)
    monkeypatch.setattr(mechanism, "largest_rho", lambda *_: conversion)
    return given


def _records(rows=3_000):
    rng, scale = np.random.default_rng(3), Scale(0.0, 200.0, 0.01)
    common = rng.normal(100, 20, rows)
    values = {"a": common, "b": common + rng.normal(0, 0.3, rows), "c": np.where(common > 90, np.nan, 0.0)}
    amounts = {name: (scale, scale.cells_of(own)) for name, own in values.items()}
    return Records(rows, amounts, {"d": (3, rng.integers(-1, 3, rows)), "e": (2, rng.integers(0, 2, rows))})


def _check_all_exact(monkeypatch, given, account):
    """What is counted and summed over the records is what each answer has, to the last number."""
    sums, answers = [], []
    counts, moments, noisy = distributions._counts, MomentGroup.exact, type(account).noisy
    monkeypatch.setattr(distributions, "_counts", lambda *asked: sums.append(counts(*asked)) or sums[-1])
    monkeypatch.setattr(MomentGroup, "exact", lambda self: sums.append(moments(self)) or sums[-1])
    monkeypatch.setattr(type(account), "noisy", lambda *asked: answers.append(noisy(*asked)) or answers[-1])
    records = _records()
    measured(records, account)
    assert len(given) == len(answers) == len(account.entries)  # nothing is answered by another way
    assert [list(map(int, answer)) for answer in answers] == given
    shares = [[np.count_nonzero(codes == k) for k in range(size)] for size, codes in records.categories.values()]
    assert sorted(given) == sorted([[records.rows], *shares, *map(list, sums)])


def test_without_the_noise_of_opendp_every_answer_is_exact(monkeypatch, silent):
    _check_all_exact(monkeypatch, silent, Account(1.0, 1e-6))


class _WithOwnNoise(Account):
    """Noise of another source, besides."""

    def noisy(self, query, exact, *more):
        return super().noisy(query, exact, *more) + np.random.default_rng(1).integers(0, 2, exact.size)


class _NoisyBefore(Account):
    """Something is added before."""

    def noisy(self, query, exact, *more):
        return super().noisy(query, exact + 1, *more)


class _BesideTheDoor(Account):
    """An answer that OpenDP has not seen."""

    def noisy(self, query, exact, *more):
        return exact.astype(float) if query.startswith("two-way") else super().noisy(query, exact, *more)


@pytest.mark.parametrize("broken", [_WithOwnNoise, _NoisyBefore, _BesideTheDoor])
def test_other_noise_and_other_doors_are_found(monkeypatch, silent, broken):
    with pytest.raises(AssertionError):
        _check_all_exact(monkeypatch, silent, broken(1.0, 1e-6))


def test_without_the_noise_of_opendp_a_release_is_the_same_each_time(monkeypatch, silent):
    monkeypatch.setattr(Streams, "from_seed", classmethod(lambda cls, *_: cls(7)))
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(50, 9, 500), "c": rng.choice(["u", "v"], 500), "unit": np.arange(500) // 2})
    asked = {"epsilon": 1.0, "bounds": {"x": (0, 100, 1)}, "levels": {"c": ["u", "v"]}}
    for more in ({"drop": "unit"}, {"unit": "unit", "rows_per_unit": 2}):
        one, other = (mv.protect(table, **asked, **more).data for _ in range(2))
        pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("salt", [b"a", b"b"])
def test_which_rows_of_a_unit_are_used_does_not_depend_on_other_units(monkeypatch, salt):
    monkeypatch.setattr(privately.secrets, "token_bytes", lambda _: salt)
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 40, 400)
    for gone in range(40):
        rest = np.flatnonzero(labels != gone)
        whole, less = (
            privately._rows_of_units(open_frame(pd.DataFrame({"unit": labels[rows]})), "unit", 3)[0]
            for rows in (np.arange(400), rest)
        )
        assert set(rest[less]) == set(whole[labels[whole] != gone])
        assert np.unique(labels[whole], return_counts=True)[1].max() == 3
