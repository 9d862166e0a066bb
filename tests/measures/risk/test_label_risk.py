"""Risk of labels: against sdcMicro where there are its figures, and against definitions on data of our own."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from labels import random_codes
from numpy.typing import NDArray
from reference import sdcmicro_labels

import microveil as mv
from microveil.core.errors import DataError
from microveil.core.keys import KeyCounts, key_counts
from microveil.core.table import Matrix
from microveil.measures.base import MeasureSpec
from microveil.measures.labels import LabelPair
from microveil.measures.risk.label_risk import (
    dis_scores,
    global_risk,
    individual_risk,
    individual_risks,
    k_anonymity,
    l_diversity,
    sample_uniques,
    suda,
    suda_scores,
    t_closeness,
)

FILES = {"francdat": "labels_francdat", "testdata": "labels_testdata_5keys"}
NO_NUMBERS = Matrix([])
pytestmark = pytest.mark.filterwarnings("ignore::microveil.core.errors.DisclosureWarning")


def pair(codes: NDArray[np.int64], kinds: tuple[str, ...] | None = None, **known: object) -> LabelPair:
    width = codes.shape[1]
    names = tuple(f"c{j}" for j in range(width))
    sizes = tuple(int(size) + 1 for size in codes.max(axis=0))
    found = LabelPair(names, kinds or ("category",) * width, sizes, codes, codes, (False,) * width, tuple(range(width)))
    for name, value in known.items():
        object.__setattr__(found, name, value)
    return found


@pytest.mark.parametrize("data", FILES)
def test_risks_are_those_of_sdcmicro(data: str) -> None:
    codes, weights, found = sdcmicro_labels(data, FILES[data])
    risks = individual_risks(key_counts(codes, weights))
    np.testing.assert_allclose(risks, found["rk"], rtol=1e-6, atol=0)
    labels = pair(codes, weights=weights)
    assert global_risk.take(NO_NUMBERS, NO_NUMBERS, labels=labels).value == pytest.approx(
        found["global_risk"], rel=1e-6
    )
    assert individual_risk.take(NO_NUMBERS, NO_NUMBERS, labels=labels).value == pytest.approx(
        max(found["rk"]), rel=1e-6
    )
    uniques = sample_uniques.take(NO_NUMBERS, NO_NUMBERS, labels=labels)
    assert uniques.parts["records"] == found["n1"]


@pytest.mark.parametrize("data", FILES)
def test_suda_scores_are_those_of_sdcmicro(data: str) -> None:
    codes, _, found = sdcmicro_labels(data, FILES[data])
    scores = suda_scores(codes)
    assert scores.tolist() == found["suda_score"]
    np.testing.assert_allclose(dis_scores(scores, codes), found["dis_score"], rtol=1e-6)
    assert suda.take(NO_NUMBERS, NO_NUMBERS, labels=pair(codes)).value == pytest.approx(max(found["dis_score"]))


@pytest.mark.parametrize("blanks", [0.0, 0.05])
def test_suda_scores_follow_their_definition(blanks: float) -> None:
    codes = random_codes(1, 60, blanks)
    expected = np.zeros(60)
    for row, record in enumerate(codes):
        minimal: list[set[int]] = []
        for size in range(1, 6):
            for columns in combinations(range(5), size):
                chosen = list(columns)
                alone = (codes[:, chosen] == record[chosen]).all(axis=1).sum() == 1 and (record[chosen] >= 0).all()
                if alone and not any(known <= {*columns} for known in minimal):
                    minimal.append({*columns})
                    expected[row] += factorial(5 - size)
    assert (suda_scores(codes) == expected).all()
    assert expected.any()


def test_the_individual_risk_is_the_mean_of_one_over_the_frequency_in_the_population() -> None:
    """F given f is negative binomial with the sampled share (Benedetti and Franconi 1998)."""
    rng = np.random.default_rng(2)
    for f, share in ((1, 0.1), (1, 0.6), (2, 0.3)):
        drawn = f + rng.negative_binomial(f, share, 400_000)
        counts = KeyCounts(np.array([f]), np.array([f / share]))
        assert individual_risks(counts)[0] == pytest.approx(np.mean(1 / drawn), rel=0.01)


def test_without_weights_the_file_is_the_population() -> None:
    counts = KeyCounts(np.array([1, 2, 3, 10]), np.array([1.0, 2.0, 3.0, 10.0]))
    np.testing.assert_allclose(individual_risks(counts), [1, 1 / 2, 1 / 3, 1 / 10])
    assert individual_risks(KeyCounts(np.array([1]), np.array([0.2])))[0] == 1, "weights below 1 are no more than all"


def test_missing_cells_match_or_are_a_level() -> None:
    codes = np.array([[0, 0], [0, -1], [1, 1], [1, 1], [1, -1]])
    found = k_anonymity.take(NO_NUMBERS, NO_NUMBERS, labels=pair(codes))
    assert found.value == 2
    assert found.parts["level"] == 1
    uniques = sample_uniques.take(NO_NUMBERS, NO_NUMBERS, labels=pair(codes))
    assert uniques.value == 0
    assert uniques.parts["level"] == pytest.approx(3 / 5)


def test_diversity_and_closeness_by_hand() -> None:
    codes = np.array([[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [1, 2]])
    labels = pair(codes, sensitive=(1,))
    diverse = l_diversity.take(NO_NUMBERS, NO_NUMBERS, labels=labels)
    assert diverse.value == 2
    assert diverse.parts["entropy"] == pytest.approx(3 / 2 ** (2 / 3))
    # In all 1/2, 1/3, 1/6; in the first group 2/3, 1/3, 0; in the second a third each.
    assert t_closeness.take(NO_NUMBERS, NO_NUMBERS, labels=labels).value == pytest.approx(1 / 6)
    ordered = pair(codes, ("category", "ordered"), sensitive=(1,))
    assert t_closeness.take(NO_NUMBERS, NO_NUMBERS, labels=ordered).value == pytest.approx((1 / 6 + 1 / 6) / 2)
    with pytest.raises(DataError, match="sensitive"):
        l_diversity.take(NO_NUMBERS, NO_NUMBERS, labels=pair(codes))


OF_LABELS = [k_anonymity, sample_uniques, l_diversity, t_closeness, individual_risk, global_risk, suda]


@pytest.mark.parametrize("measure", OF_LABELS, ids=lambda measure: measure.id)
@pytest.mark.parametrize("blanks", [0.0, 0.1, 1.0])
def test_figures_are_in_range_and_do_not_depend_on_the_order_of_records_or_levels(
    measure: MeasureSpec, blanks: float
) -> None:
    codes = random_codes(5, 80, blanks)
    order = np.random.default_rng(6).permutation(80)
    turned = np.where(codes < 0, -1, codes.max(axis=0) - codes)[order][:, ::-1]
    first = measure.take(NO_NUMBERS, NO_NUMBERS, labels=pair(codes, sensitive=(0,)))
    again = measure.take(NO_NUMBERS, NO_NUMBERS, labels=pair(turned, sensitive=(4,)))
    assert measure.range[0] <= first.value <= measure.range[1]
    assert again.value == pytest.approx(first.value)
    assert again.parts == pytest.approx(first.parts)


def people(rows: int = 300) -> pd.DataFrame:
    codes = random_codes(3, rows)
    named = {"sex": ["f", "m"], "status": list("abc"), "job": list("ABCD")}
    columns = {name: np.array(levels)[codes[:, j]] for j, (name, levels) in enumerate(named.items())}
    return pd.DataFrame({**columns, "size": codes[:, 4], "wage": np.random.default_rng(4).lognormal(size=rows)})


def test_the_anonymity_that_suppress_cells_promises_is_measured() -> None:
    keys = ["sex", "status", "job", "size"]
    release = mv.protect(people(), "suppress_cells", confidential=keys, k=5)
    found = mv.assess(people(), release, keys=keys, measures=["k_anonymity", "sample_uniques", "suda"])
    assert found["k_anonymity"].value >= 5
    assert found["sample_uniques"].value == 0
    before = mv.assess(people(), people(), keys=keys, measures=["k_anonymity", "individual_risk", "global_risk"])
    assert before["k_anonymity"].value == 1
    assert before["individual_risk"].value == 1
    assert 0 < before["global_risk"].value < 1


def test_sensitive_labels_are_no_key() -> None:
    found = mv.assess(people(), people(), sensitive=["job"], measures=["l_diversity", "t_closeness", "k_anonymity"])
    assert found["l_diversity"].value >= 1
    assert 0 < found["t_closeness"].value <= 1
