"""Two tables on Spark are measured where their rows are: the figures of memory, whatever the partitions."""

from __future__ import annotations

import gc
import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from engines.spark_session import session

import microveil as mv
from microveil.assessment.figures import GAUGES
from microveil.cli.main import main
from microveil.core.errors import ParameterError
from microveil.core.table import Matrix
from microveil.measures.nearest.neighbours import link_distant, link_pieces
from microveil.measures.utility.moments import ks

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

ROWS = 12_000
EXACT = ["mean_bias", "variance_bias", "skewness_bias", "kurtosis_bias", "correlation_bias", "correlation_difference"]
EXACT += ["kl_gaussian", "wasserstein_gaussian", "regression_fit", "ci_overlap", "two_way_tables", "cramers_v_change"]
EXACT += ["rank_correlation_difference", "propensity_2", "exact_matches"]
"""The last ones are drawn from many rows, and of few they are exact."""

TRIED = ["dbrl", "mahalanobis_linkage"]


class Far(Matrix):
    """Columns in memory, of which nothing is asked but what tables on Spark can tell."""

    distant = True

    def select(self, columns):
        return Far([self.columns[j] for j in columns])

    def folded(self, of, columns, fold):
        cells = np.array([self.columns[j] for j in columns])
        cuts = pairwise([0, 1, 700, self.shape[0]])
        parts = [of(cells[:, first:last], slice(first, last)) for first, last in cuts]
        return fold([fold(parts[:2]), *parts[2:]])


def both(rows=ROWS):
    """A table with amounts, a count, a date, labels and holes, and a release of it: noise, and labels at random."""
    rng = np.random.default_rng(3)
    amounts = np.exp(rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 3)) * 0.5)
    amounts[::40, 2] = np.nan
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, rows)
    frame = pl.DataFrame(amounts, schema=list("abc"), nan_to_null=True).with_columns(
        visits=pl.Series(rng.poisson(amounts[:, 0] * 3)),
        day=pl.Series(days),
        region=pl.Series(rng.choice(["north", "south", "east", None], rows).tolist()),
        sex=pl.Series(rng.choice(["f", "m"], rows).tolist()),
        key=pl.Series([f"P{number * 7919 % 99_991:06d}" for number in range(rows)]),
    )
    noise = np.exp(0.15 * rng.normal(size=(rows, 2)))
    released = frame.with_columns(
        a=pl.col("a") * pl.Series(noise[:, 0]),
        b=pl.col("b") * pl.Series(noise[:, 1]),
        day=pl.Series(days + rng.integers(0, 30, rows)),
        sex=pl.Series(rng.permutation(frame["sex"].to_numpy()).tolist()),
    )
    return frame, released


def test_a_search_far_away_finds_what_a_search_here_finds():
    rng = np.random.default_rng(0)
    records = np.round(rng.normal(size=(2_000, 3)), 1)  # with equal ones
    queries, own = records[:300] + rng.normal(0, 0.2, size=(300, 3)), records[:300]
    found = link_distant(queries, own, Far(list(records.T)), lambda cells, rows: cells.T)
    wanted = link_pieces(queries, own, 2_000, lambda rows: records[rows])
    assert np.array_equal(found.nearest, wanted.nearest)
    assert found.credit == pytest.approx(wanted.credit, abs=0)
    assert 0 < found.hits < 300


def test_counts_at_some_values_enclose_the_distance_of_distributions():
    rng = np.random.default_rng(1)
    amounts, counts = rng.lognormal(size=30_000), rng.poisson(2, 30_000).astype(float)
    counts[::7] = np.nan
    before, after = [amounts, counts], [amounts * 1.02, rng.poisson(2.1, 30_000).astype(float)]
    for columns in ([0], [1], [0, 1]):
        one, other = ([side[j] for j in columns] for side in (before, after))
        found, wanted = ks(Far(one), Far(other)), ks(Matrix(one), Matrix(other))
        assert found.low <= wanted.value <= found.high
        assert found.high - found.low < 0.002
        assert found.chance == pytest.approx(wanted.chance)
    assert found.low < found.high, "an amount has values between those that were counted at"
    assert ks(Far(before[1:]), Far(after[1:])).value == ks(Matrix(before[1:]), Matrix(after[1:])).value


def test_what_is_taken_on_spark_is_declared():
    taken = {name for name, gauge in GAUGES.items() if gauge.on_spark}
    assert {*EXACT, *TRIED, "ks", "classifier_auc"} <= taken
    assert not taken & {"rank_linkage", "subspace_linkage", "il1s", "pil", "marginal_distance", "selectivity"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    opened = session("local[2]", tmp_path_factory.mktemp("spark"))
    yield opened
    opened.stop()
    gc.collect()


def in_parts(spark, frame, parts):
    cuts = np.linspace(0, len(frame), parts + 1).astype(int).tolist()
    pieces = [spark.createDataFrame(frame[a:b].to_arrow()).coalesce(1) for a, b in pairwise(cuts)]
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = whole.union(piece)
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(("parts", "order"), [((1, 1), None), ((2, 3), "b")])
def test_figures_are_those_of_memory_whatever_the_partitions(spark, parts, order):
    """Rows are paired by their names, even if the release is in another order."""
    original, released = both()
    frames = [in_parts(spark, table, count) for table, count in zip((original, released), parts, strict=True)]
    frames[1] = frames[1] if order is None else frames[1].orderBy(order)
    asked = {"measures": [*EXACT, *TRIED, "ks", "classifier_auc", "rank_linkage", "il1s"], "seed": 4, "sanity": False}
    found, wanted = mv.assess(*frames, **asked), mv.assess(original, released, **asked)
    assert found.rows == wanted.rows
    assert found.columns == wanted.columns
    for name in EXACT:
        assert found[name].value == pytest.approx(wanted[name].value, rel=1e-9, abs=1e-12), name
        assert found[name].chance == pytest.approx(wanted[name].chance), name
        assert found[name].meaning == wanted[name].meaning
    assert found["ks"].low <= wanted["ks"].value <= found["ks"].high < found["ks"].low + 0.002
    for name in TRIED:
        assert found[name].low <= wanted[name].value <= found[name].high
        assert "1000 of 12000 records" in found[name].note
    assert found["classifier_auc"].low <= wanted["classifier_auc"].value <= found["classifier_auc"].high
    assert {*found.skipped} == {"rank_linkage", "il1s"}
    assert "not measured on Spark; measure a random sample" in found.skipped["il1s"]
    assert any("cell by cell: c, visits" in note for note in found.notes)
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


@pytest.mark.slow
def test_rows_that_nobody_can_pair_are_not_paired(spark):
    original, released = (table.drop("key") for table in both(3_000))
    frames = [in_parts(spark, table, 2) for table in (original, released)]
    found = mv.assess(*frames, measures=["dbrl", "mean_bias"], seed=4, sanity=False)
    assert list(found) == ["mean_bias"]
    assert "nobody knows which rows" in found.skipped["dbrl"]
    for option in ({"keys": ["sex"]}, {"weight": "a"}, {"holdout": original}):
        with pytest.raises(ParameterError, match=f"{next(iter(option))}: does not go with Spark"):
            mv.assess(*frames, **option)
    for other in (released, [frames[1], frames[1]]):
        with pytest.raises(ParameterError, match="is no DataFrame of Spark and no path"):
            mv.assess(frames[0], other)


@pytest.mark.slow
def test_the_default_set_is_taken_of_a_release_with_labels(spark):
    """By `veil` as it comes; what looks at all records of a file of that size finds what it finds in memory."""
    original, _ = both(6_000)
    original = original.select("a", "b", "visits", pl.col("region").fill_null("west"), "sex")
    frame = in_parts(spark, original, 2)
    release = mv.protect_spark(frame, seed=1)
    found = mv.assess(frame, release, seed=4, sanity=False)
    wanted = mv.assess(original, pl.from_arrow(release.data.toArrow()), seed=4, sanity=False)
    assert all("not measured on Spark" in reason for reason in found.skipped.values())
    for name in ("max_record_risk", "exact_matches", "two_way_tables"):
        assert found[name].value == pytest.approx(wanted[name].value), name
    assert found["mixed_linkage" if "mixed_linkage" in found else "dbrl"].value < 0.01
    release.close()


@pytest.mark.slow
def test_a_release_on_spark_knows_its_rows(spark):
    original, _ = both(6_000)
    frame = in_parts(spark, original.select("a", "b", "visits"), 3)
    release = mv.protect_spark(frame, "noise", rules=None, seed=1)
    found = mv.assess(frame, release, seed=4, measures=["dbrl", "worst_attack"])
    whole = pl.from_arrow(release.data.toArrow())
    wanted = mv.assess(original.select("a", "b", "visits"), whole, seed=4, measures=["dbrl"])
    assert found["dbrl"].low <= wanted["dbrl"].value <= found["dbrl"].high
    assert found["dbrl"].value > 0.01
    assert found.sanity.identity["dbrl"].value == 1.0
    release.close()


@pytest.mark.slow
def test_on_the_command_line(spark, tmp_path, capsys):
    files = [tmp_path / "original.parquet", tmp_path / "released.parquet"]
    original, released = both(3_000)
    original.write_parquet(files[0])
    released.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(files[1])
    asked = ["--engine", "spark", "--measures", "dbrl,mean_bias", "--seed", "4", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["assess", *map(str, files), *asked])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)["measures"]
    wanted = mv.assess(original, released, measures=["dbrl", "mean_bias"], seed=4)
    assert found["mean_bias"]["value"] == pytest.approx(wanted["mean_bias"].value, rel=1e-9)
    assert found["dbrl"]["low"] <= wanted["dbrl"].value <= found["dbrl"]["high"]
