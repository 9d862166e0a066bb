"""`assess`: two files in, figures with their scale out."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from assess_tables import NAMES, frame, masked, shuffled, table
from hostile import hostile_tables
from numpy.typing import NDArray

import microveil as mv
from microveil.assessment import measuring
from microveil.errors import DataError, ParameterError

Array = NDArray[np.float64]


FEW = ["dbrl", "rank_linkage", "interval_disclosure_own", "extreme_disclosure", "pil", "ks", "correlation_difference"]


LUCKY = 7
"""Hits of a shuffle: each record is linked to its own with probability 1/n, so about as a Poisson variable with mean
one, which is above 7 once in 100,000 times."""


def figures(assessment: mv.Assessment) -> dict[str, float]:
    return {name: measure.value for name, measure in assessment.items()}


@pytest.mark.usefixtures("few_descriptions")
def test_doing_nothing_is_all_risk_and_no_loss() -> None:
    found = mv.assess(table(), table(), seed=1)
    assert list(found) == ["clear_uniques", "mixed_linkage", *measuring.DEFAULT], "everything is in clear"
    for name, measure in found.items():
        kind = found.entries[name].kind
        # Half of a score is risk and half is loss.
        expected = {"risk": 1.0, "utility": 0.5 if name == "classifier_auc" else 0.0, "score": 0.5}[kind]
        assert measure.value == pytest.approx(expected, abs=0.06 if name == "classifier_auc" else 1e-12), name
    assert found.worst_attack is not None
    assert found.worst_attack.value == 1
    assert "the same in both files, cell by cell: 0, 1, 2, 3, 4" in found.notes


def test_an_independent_shuffle_is_linked_by_chance_only() -> None:
    data = table()
    linkages = ["dbrl", "mahalanobis_linkage", "rank_linkage", "optimal_linkage"]
    found = mv.assess(data, shuffled(data), measures=[*linkages, "ks", "extreme_disclosure"], seed=1)
    for name in linkages:
        assert found[name].value * len(data) <= LUCKY
        assert found[name].chance == 1 / len(data)
    assert (found["ks"].value, found["extreme_disclosure"].value) == (0, 1), "a shuffle keeps every value"


def test_sanity_lines_stand_beside_every_figure() -> None:
    data = table()
    found = mv.assess(data, masked(data), measures=FEW, seed=1)
    assert found.sanity is not None
    assert (found.sanity.rows, found.sanity.of) == (250, 250)
    assert list(found.sanity.identity) == list(found.sanity.shuffle) == FEW
    itself = mv.assess(data, data, measures=FEW, seed=1, sanity=False)
    assert dict(found.sanity.identity) == dict(itself)
    assert itself.sanity is None
    for name in ("dbrl", "rank_linkage"):
        assert found.sanity.shuffle[name].value * len(data) <= LUCKY < found[name].value * len(data) < len(data)
    nothing, all_of_it = found.known("correlation_difference")
    assert nothing == 0 < found["correlation_difference"].value < (all_of_it or 0)
    assert all_of_it == found.sanity.shuffle["correlation_difference"].value
    assert itself.known("pil") == (None, None)


def test_sanity_lines_of_a_large_file_are_from_a_sample_that_is_told() -> None:
    data = np.random.default_rng(4).normal(size=(1500, 2))
    found = mv.assess(data, shuffled(data), measures="ks", seed=1)
    assert found.sanity is not None
    assert (found.sanity.rows, found.sanity.of) == (1000, 1500)
    assert found.to_dict()["sanity"]["rows"] == 1000
    assert "on 1000 of 1500" not in repr(found)


def kinds(data: Array) -> dict[str, Any]:
    return {
        "numpy": data,
        "polars": frame(data),
        "polars whole": frame(data).cast(pl.Int64),
        "pandas": pd.DataFrame(data, columns=NAMES),
        "pandas nullable": pd.DataFrame(data.astype(int), columns=NAMES).astype("Int64"),
        "arrow": frame(data).to_arrow(),
    }


@pytest.mark.quick("numpy", "pandas nullable")
@pytest.mark.parametrize("kind", kinds(table(5)))
@pytest.mark.usefixtures("few_descriptions")
def test_every_kind_of_frame_gives_the_same_figures(kind: str) -> None:
    data = table()
    expected = figures(mv.assess(frame(data), frame(masked(data)), measures=FEW, seed=1))
    found = mv.assess(kinds(data)[kind], kinds(masked(data))[kind], measures=FEW, seed=1)
    assert figures(found) == expected
    library = {"numpy": pl.DataFrame, "polars": pl.DataFrame, "pandas": pd.DataFrame, "arrow": pa.Table}
    told = found.to_frame()
    assert isinstance(told, library[kind.split()[0]])
    rows = told.to_pylist() if isinstance(told, pa.Table) else pl.DataFrame(told).to_dicts()
    assert [row["measure"] for row in rows] == FEW
    assert [row["value"] for row in rows] == list(expected.values())
    assert rows[0]["identity"] == 1
    assert 0 <= rows[3]["chance"] < 1


@pytest.mark.slow
@pytest.mark.usefixtures("few_descriptions")
def test_kinds_may_be_mixed_and_columns_are_matched_by_name() -> None:
    data = table()
    original = frame(data).with_columns(region=pl.lit("north"))
    released = frame(masked(data)).select([*reversed(NAMES)])
    expected = mv.assess(frame(data), frame(masked(data)), measures="default", seed=1, sanity=False)
    assert mv.assess(original, released, seed=1, sanity=False) == expected
    assert mv.assess(original, released.to_pandas(), seed=1, sanity=False) == expected


def test_the_order_of_the_records_does_not_matter_if_it_is_the_same_in_both() -> None:
    data, order = table(), np.random.default_rng(5).permutation(250)
    released = data + np.random.default_rng(2).normal(size=data.shape) * data.std(axis=0) / 4  # no two values equal
    before = figures(mv.assess(data, released, measures=FEW, seed=1))
    after = figures(mv.assess(data[order], released[order], measures=FEW, seed=1))
    assert after == pytest.approx(before, rel=1e-9, abs=1e-12)
    assert mv.assess(data[order], masked(data), measures="dbrl", seed=1)["dbrl"].value * 250 <= LUCKY


@pytest.mark.usefixtures("few_descriptions")
def test_a_seed_repeats_the_figures_whatever_else_is_asked_for() -> None:
    data = table(120)
    drawn = ["classifier_auc", "subspace_linkage", "known_columns_linkage"]
    together = mv.assess(data, masked(data), measures=drawn, seed=11)
    for name in drawn:
        alone = mv.assess(data, masked(data), measures=[name], seed=11)
        assert alone[name] == together[name]
        assert alone.sanity is not None
        assert together.sanity is not None
        assert alone.sanity.shuffle[name] == together.sanity.shuffle[name]
    other = mv.assess(data, masked(data), measures=drawn, seed=12)
    assert other["classifier_auc"] != together["classifier_auc"]


def test_scores_are_made_of_the_same_figures_and_do_not_show_their_parts() -> None:
    data = table(120)
    score = mv.assess(data, masked(data), measures=["score_2"], seed=3, sanity=False)
    parts = mv.assess(data, masked(data), measures=list(score["score_2"].parts), seed=3, sanity=False)
    assert list(score) == ["score_2"]
    assert score["score_2"].parts == figures(parts)
    assert score["score_2"].value == pytest.approx(np.mean([*figures(parts).values()]), rel=1e-12)


def test_nothing_is_changed() -> None:
    data = table()
    original, released = frame(data).to_pandas(), frame(masked(data)).to_pandas()
    copies = original.copy(), released.copy()
    mv.assess(original, released, measures=FEW, seed=1)
    pd.testing.assert_frame_equal(original, copies[0])
    pd.testing.assert_frame_equal(released, copies[1])


@pytest.mark.usefixtures("few_descriptions")
def test_special_codes_are_no_values() -> None:
    data, released = table(), masked(table())
    refused = np.random.default_rng(6).random(250) < 0.2
    blank, blank_released = data.copy(), released.copy()
    blank[refused, 1] = blank_released[refused, 1] = np.nan
    coded, coded_released = np.nan_to_num(blank, nan=-9.0), np.nan_to_num(blank_released, nan=-9.0)
    expected = mv.assess(blank, blank_released, measures=FEW, seed=1)
    found = mv.assess(coded, coded_released, measures=FEW, seed=1)
    assert found == expected
    assert any("column '1': -9 taken for a code" in note for note in found.notes)
    as_values = mv.assess(coded, coded_released, measures=FEW, seed=1, rules=None)
    assert as_values["ks"].value != expected["ks"].value
    assert not any("code" in note for note in as_values.notes)
    unusual = np.nan_to_num(blank, nan=12.0), np.nan_to_num(blank_released, nan=12.0)
    rules = {"columns": {"1": {"special_codes": [12]}}}
    assert mv.assess(*unusual, measures=FEW, seed=1, rules=rules) == expected
    with pytest.raises(ParameterError, match="there is no column '7'"):
        mv.assess(*unusual, rules={"columns": {"7": {"special_codes": [12]}}})


def test_missing_cells_are_no_hits() -> None:
    data = table()
    gone = mv.assess(data, np.full_like(data, np.nan), measures=["dbrl", "interval_disclosure", "rank_linkage"], seed=1)
    assert [measure.value for measure in gone.values()] == [0, 0, 0]
    half = data.copy()
    half[::2] = np.nan
    assert mv.assess(half, half, measures="dbrl", seed=1)["dbrl"].value == 0.5


def test_a_table_that_was_only_sorted_does_not_pass_for_a_protected_one() -> None:
    """Rows that are compared with others' rows say nothing, and a limit on what they say is not met."""
    data = table()
    policy = {"policy": {"name": "open data", "version": 1}, "limits": {"dbrl": {"at_most": 0.05}}}
    found = mv.assess(frame(data), frame(data).sort("stock"), measures=["pil", "exact_matches"], policy=policy, seed=1)
    assert list(found) == ["pil", "exact_matches"]
    assert "not in the same order" in found.skipped["dbrl"]
    assert found.skipped["dbrl"] == found.notes[0]
    assert found.verdict is not None
    assert not found.verdict.met
    assert found["exact_matches"].value == 1
    # Few values come back elsewhere by chance, and that is no other order.
    few = np.random.default_rng(1).integers(0, 2, (250, 5)).astype(float)
    assert not mv.assess(few, shuffled(few), measures=["dbrl"], seed=1).skipped
    assert not mv.assess(frame(data), frame(shuffled(data)), measures=["dbrl"], seed=1).skipped


def test_files_of_different_lengths_are_compared_by_what_needs_no_pairs() -> None:
    data = table()
    found = mv.assess(data, masked(data)[:200], measures=["dbrl", "score_2", "pil", "ks"], seed=1)
    assert list(found) == ["pil", "ks"]
    assert list(found.skipped) == ["dbrl", "score_2"]
    assert "250 and 200 rows" in found.skipped["dbrl"]
    assert found.skipped["score_2"].startswith("it needs dbrl: the files have 250 and 200 rows")
    assert found.worst_attack is None
    with pytest.raises(KeyError, match="dbrl was not measured; the files have 250"):
        found["dbrl"]
    assert found.rows == (250, 200)
    assert found.to_dict()["skipped"].keys() == {"dbrl", "score_2"}
    with pytest.raises(DataError, match=r"nothing could be measured \(dbrl: the files have 250 and 200 rows"):
        mv.assess(data, masked(data)[:200], measures="dbrl")


def test_roles() -> None:
    data = table()
    original, released = frame(data), frame(masked(data))
    assert mv.assess(original, released, measures="ks").columns == tuple(NAMES)
    assert mv.assess(original, released, measures="ks", confidential=["export", "wages"]).columns == ("export", "wages")
    found = mv.assess(original, released, measures="ks", public="stock")
    assert found.columns == tuple(NAMES[:4])
    assert found.notes == ["public, but not the same in both files: stock; are the rows in the same order?"]
    kept = released.with_columns(original["stock"])
    assert mv.assess(original, kept, measures="ks", public="stock").notes == []
    assert mv.assess(original, kept, measures="ks").notes == ["the same in both files, cell by cell: stock"]
    assert mv.assess(data, masked(data), measures="ks", confidential=[1, 3]).columns == ("1", "3")


def test_attacks_are_on_sensitive_columns_and_what_it_is_good_for_is_of_all() -> None:
    data = table()
    files = frame(data), frame(masked(data))
    ids = ["dbrl", "attribute_inference", "pil", "ks", "selectivity", "score_2"]
    found = mv.assess(*files, measures=ids, sensitive=["export", "wages"], seed=1)
    alone = mv.assess(*files, measures=ids, confidential=["export", "wages"], seed=1)
    whole = mv.assess(*files, measures=ids, seed=1)
    assert found.columns == tuple(NAMES)
    assert found.notes[0] == "risk is that of export, wages alone, all else that of all columns"
    assert figures(found)["dbrl"] == figures(alone)["dbrl"] != figures(whole)["dbrl"]
    assert [figures(found)[name] for name in ("pil", "ks")] == [figures(whole)[name] for name in ("pil", "ks")]
    # These tell columns apart themselves: the intruder knows the others, and the others were to stay.
    assert {part for part in found["attribute_inference"].parts if "column" in part} == {"column 0", "column 2"}
    kept = [abs(np.corrcoef(data[:, j], masked(data)[:, j])[0, 1]) for j in range(5)]
    assert found["selectivity"].value == pytest.approx(np.mean([kept[0], kept[2], *(1 - kept[j] for j in (1, 3, 4))]))
    score = [whole["pil"].value, found["dbrl"].value, alone["score_2"].parts["interval_disclosure"]]
    assert found["score_2"].value == pytest.approx(np.mean([*score, whole["score_2"].parts["propensity_2"]]))


def test_columns_that_cannot_be_compared_are_named() -> None:
    data = table()
    original = frame(data).with_columns(code=pl.lit("12,5"), both=pl.lit("x"), odd=pl.Series(range(250)))
    released = frame(masked(data)).drop("stock").with_columns(code=pl.lit("12,5"), both=pl.lit("x"), odd=pl.lit("3"))
    found = mv.assess(original, released.with_columns(new=pl.lit(1)), measures="ks")
    assert found.columns == tuple(NAMES[:4])
    assert found.notes == [
        "not compared (the released file does not have them): stock",
        "not compared (the original file does not have them): new",
        "not compared (numbers in one file, text in the other): odd",
        "not compared (text that looks like numbers): code",
    ]


def test_what_a_second_degree_propensity_cannot_see_is_said() -> None:
    rng = np.random.default_rng(7)
    data = rng.lognormal(size=(400, 3))
    centred = rng.normal(size=(400, 3))
    centred -= centred.mean(axis=0)
    # Normal data with the very means and covariances of the original: Y = mean + Z chol(Z'Z)^-T chol(X'X)^T.
    deviations = data - data.mean(axis=0)
    white = np.linalg.solve(np.linalg.cholesky(centred.T @ centred), centred.T).T
    exact = data.mean(axis=0) + white @ np.linalg.cholesky(deviations.T @ deviations).T
    found = mv.assess(data, exact, measures=["propensity_2", "classifier_auc"], seed=1)
    assert found["propensity_2"].value < 1e-12
    assert found["classifier_auc"].value > 0.8
    assert [f"classifier_auc is {found['classifier_auc'].value:.2f}" in note for note in found.notes] == [True]
    alone = mv.assess(data, exact, measures="propensity_2", seed=1, sanity=False)
    assert alone.notes[0].endswith("measure classifier_auc too")
    assert mv.assess(data, data * 1.1, measures="propensity_2", sanity=False).notes == []


def test_an_unrelated_release_of_dense_data_has_no_attack_that_gains() -> None:
    rng = np.random.default_rng(31)
    data, unrelated = (rng.normal(size=(1_500, 3)) for _ in range(2))
    ids = ["dbrl", "rank_linkage", "known_columns_linkage", "interval_disclosure", "interval_disclosure_own"]
    found = mv.assess(data, unrelated, measures=ids, seed=1, sanity=False)
    assert found["interval_disclosure"].value > 0.6  # the nearest stranger tells as much
    assert found.worst_gain is not None
    # A record is a try, a share of one half has the largest error, and figure and chance have one each.
    assert found.worst_gain < 3 * np.sqrt(2 * 0.25 / 1_500) / (1 - found["interval_disclosure"].chance)


def test_the_worst_attack_is_the_one_that_gains_most_over_chance() -> None:
    data = table()
    found = mv.assess(data, masked(data), measures=["dbrl", "interval_disclosure_own", "pil"], seed=1, sanity=False)
    gains = {name: (m.value - m.chance) / (1 - m.chance) for name, m in found.items() if name != "pil"}
    assert found.worst_attack is not None
    assert found.worst_attack.id == max(gains, key=lambda name: gains[name])


def test_plain_data_for_json() -> None:
    data = table()
    told = json.loads(mv.assess(data, data, measures=["dbrl", "psnr"], seed=987654321).to_json())
    assert {"value", "low", "high", "chance", "better", "range", "meaning"} <= told["measures"]["dbrl"].keys()
    assert told["measures"]["dbrl"]["value"] == 1
    assert told["measures"]["psnr"]["value"] == "Infinity"
    assert told["measures"]["psnr"]["range"] == [0, "Infinity"]
    assert told["sanity"]["identity"]["psnr"]["value"] == "Infinity"
    assert told["kinds"] == {"dbrl": "risk", "psnr": "utility"}
    assert told["rows"] == {"original": 250, "released": 250}
    assert told["worst_attack"] == "dbrl"
    assert told["policy"] is None
    assert "987654321" not in json.dumps(told)


def test_the_summary_line_shows_no_value_of_the_data() -> None:
    data = table()
    found = mv.assess(data, masked(data), measures=FEW, seed=1)
    assert repr(found).startswith("<Assessment of 5 columns, 250 rows: 7 figures, worst attack ")
    assert "86421" not in repr(found) + found.to_json()
    with pytest.raises(KeyError, match="did you mean 'dbrl'"):
        found["dbrll"]
    assert found.get("dbrll") is None


def test_notes_name_columns() -> None:
    data = table()
    released = frame(data).with_columns(pl.col("import") * 2)
    found = mv.assess(frame(data), released, measures="ks")
    assert "in column 'import'" in found["ks"].note


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[tuple[str, float]] = []
    data = table(60)
    mv.assess(data, masked(data), measures=FEW, progress=lambda step, share: told.append((step, share)))
    shares = [share for _, share in told]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert {f"measuring {name}" for name in FEW} <= {step for step, _ in told}


@pytest.mark.usefixtures("few_descriptions")
def test_every_registered_measure_can_be_asked_for() -> None:
    known = mv.measures()
    assert set(known) == {*measuring.GAUGES, *measuring.SCORES, "worst_attack"}
    assert set(measuring.DEFAULT) <= set(known)
    data = table(80)
    found = mv.assess(data, masked(data), measures="all", seed=1, sanity=False)
    numbers = {name: line for name, line in known.items() if name not in measuring.NOT_IN_ALL}
    assert list(found) == list(numbers)
    json.loads(found.to_json())
    assert {name: measure.meaning for name, measure in found.items()} == numbers
    words = mv.assess(data, masked(data), measures=["default", "pil7", "pil"], seed=1, sanity=False)
    assert list(words) == [*measuring.DEFAULT, "pil7"]


@pytest.mark.quick("mixed units")
@pytest.mark.parametrize("case", hostile_tables(table(60)[:, :4]))
@pytest.mark.usefixtures("few_descriptions")
def test_hostile_tables_give_figures_or_reasons(case: str) -> None:
    data = hostile_tables(table(60)[:, :4])[case]
    for released in (shuffled(data), np.broadcast_to(data.mean(axis=0), data.shape).copy()):
        found = mv.assess(data, released, measures="all", seed=1, sanity=False)
        json.loads(found.to_json())
        # Records of zeros alone are met again in any order.
        skipped = {name for name, reason in found.skipped.items() if case != "spikes" or "order" not in reason}
        assert skipped <= {"eigen_decay", "ci_overlap", "regression_fit", "train_on_release"}


def test_a_release_is_assessed_with_its_own_columns_and_codes() -> None:
    from microveil.assess import assess_release, quick_risk

    survey = pl.read_csv(mv.example_file())
    release = mv.protect(survey, "pca", weight="weight", confidential=["employees", "wages", "rd_spending"], seed=4)
    found = assess_release(release, measures=["dbrl", "ks"], sanity=False)
    assert found.columns == ("employees", "wages", "rd_spending")
    assert any("'rd_spending': -9 taken for a code" in note for note in found.notes)
    assert found.worst_attack is not None
    assert found.worst_attack.id == "clear_uniques", "most columns are released as they are"
    before, after = quick_risk(release, {})
    assert before.value == pytest.approx(1, abs=0.2)
    assert after.value == found.worst_attack.value == 1
    alone = mv.protect(survey.select("employees", "wages", "rd_spending"), "pca", seed=4)
    assert quick_risk(alone, {})[1].value == assess_release(alone, measures="dbrl", sanity=False)["dbrl"].value


@pytest.mark.study
def test_the_default_measures_of_ten_thousand_records_take_fifteen_seconds_at_most() -> None:
    rng = np.random.default_rng(1)
    data = np.exp(0.5 * rng.normal(size=(10_000, 13)) @ (np.eye(13) + 0.3 * rng.normal(size=(13, 13))))
    start = time.process_time()
    mv.assess(data, masked(data), seed=1)
    assert time.process_time() - start <= 15


def test_overall_is_that_of_the_paper_whichever_columns_are_sensitive() -> None:
    """Expression (4) has linkage and interval disclosure of all columns; of the sensitive alone it is another score."""
    rng = np.random.default_rng(5)
    data = rng.standard_normal((150, 4)) @ rng.standard_normal((4, 4))
    released = mv.protect(data, "pca", components=2, seed=1, rules=None).data
    ids = ["overall", "overall_sensitive", "selectivity", "dbrl", "interval_disclosure_own", "summary"]
    some = mv.assess(data, released, measures=ids, sensitive=[1], rules=None, seed=1, sanity=False)
    whole = mv.assess(data, released, measures=["summary"], rules=None, seed=1, sanity=False)["summary"]
    expected = (4 * whole.value + 2 * some["selectivity"].value) / 6
    assert some["overall"].value == pytest.approx(expected, rel=1e-12)
    other = (4 * some["summary"].value + 2 * some["selectivity"].value) / 6
    assert some["overall_sensitive"].value == pytest.approx(other, rel=1e-12)
    assert some["overall"].parts["dbrl"] == whole.parts["dbrl"] != some["dbrl"].value
    assert abs(some["overall"].value - some["overall_sensitive"].value) > 0.01
    alone = mv.assess(data, released, measures=["overall"], sensitive=[1], rules=None, seed=1, sanity=False)
    assert alone["overall"].value == some["overall"].value


def test_the_sensitive_column_that_is_kept_most_is_named() -> None:
    data = np.random.default_rng(6).standard_normal((200, 3))
    released = data.copy()
    released[:, 0] = released[::-1, 0]
    options = {"measures": ["sensitive_correlation"], "rules": None, "sanity": False, "seed": 1}
    found = mv.assess(data, released, sensitive=[0], **options)["sensitive_correlation"]
    assert found.value == pytest.approx(abs(np.corrcoef(data[:, 0], released[:, 0])[0, 1]), rel=1e-12)
    whole = mv.assess(data, released, **options)["sensitive_correlation"]
    assert (whole.value, whole.note) == (pytest.approx(1), "of column '1'")
