"""Pictures as SVG that stands in the page itself: drawn when the report is made, so that the page needs no script."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

BLUE, ORANGE, GREY = "#1f5fa8", "#c2570c", "#8a8a8a"
NAME_SPACE = "http://www.w3.org/2000/svg"
WIDTH = 620
FACET = 185


def draw(name: str, title: str, description: str, rows: Sequence[Row]) -> str:
    """The picture of that name as an SVG element with a title and a description for those who cannot see it."""
    import vl_convert

    return _inline(vl_convert.vegalite_to_svg(chart(name, rows).to_dict()), name, title, description)


def chart(name: str, rows: Sequence[Row]) -> Any:
    """The picture of that name as altair knows it, for notebooks."""
    return _CHARTS[name](list(rows)).configure(aria=False, font="sans-serif")


def as_file(svg: str) -> str:
    """An element of a page as a file of its own, which has to say what it is."""
    return svg.replace("<svg", f'<svg xmlns="{NAME_SPACE}"', 1) + "\n"


def _inline(svg: str, name: str, title: str, description: str) -> str:
    """Fit to stand in a page beside others: names of its own, no address of a name space, and words."""
    start, _, body = svg.partition(">")
    start = re.sub(r' (xmlns(:\w+)?|class)="[^"]*"', "", start)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", body)
    words = (
        f'<title id="{name}-title">{html.escape(title)}</title><desc id="{name}-desc">{html.escape(description)}</desc>'
    )
    return f'{start} role="img" aria-labelledby="{name}-title {name}-desc">{words}{body}'


def _data(rows: list[Row]) -> Any:
    import altair as alt

    data: Any = alt.Data  # it has no types of its own
    return data(values=rows)


def _file_colours() -> Any:
    import altair as alt

    scale = alt.Scale(domain=["original", "released"], range=[ORANGE, BLUE])
    return alt.Color("file:N", scale=scale, legend=alt.Legend(title=None, orient="top"))


def _facets(chart: Any, rows: list[Row]) -> Any:
    """One small picture for each column, three in a row, each with its own scale."""
    import altair as alt

    order = list(dict.fromkeys(row["column"] for row in rows))
    facet = alt.Facet("column:N", title=None, sort=order, header=alt.Header(labelLimit=FACET))
    sized = chart.properties(width=FACET, height=110)
    return sized.facet(facet, columns=3, data=_data(rows)).resolve_scale(x="independent", y="independent")


def _histograms(rows: list[Row]) -> Any:
    import altair as alt

    bars = (
        alt.Chart()
        .mark_rect(opacity=0.5)
        .encode(
            x=alt.X("from:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4, format="~s")),
            x2="to:Q",
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%", tickCount=4)),
            y2=alt.datum(0),
            color=_file_colours(),
        )
    )
    return _facets(bars, rows)


def _tenths(rows: list[Row]) -> Any:
    """Bars for the release, and a line across each for the original."""
    import altair as alt

    def of(file: str) -> Any:
        return (
            alt.Chart()
            .transform_filter(alt.datum.file == file)
            .encode(
                x=alt.X("part:O", title="part of the original", axis=alt.Axis(labelAngle=0)),
                y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%", tickCount=4)),
                color=_file_colours(),
            )
        )

    return _facets(alt.layer(of("released").mark_bar(), of("original").mark_tick(thickness=2, width=14)), rows)


def _quantiles(rows: list[Row]) -> Any:
    import altair as alt

    points = (
        alt.Chart()
        .mark_point(size=9, filled=True, color=BLUE)
        .encode(
            x=alt.X("original:Q", title="original", axis=alt.Axis(tickCount=5)),
            y=alt.Y("released:Q", title="released", axis=alt.Axis(tickCount=5)),
        )
    )
    line = alt.Chart().mark_line(color=GREY, strokeDash=[3, 3]).encode(x="original:Q", y="original:Q")
    return _facets(alt.layer(line, points), rows)


def _correlations(rows: list[Row]) -> Any:
    import altair as alt

    order = list(dict.fromkeys(row["other"] for row in rows)) + list(dict.fromkeys(row["one"] for row in rows))
    order = list(dict.fromkeys(order))
    most = max((abs(row["change"]) for row in rows), default=0.0)
    top = max(most, 0.01)  # round-off is not to look like a change
    colour = alt.Color(
        "change:Q", scale=alt.Scale(scheme="blueorange", domain=[-top, top]), legend=alt.Legend(title="change")
    )
    side = max(18, min(44, WIDTH // max(len(order), 1)))
    return (
        alt.Chart(_data(rows))
        .mark_rect()
        .encode(
            x=alt.X("one:N", sort=order, title=None, axis=alt.Axis(labelAngle=-50, labelLimit=140)),
            y=alt.Y("other:N", sort=order, title=None, axis=alt.Axis(labelLimit=140)),
            color=colour,
        )
        .properties(width=alt.Step(side), height=alt.Step(max(16, side * 2 // 3)))
    )


def _losses(rows: list[Row]) -> Any:
    import altair as alt

    kinds = {
        "distribution": "distribution (largest distance)",
        "mean": "mean (in standard deviations)",
        "spread": "standard deviation (relative)",
    }
    order = [row["column"] for row in rows]
    panels = [
        alt.Chart(_data(rows))
        .mark_bar(color=BLUE)
        .encode(
            x=alt.X(f"{kind}:Q", title=title, axis=alt.Axis(tickCount=4), scale=alt.Scale(domainMin=0)),
            y=alt.Y("column:N", sort=order, title=None, axis=alt.Axis(labels=number == 0, labelLimit=140)),
        )
        .properties(width=150, height=alt.Step(16))
        for number, (kind, title) in enumerate(kinds.items())
    ]
    return alt.hconcat(*panels)


def _perturbed_colours() -> Any:
    import altair as alt

    scale = alt.Scale(domain=["perturbed", "left as it is"], range=[BLUE, ORANGE])
    return alt.Color("state:N", scale=scale, legend=alt.Legend(title=None, orient="top"))


def _scree(rows: list[Row]) -> Any:
    import altair as alt

    return (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("component:O", title="component", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="share of the variance", axis=alt.Axis(format="%")),
            color=_perturbed_colours(),
        )
        .properties(width=WIDTH, height=180)
    )


def _weights(rows: list[Row]) -> Any:
    import altair as alt

    order = list(dict.fromkeys(row["column"] for row in rows))
    return (
        alt.Chart(_data(rows))
        .mark_rect()
        .encode(
            x=alt.X("component:O", title="component", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("column:N", sort=order, title=None, axis=alt.Axis(labelLimit=140)),
            color=alt.Color(
                "share:Q", scale=alt.Scale(scheme="blues", domain=[0, 1]), legend=alt.Legend(title="share", format="%")
            ),
        )
        .properties(width=WIDTH - 120, height=alt.Step(18))
    )


def _altered(rows: list[Row]) -> Any:
    import altair as alt

    order = [row["column"] for row in rows]
    return (
        alt.Chart(_data(rows))
        .mark_bar(color=BLUE)
        .encode(
            x=alt.X(
                "altered:Q", title="share of the variance", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])
            ),
            y=alt.Y("column:N", sort=order, title=None, axis=alt.Axis(labelLimit=140)),
        )
        .properties(width=WIDTH - 120, height=alt.Step(16))
    )


def _map(rows: list[Row]) -> Any:
    import altair as alt

    names = {row["risk_name"]: row["loss_name"] for row in rows}
    (risk, loss), *_ = names.items()
    base = alt.Chart(_data(rows)).properties(width=WIDTH, height=340)
    x, y = alt.X("risk:Q", title=f"risk: {risk}"), alt.Y("loss:Q", title=f"loss: {loss}")
    colour = alt.Color(
        "place:N",
        scale=alt.Scale(domain=["on the frontier", "beaten by another"], range=[BLUE, GREY]),
        legend=alt.Legend(title=None, orient="top"),
    )
    return alt.layer(
        base.mark_rule().encode(x=alt.X("risk_low:Q"), x2="risk_high:Q", y=y, color=colour),
        base.mark_rule().encode(x=x, y=alt.Y("loss_low:Q"), y2="loss_high:Q", color=colour),
        base.mark_point(filled=True, size=60).encode(x=x, y=y, color=colour),
        base.mark_text(align="left", dx=6, dy=-6, limit=220).encode(x=x, y=y, text="label:N"),
    )


def _intervals(rows: list[Row]) -> Any:
    """A line from end to end for each cell, with its value and the decimals in its place."""
    import altair as alt

    verdicts = ["exactly determined", "nearly determined", "protected"]
    order = [row["cell"] for row in rows]
    y = alt.Y("cell:N", title=None, sort=order, axis=alt.Axis(labelLimit=220))
    scale = alt.Scale(domain=verdicts, range=["#1a1a1a", ORANGE, BLUE])
    colour = alt.Color("verdict:N", scale=scale, legend=alt.Legend(title=None, orient="top"))
    base = alt.Chart(_data(rows)).encode(y=y)
    lines = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", title="value"), x2="high:Q", color=colour)
    ends = [base.mark_tick(thickness=2).encode(x=f"{end}:Q", color=colour) for end in ("low", "high")]
    true = base.mark_point(filled=True, size=40, color="#1a1a1a", opacity=1).encode(x="value:Q")
    decimals = base.mark_point(shape="cross", size=50, color="#1a1a1a", opacity=1).encode(x="filled:Q")
    marks = [lines, *ends, true] + ([decimals] if any(row["filled"] is not None for row in rows) else [])
    return alt.layer(*marks).properties(width=WIDTH - 220, height=alt.Step(18))


_CHARTS: dict[str, Callable[[list[Row]], Any]] = {
    "intervals": _intervals,
    "ru_map": _map,
    "losses": _losses,
    "correlations": _correlations,
    "tenths": _tenths,
    "histograms": _histograms,
    "quantiles": _quantiles,
    "scree": _scree,
    "altered": _altered,
    "weights": _weights,
}
