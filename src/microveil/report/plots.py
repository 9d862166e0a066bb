"""Pictures as SVG that stands in the page itself: drawn when the report is made, so that the page needs no script.

A picture is a specification in the words of Vega-Lite, whose documentation explains them.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, cast

from microveil.core.late import needed

Row = Mapping[str, Any]
Spec = dict[str, Any]

BLUE, ORANGE, GREY, BLACK = "#1f5fa8", "#c2570c", "#8a8a8a", "#1a1a1a"
NAME_SPACE = "http://www.w3.org/2000/svg"
WIDTH = 620
FACET, ACROSS = 180, 4

PERCENT = {"format": "%"}
UPRIGHT = {"labelAngle": 0}
CONFIG = {
    "aria": False,
    "font": "sans-serif",
    "padding": {"left": 24, "top": 5, "right": 30, "bottom": 5},
    # Letters of a browser may be wider than those measured here.
    "axis": {"labelSeparation": 8},
    "axisY": {"titlePadding": 14},
}


def draw(name: str, title: str, description: str, rows: Iterable[Row], *, hover: bool = False) -> str:
    """The picture of that name as an SVG element with a title and a description for those who cannot see it.

    With `hover`, a mark shows its numbers where the mouse rests on it; browsers do that for titles, without a script.
    """
    found = spec(name, rows)
    if hover:
        found = {**found, "config": {**CONFIG, "aria": True}}
    svg = _svg(json.dumps(found))
    return _inline(_with_titles(svg) if hover else svg, name, title, description)


def _with_titles(svg: str) -> str:
    """The words that a mark has for readers of the screen, as a title; those of axes and frames go."""
    svg = re.sub(
        r'<path aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="[^"]*"([^>]*)/>',
        r"<path\2><title>\1</title></path>",
        svg,
    )
    return re.sub(r' (aria-label|aria-roledescription|aria-hidden|role)="[^"]*"', "", svg)


@lru_cache(maxsize=8)
def _svg(specification: str) -> str:
    """A picture from its specification; some stand in both reports of a release and are drawn once."""
    import vl_convert

    return vl_convert.vegalite_to_svg(specification)


def chart(name: str, rows: Iterable[Row]) -> Any:
    """The picture of that name as altair knows it, for notebooks."""
    alt = needed("altair", "report", "a chart")
    found, inline = spec(name, rows), cast(Any, alt.Data)  # it has no types of its own
    data = inline(**found.pop("data"))  # as a dict it would become a named data set
    drawn = alt.Chart.from_dict({**found, "data": {"values": []}})
    drawn.data = data
    return drawn


def spec(name: str, rows: Iterable[Row]) -> Spec:
    """The picture of that name in the words of Vega-Lite, with its data."""
    values = list(rows)
    return {"data": {"values": values}, "config": CONFIG, **_PICTURES[name](values)}


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


def _mark(kind: str, encoding: Spec, **how: Any) -> Spec:
    """A mark of a kind, drawn as said, for each row."""
    return {"mark": {"type": kind, **how}, "encoding": encoding}


def amount(field: str, **how: Any) -> Spec:
    """A number of each row as a place along an axis, or as a shade."""
    return {"field": field, "type": "quantitative", **how}


def _step(field: str, title: str) -> Spec:
    """A number that counts, one after the other."""
    return {"field": field, "type": "ordinal", "title": title, "axis": UPRIGHT}


def label(field: str, order: Iterable[Any], **axis: Any) -> Spec:
    """A name of each row, in this order; long ones are cut."""
    axis = {"labelLimit": 140, **axis}
    return {"field": field, "type": "nominal", "sort": list(dict.fromkeys(order)), "title": None, "axis": axis}


def _colours(field: str, colours: Mapping[str, str]) -> Spec:
    """A colour for each value of a field, with a legend above."""
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return {"field": field, "type": "nominal", "scale": scale, "legend": {"title": None, "orient": "top"}}


FILES = _colours("file", {"original": ORANGE, "released": BLUE})


def _facets(picture: Spec, rows: list[Row], height: int = 110) -> Spec:
    """One small picture for each column, some in a row, each with its own scale."""
    order = list(dict.fromkeys(row["column"] for row in rows))
    header = {"title": None, "labelLimit": FACET, "labelFontSize": 12}
    return {
        "facet": {"field": "column", "type": "nominal", "sort": order, "header": header},
        "spec": {**picture, "width": FACET, "height": height},
        "columns": ACROSS,
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
    }


def _histograms(rows: list[Row]) -> Spec:
    """The original as an area, the release as a line, so that they can be told apart where they are equal."""
    bends = {row["column"]: row["bend"] for row in rows}
    times = {row["column"] for row in rows if row["time"]}
    ends = {name: [row["at"] for row in rows if row["column"] == name] for name in bends}
    drawn = [_outlines(name, bend, min(ends[name]), max(ends[name])) for name, bend in bends.items()]
    for name, one in zip(bends, drawn, strict=True):
        one["data"] = {"values": [row for row in rows if row["column"] == name]}  # to filter all takes twice the time
        if name in times:
            one["layer"][0]["encoding"]["x"] |= {"axis": {"labels": False, "ticks": False}, "title": "earlier to later"}
    return {"concat": drawn, "columns": ACROSS}


def _ratio_ticks(bend: float, low: float, high: float) -> list[float]:
    """0 and powers of ten on either side, three of them at most."""
    first = math.ceil(math.log10(bend))
    powers = [10.0**k for k in range(first, 1 + max(first, math.floor(math.log10(max(abs(low), abs(high))))))][::-2][:2]
    return sorted(tick for tick in (0.0, *powers, *(-power for power in powers)) if low <= tick <= high)


def bent(bend: float | None) -> Spec:
    """The scale of a column: even steps, or from `bend` on even ratios."""
    return {"zero": False} if bend is None else {"type": "symlog", "constant": bend}


def _outlines(column: str, bend: float | None, low: float, high: float) -> Spec:
    axis: Spec = {"format": "~s", "labelExpr": "datum.value === 0 ? '0' : datum.label"}
    axis |= {"tickCount": 4} if bend is None else {"values": _ratio_ticks(bend, low, high)}
    steps = {
        "x": amount("at", title=None, scale=bent(bend), axis=axis),
        "y": amount("share", title=None, axis={**PERCENT, "tickCount": 4}),
        "color": FILES,
    }
    area = _mark("area", steps, interpolate="step-after", opacity=0.45)
    line = _mark("line", steps, interpolate="step-after", strokeWidth=1.8)
    layers = [
        {**mark, "transform": [{"filter": {"field": "file", "equal": file}}]}
        for file, mark in (("original", area), ("released", line))
    ]
    return {
        "title": {"text": column, "fontSize": 12, "fontWeight": "normal", "limit": FACET},
        "layer": layers,
        "width": FACET,
        "height": 110,
    }


def _tenths(rows: list[Row]) -> Spec:
    """Bars for the release, and a line across each for the original."""
    encoding = {
        "x": _step("part", "part of the original"),
        "y": amount("share", title="share", axis={**PERCENT, "tickCount": 4}),
        "color": FILES,
    }
    marks = {"released": _mark("bar", encoding), "original": _mark("tick", encoding, thickness=2, width=14)}
    layers = [{**mark, "transform": [{"filter": f"datum.file === '{file}'"}]} for file, mark in marks.items()]
    return _facets({"layer": layers}, rows)


def _quantiles(rows: list[Row]) -> Spec:
    original, released = (amount(file, title=file, axis={"tickCount": 5}) for file in ("original", "released"))
    same = {"x": amount("original"), "y": amount("original")}
    line = _mark("line", same, color=GREY, strokeDash=[3, 3])
    points = _mark("point", {"x": original, "y": released}, size=9, filled=True, color=BLUE)
    return _facets({"layer": [line, points]}, rows)


def _change(rows: list[Row], least: float, **legend: str) -> Spec:
    """The shade of a change up or down; round-off, below `least`, is not to look like one."""
    top = max((abs(row["change"]) for row in rows), default=0.0)
    top = max(top, least)
    return amount("change", scale={"scheme": "blueorange", "domain": [-top, top]}, legend=legend)


def _correlations(rows: list[Row]) -> Spec:
    order = list(dict.fromkeys([*(row["other"] for row in rows), *(row["one"] for row in rows)]))
    side = max(18, min(44, WIDTH // max(len(order), 1)))
    cells = {
        "x": label("one", order, labelAngle=-50),
        "y": label("other", order),
        "color": _change(rows, 0.01, title="change"),
    }
    return {**_mark("rect", cells), "width": {"step": side}, "height": {"step": max(16, side * 2 // 3)}}


def _two_way(rows: list[Row]) -> Spec:
    """A cell for each pair of labels, in the colour of its change."""
    across, down = (label(field, (row[field] for row in rows)) for field in ("other", "one"))
    cells = {
        "x": {**across, "title": rows[0]["other_name"], "axis": {"labelLimit": 140, "labelAngle": -50}},
        "y": {**down, "title": rows[0]["one_name"]},
        "color": _change(rows, 0.001, title="change of share", format=".1%"),
    }
    return {**_mark("rect", cells), "width": {"step": 30}, "height": {"step": 20}}


def _group_means(rows: list[Row]) -> Spec:
    points = {
        "x": amount("mean", title="mean", scale={"zero": False}, axis={"tickCount": 4}),
        "y": label("level", (row["level"] for row in rows), labelLimit=90),
        "color": FILES,
        "shape": {"field": "file", "type": "nominal", "legend": None},
    }
    levels = Counter(row["column"] for row in rows if row["file"] == rows[0]["file"])
    height = max(110, 13 * max(levels.values(), default=0))  # so that names do not lie on each other
    return _facets(_mark("point", points, size=40, opacity=0.9), rows, height)


def _losses(rows: list[Row]) -> Spec:
    kinds = {
        "distribution": ["distribution", "(largest distance)"],
        "mean": ["mean", "(in standard deviations)"],
        "spread": ["standard deviation", "(relative)"],
    }
    names = [row["column"] for row in rows]
    panels = [
        {
            "x": amount(kind, title=title, axis={"tickCount": 3}, scale={"domainMin": 0}),
            "y": label("column", names, labels=number == 0),
        }
        for number, (kind, title) in enumerate(kinds.items())
    ]
    return {"hconcat": [{**_mark("bar", bars, color=BLUE), "width": 150, "height": {"step": 16}} for bars in panels]}


def _attacks(rows: list[Row]) -> Spec:
    """A bar for each attack, a tick for luck and one for a shuffle."""
    y = {"y": label("attack", (row["attack"] for row in rows), labelLimit=200)}
    found = amount("value", title="share found", axis=PERCENT, scale={"domain": [0, 1]})
    marks = [_mark("bar", {"x": found, **y}, color=BLUE)]
    for field, colour in (("chance", BLACK), ("shuffle", ORANGE)):
        mark = _mark("tick", {"x": amount(field), **y}, color=colour, thickness=2.5)
        marks.append({**mark, "transform": [{"filter": f"isValid(datum.{field})"}]})
    return {"layer": marks, "width": WIDTH - 200, "height": {"step": 18}}


def _shares(field: str, title: str, rows: list[Row]) -> Spec:
    """A bar from 0 to 1 for each column."""
    bars = {
        "x": amount(field, title=title, axis=PERCENT, scale={"domain": [0, 1]}),
        "y": label("column", (row["column"] for row in rows)),
    }
    return {**_mark("bar", bars, color=BLUE), "width": WIDTH - 120, "height": {"step": 16}}


def _scree(_: list[Row]) -> Spec:
    bars = {
        "x": _step("component", "component"),
        "y": amount("share", title="share of the variance", axis=PERCENT),
        "color": _colours("state", {"perturbed": BLUE, "left as it is": ORANGE}),
    }
    return {**_mark("bar", bars), "width": WIDTH, "height": 180}


def _weights(rows: list[Row]) -> Spec:
    scale, legend = {"scheme": "blues", "domain": [0, 1]}, {"title": "share", **PERCENT}
    cells = {
        "x": _step("component", "component"),
        "y": label("column", (row["column"] for row in rows)),
        "color": amount("share", scale=scale, legend=legend),
    }
    return {**_mark("rect", cells), "width": WIDTH - 120, "height": {"step": 18}}


def _map(rows: list[Row]) -> Spec:
    """A point for each method, with lines that hold most of its releases, and its name."""
    x = amount("risk", title=f"risk: {rows[0]['risk_name']}")
    y = amount("loss", title=f"loss: {rows[0]['loss_name']}")
    colours = {"on the frontier": BLUE, "beaten by another": GREY}
    colours |= {row["place"]: ORANGE for row in rows if row["place"] not in colours}
    coloured = {"color": _colours("place", colours)}
    marks = [
        _mark("rule", {"x": amount("risk_low"), "x2": {"field": "risk_high"}, "y": y, **coloured}),
        _mark("rule", {"x": x, "y": amount("loss_low"), "y2": {"field": "loss_high"}, **coloured}),
        _mark("point", {"x": x, "y": y, **coloured}, filled=True, size=60),
        _mark("text", {"x": x, "y": y, "text": {"field": "label"}}, align="left", dx=6, dy=-6, limit=220),
    ]
    return {"layer": marks, "width": WIDTH, "height": 340}


def _intervals(rows: list[Row]) -> Spec:
    """A line from end to end for each cell, with its value and the decimals in its place."""
    y = {"y": label("cell", (row["cell"] for row in rows), labelLimit=220)}
    verdicts = {"exactly determined": BLACK, "nearly determined": ORANGE, "protected": BLUE}
    coloured = {**y, "color": _colours("verdict", verdicts)}
    line = {"x": amount("low", title="value"), "x2": {"field": "high"}, **coloured}
    ends = [_mark("tick", {"x": amount(end), **coloured}, thickness=2) for end in ("low", "high")]
    points = [_mark("point", {"x": amount("value"), **y}, filled=True, size=40, color=BLACK, opacity=1)]
    if any(row["filled"] is not None for row in rows):
        points.append(_mark("point", {"x": amount("filled"), **y}, shape="cross", size=50, color=BLACK, opacity=1))
    layers = [_mark("rule", line, strokeWidth=3), *ends, *points]
    return {"layer": layers, "width": WIDTH - 220, "height": {"step": 18}}


_PICTURES: dict[str, Callable[[list[Row]], Spec]] = {
    "intervals": _intervals,
    "ru_map": _map,
    "attacks": _attacks,
    "losses": _losses,
    "correlations": _correlations,
    "two_way": _two_way,
    "group_means": _group_means,
    "tenths": _tenths,
    "histograms": _histograms,
    "quantiles": _quantiles,
    "scree": _scree,
    "altered": partial(_shares, "altered", "share of the variance"),
    "missing": partial(_shares, "missing", "share of the cells"),
    "weights": _weights,
}
