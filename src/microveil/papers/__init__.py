"""The papers' tables and figures: what is printed (in `printed`), and the runs that make ours. A new item is data."""

from collections.abc import Callable
from functools import cache

from microveil.papers import calvino, calvino_factor, dacquisto, hsu_chen, langsrud, subsets
from microveil.papers.published import Found, PublishedItem, read_items
from microveil.papers.runs import measured
from microveil.papers.sources import PRINTED

RUNS: dict[str, Callable[..., Found]] = {
    "measured": measured,
    "release_figures": calvino.release_figures,
    "swapped_records": calvino.swapped_records,
    "measured_with_variance": calvino.measured_with_variance,
    "factor_choice": calvino_factor.factor_choice,
    "methods_by_correlation": calvino_factor.methods_by_correlation,
    "best_configurations": subsets.best_configurations,
    "selective_pair": calvino_factor.selective_pair,
    "selective_grid": calvino_factor.selective_grid,
    "selective_tarragona": calvino_factor.selective_tarragona,
    "picture_quality": dacquisto.picture_quality,
    "picture_eigenvalues": dacquisto.picture_eigenvalues,
    "independent_sources": hsu_chen.independent_sources,
    "joint_distribution": hsu_chen.joint_distribution,
    "leakage": hsu_chen.leakage,
    "correlation_biases": hsu_chen.correlation_biases,
    "order_of_methods": hsu_chen.order_of_methods,
    "suppressed_cells": langsrud.suppressed_cells,
    "filled_cells": langsrud.filled_cells,
    "scaled_residuals": langsrud.scaled_residuals,
}
"""The runs that items name, each called with the parameters of the item and with `RunOptions`."""


@cache
def published_items() -> dict[str, PublishedItem]:
    """Every table and figure by its id, in the order in which they are listed."""
    return {item.id: item for path in sorted(PRINTED.glob("*.toml")) for item in read_items(path, RUNS)}


__all__ = ["RUNS", "PublishedItem", "published_items"]
