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
from microveil.core.table import LabelColumns, Matrix, Microdata
from microveil.engines.spark.arranging import RecordExchange, _with_all_levels, levels_of, quantiles_of
from microveil.engines.spark.features import FeatureCurves, RowParts, Staying
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


def curves_of(columns, present, labels=(), sizes=()):
    """A search on a sample (columns x rows), and its features by curves."""
    names, codes = tuple("abcdefgh"[: len(columns)]), tuple(labels)
    table = Microdata(Matrix(list(columns.copy())), names, labels=LabelColumns(tuple("uvw"[: len(codes)]), codes))
    search = ExchangeSearch(table, None if present.all() else present.T)
    blocks = _with_all_levels(search.blocks, sizes)
    staying = Staying.of(search, blocks, table, present)
    seen = [column[there] for column, there in zip(columns, present, strict=True)]
    return search, FeatureCurves.of(seen, search.limits, blocks, staying)


def of_parts(rows=6_000):
    """Columns that go together, with gaps that depend on one, and labels that depend on another; one level is rare."""
    rng, columns = np.random.default_rng(4), np.log(amounts(rows)).T
    present = np.array(
        [np.ones(rows, bool), rng.random(rows) < 0.7 + 0.2 * (columns[0] > 0), *np.ones((2, rows), bool)]
    )
    first = np.digitize(columns[2] + rng.normal(size=rows), [-0.5, 0.5])
    second = np.where(rng.random(rows) < 0.5, first, rng.integers(0, 3, rows))
    second[:4] = 3
    return columns, present, np.array([first, second])


@pytest.mark.parametrize(("mixed_kinds", "falls_to"), [(False, (0.5, 0.7)), (True, (0.1, 0.9))])
def test_records_that_know_nothing_of_each_other_bring_the_error_of_the_whole_down(monkeypatch, mixed_kinds, falls_to):
    """Each record moves by the error of the whole, as if all others did the same; and keeps its own values, labels and
    gaps."""
    monkeypatch.setattr("microveil.engines.spark.arranging.LOCAL_PASSES", 20)
    data, present, labels = of_parts()
    present, labels = (present, labels) if mixed_kinds else (np.ones_like(present), labels[:0])
    (wide, count), kinds = data.shape, len(labels)
    search, curves = curves_of(data, present, labels, [3, 5][:kinds])
    weights = np.full(count, 1 / count)
    goal = replace(search.goal, target=second_moments(curves.features(data, present, labels), weights))
    scale = np.where(curves.staying.can_change(curves.blocks), 1 / search.unit, 0.0)
    mixed = np.vstack([data, labels])
    for j, column in enumerate(mixed):
        there = present[j] if j < len(present) else np.ones(count, bool)
        column[there] = np.random.default_rng(j).permutation(column[there])
    own = wide + kinds
    parts = RowParts(range(wide), range(own, own + wide), range(wide, own))
    cells = np.vstack([mixed, np.where(present, data, np.nan)])
    cuts = [slice(first, first + 2_000) for first in range(0, count, 2_000)]

    def off(now):
        return np.where(scale > 0, goal.error(second_moments(curves.features(*parts.of(now)), weights)), 0.0)

    worst, start = [np.abs(off(cells) * scale).max()], cells.copy()
    for number in range(2):
        stream = Streams.from_seed(1).stream("exchange", number)
        by = RecordExchange(curves, goal, off(cells), scale, worst[-1] / 20, stream, parts)
        cells[:own] = np.hstack([by(cells[:, rows], rows) for rows in cuts])
        worst.append(np.abs(off(cells) * scale).max())
    assert worst[0] > 20
    for before, after, share in zip(worst, worst[1:], falls_to, strict=False):
        assert after < share * before
    for rows in cuts:
        assert (np.sort(cells[:own, rows], axis=1) == np.sort(start[:own, rows], axis=1)).all()
        assert (cells[:4, rows][~present[:, rows]] == start[:4, rows][~present[:, rows]]).all()


@pytest.mark.parametrize("gaps", [False, True])
def test_features_of_a_sample_are_those_of_memory(gaps):
    """Of heaps of equal numbers, of gaps and of labels, too."""
    data, present, labels = of_parts(1_500)
    data = np.round(np.exp(data), 1)
    data[3, :600] = 0.0
    present = present if gaps else np.ones_like(present)
    search, curves = curves_of(data, present, labels, [3, 5])
    assert search.blocks.bands
    assert bool(search.anchors) == gaps
    found = curves.features(data, present, labels)
    assert found == pytest.approx(search.features(list(data.copy()), list(labels)), abs=1e-5)


def test_gaps_of_few_records_and_levels_that_no_sample_has_play_no_part():
    data, present, labels = of_parts(1_500)
    present[2] = present[1]
    present[2, :2] = ~present[1, :2]  # but for two records, the gaps of two columns go together
    _, curves = curves_of(data, present, labels, [3, 5])
    anchors = curves.features(data, present, labels)[:, :2]
    assert (anchors[:2] == 0).all()
    assert (anchors[2:] != 0).all()
    unseen = present[:, :3].copy()
    unseen[1], unseen[2] = [True, False, True], [False, True, True]
    labels = np.array([labels[0][:3], [4, 3, 0]])  # level 4 is in no row, and level 3 in four
    found = curves.features(data[:, :3], unseen, labels)
    assert (found[:2, :2] == 0).all()
    own = curves.blocks.labels[1]
    assert (found[:2, own.first : own.last] < 0).all()


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
    frame = spark.createDataFrame(pl.DataFrame(amounts(300), schema=list("abcd")).to_arrow())
    for options in ({"public": ["a"]}, {"weight": "a"}):
        with pytest.raises(ParameterError, match=f"{next(iter(options))}: veil exchanges values on Spark without"):
            mv.protect_spark(frame, **options)
    with pytest.raises(ParameterError, match="cannot run veil"):
        mv.protect_spark(frame, exact=True)


@pytest.mark.slow
def test_a_record_that_came_back_is_drawn_away(spark, monkeypatch):
    """In a small table of whole numbers, chance brings records back; as in memory, it is drawn again then."""
    rng = np.random.default_rng(5)
    values = np.round(40 + 12 * rng.normal(size=(60, 2)) @ [[1.6, 0.6], [0.6, 1.6]])
    frame = spark.createDataFrame(pl.DataFrame(values, schema=["a", "b"]).to_arrow()).coalesce(1)

    def back():
        release = mv.protect_spark(frame, seed=0)
        after = rows_of(release.data).to_numpy()
        release.close()
        return returned_records(list(values.T), list(after.T)), " ".join(release.warnings)

    assert back() == (0, "")
    monkeypatch.setattr("microveil.protection.on_spark.most_draws", lambda *_: 1)
    count, said = back()
    assert count > 0
    assert f"{count} records that nobody else has are in the release unchanged" in said


def people(rows, *, gaps=True):
    """Amounts, a count, labels of text, numbers and truth values that go together, a rare level; gaps that do, too."""
    rng, values = np.random.default_rng(2), amounts(rows)
    region = np.array(["north", "south", "east", "west"])[np.digitize(np.log(values[:, 0]), [-0.5, 0, 0.5])]
    region[: rows // 1_000] = "abroad"
    member = rng.random(rows) < np.where(region == "north", 0.7, 0.2)
    frame = pl.DataFrame(
        {
            "income": values[:, 0],
            "rent": values[:, 1] + 5,
            "visits": rng.poisson(values[:, 2] * 2),
            "region": region,
            "member": member,
            "grade": pl.Series(rng.integers(1, 6, rows)).cast(pl.String) + " of 5",
            "birth": pl.Series(np.datetime64("1960-01-01") + rng.integers(0, 15_000, rows).astype("timedelta64[D]")),
        }
    )
    gone = pl.Series(rng.random(rows) < 0.05 + 0.3 * (region == "north"))
    rare = pl.Series(rng.random(rows) < 0.04)
    if not gaps:
        return frame
    return frame.with_columns(
        pl.when(~gone).then("rent"),
        pl.when(~rare).then("grade"),
        pl.when(~rare).then("birth"),
        pl.when(rare).then(-9).otherwise("visits").alias("visits"),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("all_exchanges")  # as many as the workers make
@pytest.mark.parametrize("gaps", [False, True])
def test_a_table_of_one_record_is_that_of_memory(spark, gaps):
    """Labels of all types, missing cells, codes and dates: the blocks of one partition are those of memory."""
    data = people(1_500, gaps=gaps)
    frame = spark.createDataFrame(data.to_arrow()).coalesce(1)
    release = mv.protect_spark(frame, seed=5, rules="none")
    inside = mv.protect(data, seed=5, rules="none")
    after = pl.DataFrame(release.data.toArrow())
    assert after.columns == inside.data.columns
    for name in ("income", "rent", "visits"):
        assert after[name].to_numpy() == pytest.approx(inside.data[name].to_numpy(), rel=1e-9, nan_ok=True)
    for name in ("region", "member", "grade", "birth"):
        assert after[name].equals(inside.data[name])
    assert release.kept == pytest.approx(inside.kept, rel=1e-6, abs=1e-12)
    release.close()


@pytest.mark.slow
def test_labels_and_gaps_keep_their_statistics_on_spark(spark):
    data = people(ROWS)
    frame = spark.createDataFrame(data.to_arrow()).repartition(3)
    before = pl.DataFrame(frame.toArrow())
    release = mv.protect_spark(frame, seed=5)
    after = pl.DataFrame(release.data.toArrow())
    assert after.schema["member"] == pl.Boolean
    for name in ("region", "member", "grade"):  # as many of each level, and none with its record but by chance
        assert after[name].value_counts().sort(name).equals(before[name].value_counts().sort(name))
        # Measured before gaps go to other rows, with the labels that go with them.
        assert 0.9 < release.labels[name].achieved < 1.03
        told = before[name].fill_null("") if before[name].dtype == pl.String else before[name]
        chance = np.square(told.value_counts()["count"].to_numpy() / ROWS).sum()
        assert abs((after[name].eq_missing(before[name])).mean() - chance) < 0.02
    assert not (after["region"] == "abroad").filter(before["region"] == "abroad").any()
    gaps = (pl.col("rent").is_null(), pl.col("birth").is_null(), pl.col("visits") == -9)
    old, new = ([table.select(gap).to_series() for gap in gaps] for table in (before, after))
    for there, now in zip(old, new, strict=True):
        assert there.sum() == now.sum()
        assert abs((there & now).sum() / there.sum() - there.mean()) < 0.05, "with its record by chance only"
    assert release.kept["two-way tables"] < 0.002
    assert release.kept["group means"] < 0.05
    means = [
        table.filter(pl.col("region") != "abroad")
        .group_by("region")
        .agg(pl.col("income", "rent").mean(), pl.col("rent").is_null().mean().alias("gone"))
        .sort("region")
        .select(pl.exclude("region"))
        .to_numpy()
        for table in (before, after)
    ]
    assert np.abs(means[0] - means[1]).max() < 0.02
    assert len(np.unique(np.round(means[0][:, 2], 1))) > 1, "gaps that go with a region still do"
    own = ["income", "rent", "region", "member", "grade", "birth"]
    same = after.select(own).join(before.select(own), on=own, how="inner", nulls_equal=True)
    assert same.height == 0
    release.close()


@pytest.mark.slow
def test_labels_alone_and_labels_to_regress_on(spark):
    data = people(9_000, gaps=False)
    frame = spark.createDataFrame(data.to_arrow()).repartition(2)
    before = pl.DataFrame(frame.toArrow())
    release = mv.protect_spark(frame, confidential=["region", "member", "grade"], drop=["visits", "birth"], seed=1)
    after = pl.DataFrame(release.data.toArrow())
    assert release.in_clear == ("income", "rent")
    assert release.kept["two-way tables"] < 0.002
    assert (after["region"] == before["region"]).mean() < 0.4
    chosen = {"confidential": ["income", "rent"], "public": ["grade", "member"], "seed": 2}
    there, here = mv.protect_spark(frame, "ipso", **chosen), mv.protect(before, "ipso", **chosen)
    found = pl.DataFrame(there.data.toArrow())
    for name in ("income", "rent"):
        assert found[name].to_numpy() == pytest.approx(here.data[name].to_numpy(), rel=1e-9)
    for one in (release, there):
        one.close()


@pytest.mark.slow
def test_labels_that_are_too_many_or_too_few_are_refused_by_name(spark, monkeypatch):
    frame = spark.createDataFrame(people(3_000, gaps=False).to_arrow())
    with pytest.raises(DataError, match="1 labels of column 'region' have fewer than 10 rows"):
        mv.protect_spark(frame, "ipso", confidential=["income", "rent"], public=["region"])
    monkeypatch.setattr("microveil.engines.spark.columns.MOST_LEVELS", 8)
    with pytest.raises(DataError, match="labels have more than 8 levels together"):
        mv.protect_spark(frame)
