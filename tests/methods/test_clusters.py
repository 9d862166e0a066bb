"""What clusters keep, each and all together (Langsrud 2019, §6): every variant and modification."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cluster_tables import COLUMNS, firms, released
from numpy.typing import NDArray

import microveil as mv
from microveil.core.errors import DataError

Array = NDArray[np.float64]

EXACT = 1e-11


def design(frame: pd.DataFrame, *parts: Any) -> Array:
    """Columns of numbers, indicators of labels, and products (label, number)."""
    columns: list[Array] = []
    for part in parts:
        if isinstance(part, tuple):
            label, number = part
            marks = pd.get_dummies(frame[label]).to_numpy(dtype=float)
            columns.append(marks * frame[[number]].to_numpy())
        elif frame[part].dtype.kind == "f":
            columns.append(frame[[part]].to_numpy())
        else:
            columns.append(pd.get_dummies(frame[part]).to_numpy(dtype=float))
    return np.hstack([np.ones((len(frame), 1)), *columns])


def assert_kept(x: Array, old: Array, new: Array) -> None:
    """X'Y, over the norms of both."""
    norms = np.outer(np.linalg.norm(x, axis=0), np.linalg.norm(old, axis=0))
    assert (np.abs(x.T @ (new - old)) / norms).max() <= EXACT


def assert_not_kept(x: Array, old: Array, new: Array) -> None:
    norms = np.outer(np.linalg.norm(x, axis=0), np.linalg.norm(old, axis=0))
    assert (np.abs(x.T @ (new - old)) / norms).max() > 1e-4


def products(values: Array) -> Array:
    return values.T @ values


def assert_same_products(old: Array, new: Array) -> None:
    scale = np.sqrt(np.outer(np.diagonal(products(old)), np.diagonal(products(old))))
    assert (np.abs(products(new) - products(old)) / scale).max() <= EXACT


def left(x: Array, values: Array) -> Array:
    """What a regression leaves."""
    basis, size, _ = np.linalg.svd(x, full_matrices=False)
    basis = basis[:, size > 1e-10 * size[0]]
    return values - basis @ (basis.T @ values)


def inside(frame: pd.DataFrame) -> list[NDArray[np.intp]]:
    return [np.flatnonzero(frame["cluster"] == label) for label in sorted(frame["cluster"].unique())]


def test_mha_keeps_fits_and_covariances_inside_each_cluster() -> None:
    frame = firms()
    release, old, new = released(frame, "microhybrid", clusters="cluster", public="size")
    assert_same_products(old, new)
    for rows in inside(frame):
        assert_kept(design(frame.iloc[rows], "size"), old[rows], new[rows])
        assert_same_products(old[rows], new[rows])
    assert release.kept["mean in clusters"] <= EXACT
    assert release.kept["covariance in clusters"] <= EXACT
    assert release.release_type == "hybrid"


def test_mha_is_ipso_in_every_stratum() -> None:
    frame = firms()
    frame = frame.sort_values("cluster", ignore_index=True)
    draws = np.random.default_rng(3).standard_normal((len(frame), 3))
    _, _, new = released(frame, "microhybrid", clusters="cluster", public="size", draws=draws)
    for rows in inside(frame):
        part = frame.iloc[rows].reset_index(drop=True)
        _, _, alone = released(part, "ipso", public="size", draws=draws[rows])
        assert np.abs(alone - new[rows]).max() <= 1e-10


def test_mhb_keeps_sums_of_clusters_but_covariances_over_all_only() -> None:
    frame = firms()
    release, old, new = released(frame, "microhybrid", variant="b", clusters="cluster", public="size")
    assert_kept(design(frame, "cluster", "size"), old, new)
    assert_same_products(old, new)
    gaps = [np.abs(np.cov(new[rows].T) - np.cov(old[rows].T)).max() for rows in inside(frame)]
    assert min(gaps) > 1e-3
    assert release.kept["mean in clusters"] <= EXACT
    assert "covariance in clusters" not in release.kept


def test_the_main_algorithm_keeps_global_slopes_over_all_records_only() -> None:
    frame = firms()
    _, old, new = released(frame, clusters="cluster", local="age", global_="size")
    assert_kept(design(frame, "cluster", ("cluster", "age"), "size"), old, new)
    assert_not_kept(design(frame, ("cluster", "size")), old, new)
    assert_same_products(old, new)
    for rows in inside(frame):
        part = frame.iloc[rows]
        # What is left by slopes of its own is kept in each cluster; what they add, over all.
        assert_same_products(left(design(part, "age", "size"), old[rows]), left(design(part, "age", "size"), new[rows]))


def test_modification_a_gives_all_clusters_the_global_slope_and_their_covariances() -> None:
    frame = firms()
    release, old, new = released(frame, clusters="cluster", local="age", global_="size", modification="a")
    whole = design(frame, "cluster", ("cluster", "age"), "size")
    assert_kept(whole, old, new)
    assert_residual_products_in_clusters(frame, whole, old, new)
    slopes = []
    for rows in inside(frame):
        x = design(frame.iloc[rows], "age", "size")
        slopes.append(np.linalg.lstsq(x, new[rows], rcond=None)[0][-1])
    assert np.ptp(np.array(slopes), axis=0).max() <= 1e-10
    assert release.found["alpha"] == 0


def assert_residual_products_in_clusters(frame: pd.DataFrame, whole: Array, old: Array, new: Array) -> None:
    """E'E in each cluster, E being what the regressions over all records leave: what a, b and c promise."""
    residuals_old, residuals_new = left(whole, old), left(whole, new)
    for rows in inside(frame):
        assert_same_products(residuals_old[rows], residuals_new[rows])


def test_modification_b_keeps_what_was_drawn_between_clusters_or_is_refused() -> None:
    frame = firms()
    given: dict[str, Any] = {"clusters": "cluster", "local": "age", "global_": "size", "modification": "b"}
    whole = design(frame, "cluster", ("cluster", "age"), "size")
    solved, refused = 0, []
    for seed in range(12):
        try:
            release, old, new = released(frame, seed=seed, **given)
        except DataError as error:
            refused.append(str(error))
            continue
        solved += 1
        assert release.found["alpha"] == 1
        assert release.found["alpha_limit"] >= 1
        assert_kept(whole, old, new)
        assert_residual_products_in_clusters(frame, whole, old, new)
    assert solved + len(refused) == 12
    for message in refused:
        assert "there are no residuals with alpha = 1; the limit is" in message
        assert "use modification='c'" in message


@pytest.mark.parametrize("rows", [72, 120, 600])
def test_modification_c_takes_as_much_as_all_clusters_have_room_for(rows: int) -> None:
    frame = firms(rows=rows)
    whole = design(frame, "cluster", "size")
    release, old, new = released(frame, clusters="cluster", global_="size", modification="c")
    assert 0 < release.found["alpha"] <= min(1.0, release.found["alpha_limit"])
    assert_kept(whole, old, new)
    assert_same_products(old, new)
    assert_residual_products_in_clusters(frame, whole, old, new)
    lower, _, other = released(frame, clusters="cluster", global_="size", alpha=release.found["alpha"] / 2)
    assert lower.found["alpha"] == release.found["alpha"] / 2
    assert_residual_products_in_clusters(frame, whole, old, other)


def test_modification_d_keeps_slopes_in_each_group_of_clusters() -> None:
    frame = firms()
    _, old, new = released(frame, clusters="cluster", groups="group", grouped="size", global_="age")
    assert_kept(design(frame, "cluster", ("group", "size"), "age"), old, new)
    assert_not_kept(design(frame, ("cluster", "size")), old, new)
    assert_same_products(old, new)


def test_modification_e_keeps_sums_of_pieces_and_slopes_in_them() -> None:
    frame = firms()
    frame["both"] = frame["cluster"] + frame["piece"]
    release, old, new = released(frame, clusters="cluster", pieces="piece", local_pieces="age", global_="size")
    assert_kept(design(frame, "both", ("both", "age"), "size"), old, new)
    assert_same_products(old, new)
    assert release.kept["mean in clusters"] <= EXACT


@pytest.mark.parametrize("modification", ["a", "c"])
def test_modifications_go_together(modification: str) -> None:
    frame = firms()
    frame["both"] = frame["cluster"] + frame["piece"]
    _, old, new = released(
        frame,
        clusters="cluster",
        pieces="piece",
        groups="group",
        grouped="size",
        global_="age",
        modification=modification,
    )
    whole = design(frame, "both", ("group", "size"), "age")
    assert_kept(whole, old, new)
    assert_same_products(old, new)
    assert_residual_products_in_clusters(frame, whole, old, new)


def test_without_clusters_all_records_are_one() -> None:
    frame = firms()
    draws = np.random.default_rng(0).standard_normal((len(frame), 3))
    _, _, hybrid = released(frame, global_=["size", "age"], draws=draws)
    _, _, ipso = released(frame, "ipso", public=["size", "age"], draws=draws)
    assert np.abs(hybrid - ipso).max() <= 1e-10


def test_public_columns_are_global_ones() -> None:
    frame = firms()
    _, _, one = released(frame, clusters="cluster", global_="size")
    _, _, two = released(frame, clusters="cluster", public="size")
    assert np.array_equal(one, two)


def test_formulas_and_text_go_where_columns_go() -> None:
    frame = firms()
    _, old, new = released(frame, clusters="cluster", global_="~ group * size", local="piece")
    frame["both"] = frame["cluster"] + frame["piece"]
    assert_kept(design(frame, "both", "size", ("group", "size")), old, new)


def test_generalised_microaggregation_is_the_fit() -> None:
    frame = firms()
    release, old, new = released(frame, "generalised_microaggregation", clusters="cluster", local="age", global_="size")
    x = design(frame, "cluster", ("cluster", "age"), "size")
    fit = old - left(x, old)
    assert np.abs(new - fit).max() <= 1e-9
    again = released(frame, "generalised_microaggregation", clusters="cluster", local="age", global_="size", seed=9)[2]
    assert np.array_equal(new, again)
    assert release.kept["mean in clusters"] <= EXACT
    assert "covariance" not in release.kept


def test_generalised_microaggregation_without_columns_is_microaggregation() -> None:
    frame = firms(rows=120)
    _, _, new = released(frame, "generalised_microaggregation", group_size=5)
    plain = mv.protect(frame, "microaggregate", confidential=COLUMNS, rules=None, group_size=5).data[COLUMNS]
    assert np.abs(new - plain.to_numpy()).max() <= 1e-10


def test_similar_records_make_the_clusters_where_no_column_does() -> None:
    frame = firms()
    release, old, new = released(frame, "microhybrid", group_size=20)
    assert release.found == {"clusters": 30.0, "smallest_cluster": 20.0}
    assert_same_products(old, new)
    # Clusters of similar records vary little, so the release is nearer to the data than one without them.
    _, _, free = released(frame, "ipso")
    assert np.square(new - old).mean() < np.square(free - old).mean() / 2


def test_outlying_and_ordinary_records_are_drawn_apart() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3))
    values[:20] = 100 + 10 * rng.standard_normal((20, 3))
    frame = pd.DataFrame(values, columns=COLUMNS)
    release, old, new = released(frame, "outlier_split")
    assert release.found["clusters"] == 2
    outlying = int(release.found["smallest_cluster"])
    assert 20 <= outlying < 40
    assert_same_products(old, new)
    # All but those that were taken for outliers stay among themselves; one ellipse for all would spread them out.
    _, _, free = released(frame, "ipso")
    ordinary = np.abs(new).max(axis=1) < 20
    assert ordinary.sum() >= 400 - outlying
    assert (np.abs(free).max(axis=1) < 20).sum() < 300


def test_where_nothing_stands_out_all_records_are_one_cluster() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (500, 3)), columns=COLUMNS)
    release, old, new = released(frame, "outlier_split", outlier_quantile=0.999999)
    assert release.found["clusters"] == 1
    assert_same_products(old, new)


def test_rules_strata_and_missing_cells_go_along() -> None:
    frame = firms()
    frame["tax"] = frame["wages"] + frame["energy"]
    frame["year"] = np.where(np.arange(len(frame)) % 2, "first", "second")
    _, old, new = released(frame, clusters="group", global_="size", strata="year")
    assert np.abs(new[:, 1] - new[:, 0] - new[:, 2]).max() <= 1e-9
    for year in ("first", "second"):
        rows = np.flatnonzero(frame["year"] == year)
        assert_kept(design(frame.iloc[rows], "group", "size"), old[rows], new[rows])
    frame.loc[::9, "wages"] = np.nan
    frame = frame.assign(tax=frame["tax"] * 1.1 + np.sqrt(frame["size"]))
    holed = mv.protect(frame, "microhybrid", confidential=COLUMNS, clusters="cluster", seed=1)
    assert holed.data["wages"].isna().equals(frame["wages"].isna())
    assert "mean in clusters" not in holed.kept
    assert holed.kept["covariance"] <= 1e-9
    assert any("sums of clusters" in said for said in holed.warnings)


def test_the_columns_that_are_named_stay_as_they_are_and_are_not_protected() -> None:
    frame = firms()
    release = mv.protect(frame, "cluster_hybrid", clusters="cluster", local="age", global_="size", keep="rest", seed=1)
    assert sorted(release.dose) == sorted(COLUMNS)
    assert release.data.drop(columns=COLUMNS).equals(frame.drop(columns=COLUMNS))
    assert release.recipe()["parameters"]["clusters"] == ["cluster"]
    again = mv.protect(frame, **replay(release.recipe()), seed=release.seed)
    assert again.data.equals(release.data)


def replay(recipe: dict[str, Any]) -> dict[str, Any]:
    return {"method": recipe["method"], "confidential": recipe["confidential"], **recipe["parameters"]}


@pytest.mark.parametrize("given", [{"local": "size"}, {"global_": "size"}, {"global_": "size", "modification": "c"}])
def test_columns_far_from_zero_are_regressed_on_all_the_same(given: dict[str, Any]) -> None:
    """A spread of a hundred-millionth of the mean is no combination with the constant."""
    frame = firms()
    far = frame.assign(size=frame["size"] + 1e8 * frame["size"].std())
    _, old, new = released(far, clusters="cluster", **given)
    centred = far["size"].to_numpy()[:, None] - far["size"].mean()
    assert_kept(centred, old, new)
    if "local" in given:
        for rows in inside(frame):
            assert_kept(design(far.assign(size=centred[:, 0]).iloc[rows], "size"), old[rows], new[rows])


@pytest.mark.parametrize("given", [{}, {"global_": "size", "modification": "c"}, {"pieces": "piece"}])
def test_protected_columns_may_be_far_from_zero(given: dict[str, Any]) -> None:
    """What is left of the mean of a cluster is the round-off of its cells, and not of products of large numbers."""
    frame = firms()
    frame[COLUMNS] += 1e9 * frame[COLUMNS].std()
    _, old, new = released(frame, clusters="cluster", **given)
    round_off = np.spacing(np.abs(old).max(axis=0))
    for rows in inside(frame):
        assert (np.abs((new - old)[rows].mean(axis=0)) <= round_off).all()


def test_thousands_of_pieces_take_no_more_room_than_one() -> None:
    """A column of marks for each of them would: 6,000 x 600 doubles."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((6_000, 3)), columns=COLUMNS)
    frame["cluster"] = np.arange(6_000) % 600
    tracemalloc.start()
    release, old, new = released(frame, "microhybrid", variant="b", clusters="cluster")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6_000 * 600 * 8 / 2
    assert release.kept["mean in clusters"] <= EXACT
    assert_same_products(old, new)


def test_groups_are_made_of_whole_clusters() -> None:
    """In others, the slopes of groups would not come back, as they have no constant."""
    frame = firms()
    with pytest.raises(DataError, match="groups: the records of 12 clusters are not all in one group; use groups of"):
        released(frame, clusters="cluster", groups="piece", grouped="size")


def test_missing_labels_make_a_cluster_of_their_own() -> None:
    frame = firms()
    unnamed = frame.assign(cluster=frame["cluster"].where(frame["cluster"] != "c03"))
    assert unnamed["cluster"].isna().sum() == 50
    release, old, new = released(unnamed, clusters="cluster")
    assert release.found["clusters"] == 12
    for rows in inside(frame):
        assert_kept(design(frame.iloc[rows]), old[rows], new[rows])
    assert release.data["cluster"].isna().equals(unnamed["cluster"].isna())


def test_what_clusters_give_away_is_told() -> None:
    frame = firms()
    frame.loc[frame["cluster"] == "c03", "tax"] = 7.0
    release, old, new = released(frame, clusters="cluster")
    same = float(np.isclose(new[:, 1], old[:, 1], rtol=1e-12).mean())
    assert same == pytest.approx(50 / 600)
    assert any(f"nothing of them was left to replace: tax ({same:.2%})" in said for said in release.warnings)
    assert not any("disclosed" in said for said in release.warnings)
    small, _, _ = released(firms(rows=60), clusters="cluster")
    assert any("means of clusters are kept, and so disclosed; the smallest has 5" in said for said in small.warnings)
    pieces, _, _ = released(frame.assign(piece=np.arange(600) // 8), "cluster_hybrid", pieces="piece")
    assert pieces.found["smallest_piece"] == 8
    assert any("the smallest has 8 records" in said for said in pieces.warnings)


def test_values_that_are_mapped_keep_nothing_of_clusters() -> None:
    frame = firms()
    release, old, new = released(frame, clusters="cluster", marginals="smoothed")
    assert max(np.abs((new - old)[rows].mean(axis=0)).max() for rows in inside(frame)) > 0.01
    assert sorted(release.kept) == ["covariance", "distribution", "mean", "rank correlation"]
    assert not any("in clusters" in said or "of clusters" in said for said in release.warnings)


def test_too_few_outlying_records_are_told_with_a_way_out() -> None:
    values = np.random.default_rng(0).standard_normal((400, 3))
    values[0] = 1e3
    frame = pd.DataFrame(values, columns=COLUMNS)
    with pytest.raises(DataError, match="mirrored; use another outlier_quantile, or ipso"):
        released(frame, "outlier_split", outlier_quantile=0.999999)


def test_strata_tell_of_the_worst_cluster_of_all() -> None:
    frame = firms(rows=240, clusters=4)
    frame["year"] = np.where(np.arange(240) < 200, "first", "second")
    release, _, _ = released(frame, clusters="cluster", strata="year", global_="size", modification="c")
    sizes = frame.groupby(["year", "cluster"]).size()
    assert release.found["clusters"] == sizes.size == 8
    assert release.found["smallest_cluster"] == sizes.min()


def test_numbers_of_columns_serve_for_arrays() -> None:
    frame = firms()
    numbers = np.column_stack([frame[COLUMNS].to_numpy(), frame["size"], frame["cluster"].str[1:].astype(float)])
    release = mv.protect(numbers, "cluster_hybrid", clusters=4, local=[3], rules=None, seed=1)
    assert np.array_equal(release.data[:, 3:], numbers[:, 3:])
    assert_kept(design(frame, "cluster", ("cluster", "size")), numbers[:, :3], release.data[:, :3])
