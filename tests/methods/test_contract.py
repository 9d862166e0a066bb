"""What every method promises, whatever it does: run over all methods and all perturbations."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from contract_samples import NAMES, WEIRD_SEED, every_pair, every_random_pair, release_of, table
from numpy.typing import NDArray

import microveil as mv
from microveil.core.errors import DataError, ParameterError
from microveil.perturb import PERTURBATIONS

Array = NDArray[np.float64]


def cells(data: Any) -> Array:
    """The numbers of a frame of any kind, as one array."""
    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, pa.Table):
        return np.column_stack([column.to_numpy() for column in data.columns])
    return np.asarray(data.to_numpy(), dtype=float)


KINDS: dict[str, Callable[[Array], Any]] = {
    "numpy": lambda values: values,
    "pandas": lambda values: pd.DataFrame(values, columns=NAMES),
    "polars": lambda values: pl.DataFrame(values, schema=NAMES),
    "arrow": lambda values: pa.table(dict(zip(NAMES, values.T, strict=True))),
}
LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "columns along memory": np.asfortranarray,
    "every other row": lambda values: np.repeat(values, 2, axis=0)[::2],
    "every other column": lambda values: np.repeat(values, 2, axis=1)[:, ::2],
    "backwards": lambda values: values[::-1, ::-1].copy()[::-1, ::-1],
    "other byte order": lambda values: values.astype(values.dtype.newbyteorder()),
    "unaligned": lambda values: np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:].view(float).reshape(values.shape),
}


# --- The same kind of table comes back


@every_pair
@pytest.mark.parametrize("kind", KINDS)
def test_kind_shape_and_columns_come_back(method: str, perturb: str, kind: str) -> None:
    data = KINDS[kind](table())
    out = release_of(data, method, perturb, seed=1).data
    assert type(out) is type(data)
    assert out.shape == data.shape
    if kind != "numpy":
        assert list(getattr(out, "column_names", out.columns)) == list(getattr(data, "column_names", data.columns))
    assert np.isfinite(cells(out)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_row_order_comes_back(kind: str) -> None:
    values = table()
    out = cells(release_of(KINDS[kind](values), perturb="noise", noise_sd_ratio=0.001, seed=1).data)
    # A thousandth of noise moves no cell by a hundredth of a standard deviation, unless rows were mixed up.
    assert np.abs((out - values) / values.std(axis=0)).max() <= 0.01
    assert (out != values).all()


def test_pandas_other_columns_their_order_and_a_kept_index_come_back() -> None:
    frame = pd.DataFrame(table(), columns=NAMES, index=pd.Index(["same"] * 60 + ["other"] * 60, name="who"))
    frame.insert(1, "text", [f"t{i}" for i in range(120)])
    frame["flag"] = np.arange(120) % 3 == 0
    frame["day"] = pd.date_range("2020-01-01", periods=120)
    out = release_of(frame, keep=["who", "text", "flag", "day"], seed=1).data
    assert list(out.columns) == list(frame.columns)
    pd.testing.assert_index_equal(out.index, frame.index)
    pd.testing.assert_frame_equal(out[["text", "flag", "day"]], frame[["text", "flag", "day"]])
    assert (out[NAMES] != frame[NAMES]).to_numpy().mean() > 0.95


def test_polars_text_dates_and_truth_values_come_back() -> None:
    frame = (
        pl.DataFrame(table(), schema=NAMES)
        .with_row_index("row")
        .with_columns(
            text=pl.col("row").cast(pl.String), flag=pl.col("row") % 2 == 0, day=pl.lit("2020-01-01").str.to_date()
        )
    )
    out = release_of(frame, confidential=NAMES, keep=["row", "text"], seed=1).data
    assert out.columns == frame.columns
    assert out.drop(NAMES).equals(frame.drop(NAMES))


@pytest.mark.parametrize("dtype", ["float32", "float64", "Float32", "Float64", "int64", "Int64", "uint8", "int16"])
def test_columns_of_any_numeric_type_are_protected(dtype: str) -> None:
    values = np.round(20 * table() + 50) if "int" in dtype.lower() else table()
    frame = pd.DataFrame(np.clip(values, 0, 255), columns=NAMES).astype(dtype)
    release = release_of(frame, seed=1)
    # A float stays what it is; whole numbers become double precision, and the release says so.
    expected = dtype if "float" in dtype.lower() else ("Float64" if dtype == "Int64" else "float64")
    assert {str(found) for found in release.data.dtypes} == {expected}
    assert any("decimals" in warning for warning in release.warnings) == ("int" in dtype.lower())


def test_confidential_columns_alone_are_changed() -> None:
    data = table(columns=6)
    out = release_of(data, confidential=[4, 1, 2], seed=1).data
    assert (out[:, [0, 3, 5]] == data[:, [0, 3, 5]]).all()
    assert (out[:, [1, 2, 4]] != data[:, [1, 2, 4]]).all()


@every_pair
@pytest.mark.parametrize("kind", KINDS)
def test_input_is_untouched(method: str, perturb: str, kind: str) -> None:
    values = table()
    data, before = KINDS[kind](values), table().tobytes()
    out = release_of(data, method, perturb, seed=1).data
    assert np.ascontiguousarray(cells(data)).tobytes() == before
    if kind == "numpy":
        assert not np.shares_memory(out, data)


@every_pair
def test_read_only_input_is_accepted_and_the_release_is_writable(method: str, perturb: str) -> None:
    data = table()
    data.flags.writeable = False
    out = release_of(data, method, perturb, seed=1).data
    out[0, 0] = 1.0


# --- Seeds


@pytest.mark.quick("*swap", "*noise", "*redraw", "*microaggregate")
@every_pair
@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_gives_the_same_bytes(method: str, perturb: str, kind: str) -> None:
    first = cells(release_of(KINDS[kind](table()), method, perturb, seed=5).data)
    second = cells(release_of(KINDS[kind](table()), method, perturb, seed=5).data)
    assert first.tobytes() == second.tobytes()


@pytest.mark.quick("*-120")
@pytest.mark.parametrize("rows", [120, 20_000])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "numpy"])
def test_same_seed_gives_the_same_bytes_in_every_kind_of_frame(kind: str, rows: int) -> None:
    data = table(rows=rows)
    expected = release_of(data, seed=5, rules=None).data
    found = cells(release_of(KINDS[kind](data), seed=5, rules=None).data)
    assert (found == expected).all()


@pytest.mark.quick("*-120")
@pytest.mark.parametrize("rows", [120, 20_000])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_same_seed_gives_the_same_bytes_in_every_memory_layout(layout: str, rows: int) -> None:
    data = table(rows=rows)
    other = LAYOUTS[layout](data)
    assert (other == data).all()
    assert (release_of(other, seed=5).data == release_of(data, seed=5).data).all()


@every_random_pair
def test_different_seeds_give_different_releases(method: str, perturb: str) -> None:
    releases = [release_of(table(), method, perturb, seed=seed).data for seed in (0, 1, 2**64, 2**64 + 1)]
    for i, one in enumerate(releases):
        for other in releases[:i]:
            assert (one != other).mean() > 0.9


@every_random_pair
def test_without_a_seed_two_runs_differ(method: str, perturb: str) -> None:
    first, second = (release_of(table(), method, perturb) for _ in range(2))
    assert (first.data != second.data).mean() > 0.9
    assert first.seed != second.seed


@every_pair
def test_numpy_integers_are_seeds(method: str, perturb: str) -> None:
    plain, numpy = (release_of(table(), method, perturb, seed=seed).data for seed in (7, np.int64(7)))
    assert (plain == numpy).all()


@every_pair
def test_seed_appears_nowhere_but_in_the_recipe_that_asks_for_it(
    method: str, perturb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    release = release_of(
        table(),
        method,
        perturb,
        seed=WEIRD_SEED,
        components=[0],
        progress=lambda step, done: told.append(f"{step}{done}"),
    )
    public = [repr(release), str(release), json.dumps(release.recipe()), *release.warnings, *release.rules, *told]
    public += [repr(release.kept), repr(release.dose), repr(release.components), *capfd.readouterr()]
    for text in public:
        assert str(WEIRD_SEED) not in text
        assert f"{WEIRD_SEED:x}" not in text
        assert f"{float(WEIRD_SEED)!r}" not in text
    assert "seed" not in release.recipe()
    assert release.recipe(include_seed=True)["seed"] == WEIRD_SEED


def test_errors_tell_neither_seed_nor_data() -> None:
    secret = 123_456_789.125
    broken = table()
    broken[3, 1] = secret
    calls: list[Callable[[], Any]] = [
        lambda: release_of(broken, seed=WEIRD_SEED, components=99),
        lambda: release_of(broken, seed=WEIRD_SEED, perturb="noise", noise_sd_ratio=-1),
        lambda: release_of(np.where(np.arange(480).reshape(120, 4) == 0, np.inf, broken), seed=WEIRD_SEED),
        lambda: release_of(broken[:2], seed=WEIRD_SEED),
        lambda: release_of(broken, seed=-WEIRD_SEED),
        lambda: release_of(broken, seed=WEIRD_SEED, permutations=np.zeros((120, 4), dtype=int)),
        lambda: release_of(broken, seed=WEIRD_SEED, rules={"sums": [{"total": "0", "parts": ["1", "2"]}]}),
    ]
    for call in calls:
        with pytest.raises((DataError, ParameterError)) as caught:
            call()
        text = str(caught.value) + repr(caught.value)
        assert str(WEIRD_SEED) not in text
        assert str(secret) not in text
        assert "\n" not in str(caught.value)


# --- Recipes


def replayed(data: Any, recipe: dict[str, Any]) -> mv.Release:
    """A release from a recipe that has been through JSON, as it would be in a file."""
    recipe = json.loads(json.dumps(recipe))
    parameters = recipe.pop("parameters")
    method = recipe.pop("method")
    assert recipe.pop("recipe") == 2
    return mv.protect(data, method, **recipe, **parameters)


@pytest.mark.quick("*swap", "*noise", "*redraw", "*microaggregate")
@every_pair
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"components": [2, 0], "exact": False},
        {"components": 2, "standardise": False},
        {"components": "sensitive", "sensitive": ["tax"], "sensitive_share": 0.5},
        {"public": ["debt"]},
        {"strata": ["group"], "weight": "debt"},
        {"confidential": ["assets", "income"], "rules": None},
        {"rules": {"columns": {"tax": {"special_codes": [-9]}}}},
    ],
    ids=lambda options: ",".join(options) or "defaults",
)
def test_recipe_with_seed_replays_to_the_same_bytes(method: str, perturb: str, options: dict[str, Any]) -> None:
    frame = pd.DataFrame(np.abs(table()) + 1, columns=NAMES)
    frame.loc[3:9, "tax"] = -9.0
    frame["group"] = np.repeat(["a", "b"], 60)
    release = release_of(frame, method, perturb, seed=WEIRD_SEED, keep="rest", **options)
    again = replayed(frame, release.recipe(include_seed=True))
    pd.testing.assert_frame_equal(again.data, release.data, check_exact=True)
    assert again.recipe() == release.recipe()


@every_random_pair
def test_recipe_of_an_unseeded_release_replays_it_with_its_seed_only(method: str, perturb: str) -> None:
    data = table()
    release = release_of(data, method, perturb)
    assert (replayed(data, release.recipe(include_seed=True)).data == release.data).all()
    assert (replayed(data, release.recipe()).data != release.data).mean() > 0.9


def test_recipe_holds_no_permutations_and_no_draws() -> None:
    order = np.column_stack([np.random.default_rng(j).permutation(120) for j in range(4)])
    swapped = release_of(table(), permutations=order, seed=1)
    drawn = release_of(table(), perturb="normal", draws=np.random.default_rng(1).standard_normal((120, 4)), seed=1)
    for release in (swapped, drawn):
        assert not {"permutations", "draws"} & release.recipe(include_seed=True)["parameters"].keys()
        assert not {"permutations", "draws"} & release.recipe(include_seed=True).keys()


# --- What a release is called, and how much it changed


@every_pair
def test_kind_is_masked_hybrid_or_synthetic_as_the_perturbation_says(method: str, perturb: str) -> None:
    whole = release_of(table(), method, perturb, seed=1).release_type
    part = release_of(table(), method, perturb, seed=1, components=[0]).release_type
    masking = perturb in (
        "swap",
        "noise",
        "correlated_noise",
        "rank_swap",
        "shuffle",
        "microaggregate",
        "microaggregate_noise",
    )
    assert (whole, part) == (("masked", "masked") if masking else ("synthetic", "hybrid"))


@every_pair
def test_dose_is_within_range_and_measures_the_release(method: str, perturb: str) -> None:
    data = table()
    for options in ({}, {"components": [0]}, {"components": [3], "exact": False}, {"public": [0]}):
        release = release_of(data, method, perturb, seed=1, **options)
        for name, dose in release.dose.items():
            before, after = data[:, int(name)], release.data[:, int(name)]
            assert dose.asked is None or 0 <= dose.asked <= 1
            assert 0 <= dose.achieved <= 2
            assert 0 <= dose.cells_changed <= 1
            assert dose.achieved == pytest.approx(1 - np.corrcoef(before, after)[0, 1], abs=1e-12)
            assert dose.cells_changed == np.mean(np.abs(before - after) > 1e-9 * before.std())
        assert list(release.dose) == [str(j) for j in range(4) if [j] != options.get("public")]


@pytest.mark.quick("pca-swap")
@every_pair
def test_dose_asked_is_met_on_average(method: str, perturb: str) -> None:
    data, options = table(rows=4000), {"components": [0, 1], "exact": False}
    releases = [release_of(data, method, perturb, seed=seed, **options) for seed in range(3)]
    for name in releases[0].dose:
        asked = [release.dose[name].asked for release in releases]
        assert (asked[0] is None) == (PERTURBATIONS[perturb]().retained() is None)
        if asked[0] is None:
            continue
        achieved = np.mean([release.dose[name].achieved for release in releases])
        # A correlation has a standard error of at most 1 / sqrt(n); redraw adds a little variance on top.
        assert achieved == pytest.approx(asked[0], abs=4 / np.sqrt(3 * 4000))
        assert len(set(asked)) == 1


@every_pair
def test_untouched_components_are_warned_of_and_only_then(method: str, perturb: str) -> None:
    assert not any("untouched" in w for w in release_of(table(), method, perturb, seed=1).warnings)
    warned = release_of(table(), method, perturb, seed=1, components=3).warnings
    assert any(warning.startswith("1 of 4 components are untouched") for warning in warned)


@every_pair
def test_kept_promises_what_the_perturbation_can_keep(method: str, perturb: str) -> None:
    exact = release_of(table(), method, perturb, seed=1).kept
    assert set(exact) == {"mean", "covariance"}
    assert max(exact.values()) <= 1e-12
    loose = release_of(table(), method, perturb, seed=1, exact=False).kept
    assert set(loose) == ({"mean"} if PERTURBATIONS[perturb].keeps_mean else set())
    assert max(loose.values(), default=0) <= 1e-12


@every_pair
def test_output_is_finite_on_hostile_data(method: str, perturb: str) -> None:
    rng = np.random.default_rng(2)
    base = table(rows=60)
    hostile = {
        "huge": base * 1e140,
        "tiny": base * 1e-140,
        "mixed units": base * [1e100, 1e-100, 1, 1e50],
        "spikes": np.where(rng.random(base.shape) < 0.9, 0.0, base),
        "one record away": np.vstack([base, [[1e9] * 4]]),
        "twins": np.column_stack([base, base]),
        "two values": rng.integers(0, 2, (60, 4)).astype(float),
        "three rows": base[:3],
    }
    if perturb == "microaggregate":
        del hostile["three rows"]  # one group: nothing is left of the covariances that are to be exact
    for name, data in hostile.items():
        release = release_of(data, method, perturb, seed=3, rules=None)
        assert np.isfinite(release.data).all(), name
        assert all(np.isfinite(error) for error in release.kept.values()), name


# --- Threads

BYTES = """
import hashlib
import numpy as np
import microveil as mv

def table(rows, columns):
    rng = np.random.default_rng(rows)
    return rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns)) + 10

def show(label, data, method="pca", **options):
    out = mv.protect(data, method, seed=11, rules=None, **options).data
    print(label, hashlib.sha256(np.ascontiguousarray(out).tobytes()).hexdigest())

for rows, columns in ((1000, 6), (150_000, 4)):
    for perturb in PERTURBATIONS:
        families = {"families": ["normal", "laplace"]} if perturb == "parametric" else {}
        show(f"{perturb} {rows}", table(rows, columns), perturb=perturb, **families)
for method, rows in (("pca", 20_000), ("veil", 2_000)):  # exchanges take their time
    holes = table(rows, 5)
    holes[np.random.default_rng(1).random(holes.shape) < 0.02] = np.nan
    show(f"{method} holes", holes, method)
    groups = np.column_stack([table(rows, 4), np.arange(rows) % 3, 1 + np.arange(rows) % 7])
    show(f"{method} strata and weights", groups, method, strata=4, weight=5)
    show(f"{method} public", table(rows, 6), method, public=[0, 1])
show("veil in many pieces", table(60_000, 4), "veil")
"""


@pytest.mark.slow
def test_threads_do_not_change_a_byte() -> None:
    script = f"PERTURBATIONS = {list(PERTURBATIONS)!r}\n{BYTES}"
    settings = [("1", "1"), ("2", "4"), ("3", "2")]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, "MICROVEIL_THREADS": ours, "OPENBLAS_NUM_THREADS": blas, "OMP_NUM_THREADS": blas},
            stdout=subprocess.PIPE,
            text=True,
        )
        for ours, blas in settings
    ]
    try:
        told = [process.communicate(timeout=300)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(told[0].splitlines()) == 2 * len(PERTURBATIONS) + 7
    assert told[1] == told[0]
    assert told[2] == told[0]


def test_thread_count_must_be_a_whole_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("0", "-2", "two", "1.5"):
        monkeypatch.setenv("MICROVEIL_THREADS", value)
        with pytest.raises(ParameterError, match="MICROVEIL_THREADS"):
            release_of(table(), seed=1)


def test_thread_count_in_one_process_does_not_change_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    data, seen = table(rows=50_000), set()
    for workers in ("1", "2", "5"):
        monkeypatch.setenv("MICROVEIL_THREADS", workers)
        seen.add(hashlib.sha256(release_of(data, seed=3).data.tobytes()).hexdigest())
    assert len(seen) == 1
