"""Clusters that are too small, and parameters that cannot be, are refused with a way out."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_tables import firms, released

from microveil.core.errors import DataError, ParameterError


def test_small_clusters_are_refused_by_their_size() -> None:
    frame = firms(rows=60)
    frame.loc[:1, "cluster"] = "tiny"
    with pytest.raises(
        DataError, match=r"clusters: 1, of 2 records, are too small.* mirrored; merge them: each needs 2 records more"
    ):
        released(frame, clusters="cluster")
    frame = firms(rows=36)
    with pytest.raises(DataError, match=r"clusters: 12, of \d+ (to \d+ )?records, are too small"):
        released(frame, clusters="cluster", local="size")


def test_clusters_too_small_for_a_modification_are_refused_by_their_size() -> None:
    """Each needs rank(X_A) + rank(X_2) + rank(E) rows: 1 + 1 + 3; four fail, five do not."""
    frame = firms(rows=60)
    assert (frame.groupby("cluster").size() == 5).all()
    released(frame, clusters="cluster", global_="size", modification="a")
    fewer = frame[~((frame["cluster"] == "c03") & ~frame[frame["cluster"] == "c03"].duplicated("cluster"))]
    fewer = fewer.reset_index(drop=True)
    assert (fewer["cluster"] == "c03").sum() == 4
    with pytest.raises(DataError, match=r"clusters: 1, of 4 records, have too few for their covariances; merge them"):
        released(fewer, clusters="cluster", global_="size", modification="a")


def test_records_alone_in_their_piece_are_refused() -> None:
    frame = firms()
    frame.loc[0, "piece"] = "island"
    with pytest.raises(DataError, match="1 records are alone in what is regressed on"):
        released(frame, clusters="cluster", pieces="piece")


def test_a_column_that_is_fitted_to_the_last_digit_is_refused_by_name() -> None:
    frame = firms()
    frame["tax"] = frame["size"] * 2 + frame["cluster"].map(
        {label: n for n, label in enumerate(frame["cluster"].unique())}
    )
    with pytest.raises(DataError, match=r"the regressions determine tax"):
        released(frame, clusters="cluster", local="size")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"clusters": "nowhere"}, "clusters: there is no column 'nowhere'"),
        ({"clusters": "cluster", "group_size": 5}, "give one of them"),
        ({"clusters": "cluster", "modification": "z"}, "modification"),
        ({"clusters": "cluster", "alpha": 0.5, "modification": "a"}, "alpha goes with modification='c' only"),
        ({"clusters": "cluster", "alpha": 2.0}, "alpha"),
        ({"clusters": "cluster", "alpha": True}, "alpha: true and false are not numbers"),
        ({"group_size": True}, "group_size: true and false are not numbers"),
        ({"local_pieces": "size"}, "local_pieces goes with pieces only"),
        ({"grouped": "size"}, "groups and grouped go together"),
        ({"clusters": "cluster", "weight": "size"}, "weight: plays no part inside clusters"),
        ({"clusters": "wages"}, "wages"),
    ],
)
def test_bad_parameters_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        released(firms(), **given)
