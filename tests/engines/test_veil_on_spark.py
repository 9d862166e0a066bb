"""The default method on Spark: values of all rows, exchanged within records towards the moments of all."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from engines.spark_session import session
from scipy.stats import ks_2samp

import microveil as mv
from microveil.core.errors import DataError, ParameterError
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata
from microveil.engines.spark.arranging import FeatureCurves, RecordExchange, levels_of, quantiles_of
from microveil.release.returned import returned_records
from microveil.restore.arrange import ExchangeSearch
from microveil.restore.exchanges import second_moments

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
ROWS = 12_000


def amounts(rows=ROWS):
    rng = np.random.default_rng(1)
    return np.exp(rng.normal(size=(rows, 4)) @ rng.normal(size=(4, 4)) * 0.4)


def test_curves_are_ranks_and_values_where_the_sample_is_all_rows():
    column, other = amounts()[:, 0], np.sort(amounts()[:, 1])
    mapped = quantiles_of(other)(levels_of(column)(column))
    expected = np.empty_like(column)
    expected[np.argsort(column)] = other
    assert mapped == pytest.approx(expected, rel=1e-9)


def test_steps_have_no_values_in_between():
    counts = np.sort(np.random.default_rng(0).poisson(2, 5_000).astype(float))
    found = quantiles_of(counts)(np.linspace(0, 1, 1_001))
    assert set(found) <= set(counts)
    assert (found[0], found[-1]) == (counts[0], counts[-1])


def test_records_that_know_nothing_of_each_other_bring_the_error_of_the_whole_down(monkeypatch):
    """Each record moves by the error of the whole, as if all others did the same; and keeps its own values."""
    monkeypatch.setattr("microveil.engines.spark.arranging.LOCAL_PASSES", 20)
    data, count = np.log(amounts(6_000)), 6_000
    start = np.array([np.random.default_rng(j).permutation(column) for j, column in enumerate(data.T)])
    search = ExchangeSearch(Microdata(Matrix(list(data.T.copy())), tuple("abcd")), None)
    curves = FeatureCurves.of(list(data.T), search.limits, search.blocks)
    weights = np.full(count, 1 / count)
    goal = replace(search.goal, target=second_moments(curves.features(data.T), weights))
    between = 1.0 * (search.blocks.owner[:, None] != search.blocks.owner)

    def off(columns):
        return goal.error(second_moments(curves.features(columns), weights))

    worst = [np.abs(off(start) * between).max()]
    columns = start
    for number in range(2):
        stream = Streams.from_seed(1).stream("exchange", number)
        error = off(columns)
        by = RecordExchange(curves, goal, search.blocks.moving, error, between, worst[-1] / 20, stream, range(4))
        cuts = [slice(first, first + 2_000) for first in range(0, count, 2_000)]
        columns = np.hstack([by(columns[:, rows], rows) for rows in cuts])
        worst.append(np.abs(off(columns) * between).max())
    assert worst[0] > 0.3
    assert worst[1] < 0.5 * worst[0]
    assert worst[2] < 0.7 * worst[1]
    for rows in cuts:
        assert (np.sort(columns[:, rows], axis=1) == np.sort(start[:, rows], axis=1)).all()


def test_features_of_a_sample_are_those_of_memory():
    """Of heaps of equal numbers, too, which tables of few rows have features for."""
    data = np.round(amounts(1_500), 1)
    data[:600, 1] = 0.0
    search = ExchangeSearch(Microdata(Matrix(list(data.T.copy())), tuple("abcd")), None)
    assert search.blocks.bands
    found = FeatureCurves.of(list(data.T), search.limits, search.blocks).features(data.T)
    assert found == pytest.approx(search.features(list(data.T.copy()), ()), abs=1e-5)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    opened = session("local[2]", tmp_path_factory.mktemp("spark"))
    yield opened
    opened.stop()
    gc.collect()


def rows_of(frame):
    return pd.DataFrame(
        {name: column.to_numpy() for name, column in zip(frame.columns, frame.toArrow().columns, strict=True)}
    )


@pytest.mark.slow
def test_the_default_method_keeps_its_statistics_on_spark(spark):
    values = amounts()
    data = pl.DataFrame(values, schema=list("abcd")).with_columns(
        visits=pl.Series(np.random.default_rng(2).poisson(values[:, 0] * 2)),
        total=pl.Series(values[:, 1] + values[:, 2]),
    )
    frame = spark.createDataFrame(data.to_arrow()).repartition(3)
    before = rows_of(frame)
    release = mv.protect_spark(frame, seed=5)
    again = mv.protect_spark(frame, seed=5)
    after = rows_of(release.data)
    assert release.method == "veil"
    pd.testing.assert_frame_equal(after, rows_of(again.data))
    own = ["a", "b", "c", "d", "visits"]  # the total follows from them
    for kind in ("pearson", "spearman"):
        assert np.abs(after[own].corr(kind) - before[own].corr(kind)).to_numpy().max() < 0.002
    assert max(ks_2samp(before[name], after[name]).statistic for name in own) < 0.01
    assert (after.total - after.b - after.c).abs().max() < 1e-9, "a sum that was found"
    assert (after.visits == after.visits.round()).all(), "a count stays one"
    assert 0 <= after.visits.min() <= after.visits.max() <= before.visits.max()
    assert (before[["a", "b", "d"]] == after[["a", "b", "d"]]).mean().max() < 0.01
    assert release.kept["covariance"] < 0.01
    assert np.corrcoef(before.a, after.a)[0, 1] < 0.1
    for one in (release, again):
        one.close()


@pytest.mark.slow
def test_what_is_not_arranged_on_spark_is_refused_by_name(spark):
    data = pl.DataFrame(amounts(300), schema=list("abcd")).with_columns(region=pl.Series(["north", "south"] * 150))
    frame = spark.createDataFrame(data.to_arrow())
    with pytest.raises(DataError, match=r"'region' holds labels.*engine='stream'"):
        mv.protect_spark(frame)
    for options in ({"public": ["a"]}, {"weight": "a"}):
        with pytest.raises(ParameterError, match=f"{next(iter(options))}: veil exchanges values on Spark without"):
            mv.protect_spark(frame, **options, keep=["region"])
    with pytest.raises(ParameterError, match="cannot run veil"):
        mv.protect_spark(frame, exact=True, keep=["region"])


@pytest.mark.slow
def test_a_record_that_came_back_is_drawn_away(spark, monkeypatch):
    """In a small table of whole numbers, chance brings records back; as in memory, it is drawn again then."""
    rng = np.random.default_rng(5)
    values = np.round(40 + 12 * rng.normal(size=(60, 2)) @ [[1.6, 0.6], [0.6, 1.6]])
    frame = spark.createDataFrame(pl.DataFrame(values, schema=["a", "b"]).to_arrow()).coalesce(1)

    def back():
        release = mv.protect_spark(frame, seed=3)
        after = rows_of(release.data).to_numpy()
        release.close()
        return returned_records(list(values.T), list(after.T)), " ".join(release.warnings)

    assert back() == (0, "")
    monkeypatch.setattr("microveil.protection.on_spark.most_draws", lambda *_: 1)
    count, said = back()
    assert count > 0
    assert f"{count} records that nobody else has are in the release unchanged" in said
