"""The regression family against RegSDC, the package of its author: the same results from the same draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.core.errors import DataError, ParameterError
from microveil.core.factor import completion, generalised_qr, generalised_svd
from microveil.decompose import fit_levels
from microveil.restore import new_residuals

Array = NDArray[np.float64]

GOLDEN = Path(__file__).parents[1] / "golden" / "regsdc"
CASES = {path.name[:4]: path for path in sorted(GOLDEN.glob("R*.json"))}
EXACT = 1e-10
"""Relative to the largest value of a column, as the golden values ask for."""


def golden(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CASES[case].read_text(encoding="utf-8"))
    return found


def matrix(rows: Any) -> Array | None:
    """A list of rows; what R has no number for comes as null."""
    return None if rows is None else np.array(rows, dtype=float)


def needed(rows: Any) -> Array:
    found = matrix(rows)
    assert found is not None
    return found


def cases(function: str, *, error: bool = False) -> list[str]:
    """The cases of a function; with an error, or without."""
    return [
        case for case in CASES if golden(case)["function"] == function and (golden(case)["error"] is not None) == error
    ]


def assert_same(ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape
    scale = np.abs(theirs).max(axis=0)
    assert (np.abs(ours - theirs).max(axis=0) <= EXACT * scale).all()


def by_svd(found: dict[str, Any]) -> str:
    return "svd" if found["inputs"].get("doSVD") or "doSVD=TRUE" in found["call"] else "qr"


def released(case: str, method: str, **options: Any) -> tuple[mv.Release, Array, Array]:
    """The release from the golden draws, its confidential columns, and what RegSDC gives."""
    found = golden(case)
    y, x = needed(found["inputs"]["y"]), matrix(found["inputs"].get("x"))
    data = y if x is None else np.hstack([y, x])
    width = y.shape[1]
    if found["random_draws"] is not None:
        options["draws"] = matrix(found["random_draws"])
    public = list(range(width, data.shape[1])) or None
    release = mv.protect(data, method, confidential=list(range(width)), public=public, rules=None, **options)
    return release, release.data[:, :width], needed(found["output"])


def one_or_all(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


# RegSDC deletes a component whose loadings sum to zero.
WRONG_THERE = {"R010", "R079"}


@pytest.mark.parametrize("case", [case for case in cases("GenQR") if case not in WRONG_THERE])
def test_the_decompositions_are_the_same(case: str) -> None:
    found = golden(case)
    x = needed(found["inputs"]["x"])
    ours = generalised_svd(x) if by_svd(found) == "svd" else generalised_qr(x)
    q = needed(found["output"]["Q"]).reshape(x.shape[0], -1)
    r = np.array(found["output"]["R"], dtype=float).reshape(-1, x.shape[1])
    assert ours.scores.shape == q.shape
    assert ours.loadings.shape == r.shape
    assert np.abs(ours.scores - q).max(initial=0.0) <= EXACT
    assert np.abs(ours.loadings - r).max(initial=0.0) <= EXACT * np.abs(r).max(initial=1.0)


def test_a_component_whose_loadings_sum_to_zero_is_not_lost() -> None:
    x = needed(golden("R010")["inputs"]["x"])
    ours = generalised_svd(x)
    assert ours.rank == 1
    assert np.abs(ours.scores @ ours.loadings - x).max() < 1e-12
    assert golden("R010")["invariants"]["max_abs_reconstruction"] > 1  # RegSDC's own result is not the matrix


@pytest.mark.parametrize("case", cases("FindAlpha") + cases("CalculateC"))
def test_alpha_and_what_completes_are_the_same(case: str) -> None:
    found = golden(case)
    a, b = needed(found["inputs"]["a"]), needed(found["inputs"]["b"])
    ours = completion(generalised_qr(a).loadings, generalised_qr(b).loadings)
    if found["function"] == "FindAlpha":
        assert ours.limit == pytest.approx(found["output"][0], rel=1e-9)
    else:
        assert ours.share == pytest.approx(found["alpha"], rel=1e-9)
        # By the size of the whole: where there is nearly nothing to complete, round-off is all that is left.
        gap = ours.matrix.T @ ours.matrix - needed(found["output"]).T @ needed(found["output"])
        assert np.abs(gap).max() <= EXACT * np.abs(a.T @ a).max()
    assert_same(ours.matrix.T @ ours.matrix + ours.share**2 * b.T @ b, a.T @ a)


# With one dimension of residuals records come back as they are or mirrored, and with none as they are: we refuse both.
REFUSED = {"R019", "R020"}
ONLY_INVARIANTS = {"R022"}


@pytest.mark.parametrize("case", [case for case in cases("RegSDCipso") if case not in REFUSED | ONLY_INVARIANTS])
def test_ipso_is_the_same(case: str) -> None:
    _, ours, theirs = released(case, "ipso")
    assert_same(ours, theirs)


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_would_release_records_as_they_are_is_refused(case: str) -> None:
    with pytest.raises(DataError, match="rows are too few"):
        released(case, "ipso")
    # The formula itself is theirs there, too.
    found = golden(case)
    y, x = needed(found["inputs"]["y"]), needed(found["inputs"]["x"])
    basis = generalised_qr(np.hstack([np.ones((len(y), 1)), x])).scores
    residuals = y - basis @ (basis.T @ y)
    residuals[:, np.linalg.norm(residuals, axis=0) < 1e-9 * np.linalg.norm(y, axis=0)] = 0.0
    old = generalised_qr(residuals)
    draws = np.empty((len(y), 0)) if found["random_draws"] is None else needed(found["random_draws"])
    new = generalised_qr(draws - basis @ (basis.T @ draws)).scores[:, : old.rank]
    assert_same(y - residuals + new @ old.loadings, needed(found["output"]))


def test_a_constant_column_is_met_by_its_invariants() -> None:
    y = needed(golden("R022")["inputs"]["y"])
    x = needed(golden("R022")["inputs"]["x"])
    _, ours, _ = released("R022", "ipso")
    constant = np.ptp(y, axis=0) == 0
    assert constant.any()
    assert np.array_equal(ours[:, constant], y[:, constant])
    assert_same(ours.T @ ours, y.T @ y)
    assert np.abs(x.T @ (ours - y)).max() <= 1e-10 * np.abs(x.T @ y).max()


@pytest.mark.parametrize("case", cases("RegSDCnew"))
def test_correcting_another_table_is_the_same(case: str) -> None:
    found = golden(case)
    other = needed(found["inputs"]["yNew"])
    _, ours, theirs = released(case, "correct", other=other, decomposition=by_svd(found))
    assert_same(ours, theirs)


@pytest.mark.parametrize("case", cases("RegSDCromm") + cases("RegSDCgen"))
def test_romm_is_the_same(case: str) -> None:
    found = golden(case)
    noise = float(found["inputs"]["lambda"])
    given = {"draws": needed(found["inputs"]["yNew"])} if "yNew" in found["inputs"] else {}
    _, ours, theirs = released(case, "romm", noise=noise, decomposition=by_svd(found), **given)
    assert_same(ours, theirs)


@pytest.mark.parametrize("case", cases("RegSDCadd"))
def test_mixing_and_adding_to_residuals_is_the_same(case: str) -> None:
    found = golden(case)
    if found["inputs"]["yStart"] is None:
        correlation = one_or_all(found["inputs"]["resCorr"])
        release, ours, theirs = released(case, "residual_mix", correlation=correlation)
    else:
        release, ours, theirs = released(case, "synthetic_addition", other=needed(found["inputs"]["yStart"]))
    assert_same(ours, theirs)
    assert release.found["alpha"] == pytest.approx(found["alpha"], rel=1e-9)
    assert any("alpha" in said for said in release.warnings) == (found["alpha"] < 1)


OUT_OF_RANGE = {"R073", "R074"}


@pytest.mark.parametrize("case", [case for case in cases("RegSDCcomp") if case not in WRONG_THERE | OUT_OF_RANGE])
def test_mixing_scores_is_the_same(case: str) -> None:
    found = golden(case)
    correlation = one_or_all(found["inputs"]["compCorr"])
    _, ours, theirs = released(case, "score_mix", correlation=correlation, decomposition=by_svd(found))
    assert_same(ours, theirs)


@pytest.mark.parametrize("case", sorted(OUT_OF_RANGE))
def test_a_correlation_out_of_range_is_refused(case: str) -> None:
    with pytest.raises(ParameterError, match="correlation: a correlation is at least 0 and at most 1"):
        released(case, "score_mix", correlation=golden(case)["inputs"]["compCorr"])


def test_two_standardised_columns_keep_both_components() -> None:
    y = needed(golden("R079")["inputs"]["y"])
    _, ours, theirs = released("R079", "score_mix", correlation=None, decomposition="svd")
    assert_same(ours.T @ ours, y.T @ y)
    assert np.abs(theirs.T @ theirs - y.T @ y).max() > 1  # RegSDC loses one here


@pytest.mark.parametrize("case", [*cases("RegSDCadd", error=True), *cases("RegSDCcomp", error=True)])
def test_too_few_rows_are_refused_there_and_here(case: str) -> None:
    method = "residual_mix" if golden(case)["function"] == "RegSDCadd" else "score_mix"
    with pytest.raises(DataError, match=r"6 rows are too few for 3 fresh scores beside 3 kept ones.*at least 8"):
        released(case, method, correlation=0.3)


def test_another_table_with_too_few_columns_is_refused_there_and_here() -> None:
    assert cases("RegSDCnew", error=True) == ["R028"]
    found = golden("R028")["inputs"]
    y = pd.DataFrame(found["y"], columns=["a", "b", "c"])
    other = pd.DataFrame(found["yNew"], columns=["a", "b"])
    with pytest.raises(DataError, match="other: has no column 'c'"):
        mv.protect(y, "correct", other=other)


# The names that RegSDChybrid has for what our parameters say.
GROUPS = {"clusters": "clusters", "clusterPieces": "pieces", "groupedClusters": "groups"}
REGRESSORS = {
    "xLocal": "local",
    "xGlobal": "global_",
    "xClusterPieces": "local_pieces",
    "xGroupedClusters": "grouped",
}


@pytest.mark.parametrize("case", cases("RegSDChybrid"))
def test_the_cluster_hybrid_is_the_same(case: str) -> None:
    given = golden(case)["inputs"]
    y = needed(given["y"])
    names = [f"y{j}" for j in range(y.shape[1])]
    frame = pd.DataFrame(y, columns=names)
    options: dict[str, Any] = {"draws": needed(given["ySim"])}
    for theirs, ours in GROUPS.items():
        if given.get(theirs) is not None:
            frame[f"by {ours}"] = [str(label) for label in given[theirs]]
            options[ours] = f"by {ours}"
    for theirs, ours in REGRESSORS.items():
        if given.get(theirs) is not None:
            x = needed(given[theirs])
            options[ours] = [f"{ours} {j}" for j in range(x.shape[1])]
            frame[options[ours]] = x
    options["modification"] = one_or_all(given.get("alternative") or [None])
    options["alpha"] = given.get("alpha")
    release = mv.protect(frame, "cluster_hybrid", confidential=names, rules=None, **options)
    assert_same(release.data[names].to_numpy(), needed(golden(case)["invariants"]["ystar"]))
    assert release.data[[name for name in frame if name not in names]].equals(frame.drop(columns=names))


@pytest.mark.parametrize("case", cases("RegSDChybrid"))
def test_the_parts_of_the_cluster_hybrid_are_the_same(case: str) -> None:
    """Cases without pieces and groups: the split and the new residuals part by part."""
    found = golden(case)
    given = found["inputs"]
    if given.get("clusterPieces") is not None or given.get("groupedClusters") is not None:
        return
    y, drawn = needed(given["y"]), needed(given["ySim"])
    labels = np.array(given.get("clusters") or ["all"] * len(y), dtype=str)
    clusters = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    empty = np.empty((len(y), 0))
    local, across = (empty if given.get(name) is None else needed(given[name]) for name in ("xLocal", "xGlobal"))
    levels = fit_levels(clusters, local, across)
    own, new = levels.split(y), levels.split(drawn)
    modification = "c" if given.get("alpha") is not None else one_or_all(given.get("alternative") or [None])
    residuals = new_residuals(
        clusters, own.between, own.within, new.between, new.within, modification, given.get("alpha")
    )
    parts = {
        "y1": own.fit_within,
        "y2": own.fit_across,
        "e3": own.between,
        "e4": own.within,
        "e3s": residuals.between,
        "e4s": residuals.within,
    }
    scale = np.abs(y).max()
    for name, part in parts.items():
        assert np.abs(part - needed(found["output"][name])).max() <= EXACT * scale, name


def test_every_golden_case_is_tested() -> None:
    tested = {"GenQR", "FindAlpha", "CalculateC", "RegSDCipso", "RegSDCnew", "RegSDCromm", "RegSDCgen", "RegSDCadd"}
    assert {golden(case)["function"] for case in CASES} == tested | {"RegSDCcomp", "RegSDChybrid"}
    assert len(CASES) == 72
