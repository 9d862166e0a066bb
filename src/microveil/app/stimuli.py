"""What raters are shown: each side of a pair as a picture, or as pictures and figures of a table. Done by the worker.

Both sides are made alike (same columns, same axes, same digits, no names of files), so that only what was done to the
data can tell them apart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from microveil.assessment import mos
from microveil.assessment.pairing import pair_up
from microveil.core.arrays import Array
from microveil.core.errors import DataError, FileError, ParameterError
from microveil.core.table import Matrix
from microveil.io.files.formats import ReadOptions
from microveil.io.frames.dataframes import open_frame
from microveil.io.tables import read_table
from microveil.options import Assess
from microveil.report import plots, portrait

SHOWN, LABELLED, LEVELS = 6, 2, 8
"""Columns of numbers and of labels of a table that are shown, and levels of a label."""

FIGURES = ("mean", "sd", "10 %", "median", "90 %")
AXIS = {"format": "~s", "tickCount": 4}
PlainData = dict[str, Any]


def open_session(task: Mapping[str, Any], tell: Any) -> PlainData:
    """A session of `microveil mos session` and the ratings that there are already, made ready to be shown."""
    file = Path(task["session"])
    session = mos.read_session(file)
    if session.simulated:
        raise ParameterError("the observers of this session are simulated", "make one without --simulated")
    for number, one in enumerate(session.stimuli):
        if one.original is None or one.processed is None:
            raise FileError(
                f"the session names no files for stimulus {number + 1}",
                "give `microveil mos session` a table with the columns id, source, original, processed",
            )
        tell("making the pairs", number / len(session.stimuli))
        sides = [mos.shades_or_table(file.parent / name) for name in (one.original, one.processed)]
        _write(number, *sides)
    ratings = Path(task["ratings"])
    return _session_data(session, mos.read_ratings(ratings, session) if ratings.is_file() else None)


def make_session(task: Mapping[str, Any], tell: Any) -> PlainData:
    """A session of the candidates of a case, its file, and its pairs made ready to be shown."""
    original = read_table(Path(task["source"]), ReadOptions(**task["reading"]))[0]
    name, stimuli, frames = Path(task["source"]).stem[:80], [], []
    for number, (candidate, path) in enumerate(task["candidates"].items()):
        tell("making the pairs", number / len(task["candidates"]))
        frames.append(read_table(Path(path))[0])
        stimuli.append(mos.stimulus(candidate, original, frames[-1], source=name))
    session = mos.make_session(stimuli, task["observers"], name=name)
    mos.write(session, Path("session.toml"))
    for number, stimulus in enumerate(session.stimuli):
        _write(number, original, original if stimulus.hidden else frames[number])
    return _session_data(session, None)


def score(task: Mapping[str, Any], tell: Any) -> PlainData:
    """The scores that follow from the ratings so far, and who was screened out."""
    tell("screening the raters", None)
    if not Path(task["ratings"]).is_file():
        raise DataError("nobody has rated anything yet", "hand over to a rater first")
    return mos.score(mos.read_ratings(Path(task["ratings"]), Path(task["session"]))).to_dict()


def _session_data(session: mos.Session, given: mos.Ratings | None) -> PlainData:
    """What the server needs of a session: who sees what where, and the marks that there are."""
    marks = []
    if given is not None:
        if given.reference is None:
            raise DataError("the ratings have one score for each pair", "name a new file: here both sides are rated")
        for i, j in np.argwhere(~np.isnan(given.given)).tolist():
            both = float(given.reference[i, j]), float(given.processed[i, j])
            marks.append([session.observers[i].id, session.stimuli[j].id, *both])
    people = [{"id": one.id, "order": list(one.order), "reference": list(one.reference)} for one in session.observers]
    return {"name": session.name, "stimuli": [s.id for s in session.stimuli], "observers": people, "marks": marks}


def _write(number: int, reference: Any, processed: Any) -> None:
    """Both sides of a pair as files."""
    views = (
        [_picture(side) for side in (reference, processed)]
        if isinstance(reference, np.ndarray)
        else _tables(reference, processed)
    )
    for side, view in zip(("reference", "processed"), views, strict=True):
        kind, content = ("png", view) if isinstance(view, bytes) else ("json", json.dumps(view).encode())
        handle = os.open(f"{number}-{side}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)


def _picture(shades: Array) -> bytes:
    """Grey shades as a PNG without anything else that the file had."""
    import io

    from PIL import Image

    made = io.BytesIO()
    Image.fromarray(np.clip(np.rint(shades), 0, 255).astype(np.uint8)).save(made, "PNG")
    return made.getvalue()


def _tables(original: Any, released: Any) -> list[PlainData]:
    """Distributions, correlations and figures of both tables."""
    both = pair_up(open_frame(original), open_frame(released), Assess())
    names = both.names[:SHOWN]
    before, after = (portrait.thinned(Matrix(table.columns[:SHOWN])) for table in (both.original, both.released))
    outlines = portrait.histograms(before, after, names)
    labels = _labels(original, released, [name for name in both.compared if name not in both.names][:LABELLED])
    return [
        {
            "figures": [[name, *_figures(column)] for name, column in zip(names, table.columns, strict=True)],
            "headings": FIGURES,
            "charts": [
                *_charts(outlines, file),
                *([_map(table, names)] if len(names) > 1 else []),
                *(_bars(name, shares[place]) for name, shares in labels.items()),
            ],
        }
        for place, (file, table) in enumerate((("original", before), ("released", after)))
    ]


def _figures(column: Array) -> list[str]:
    present = column[~np.isnan(column)]
    if not present.size:
        return [""] * len(FIGURES)
    low, middle, high = np.quantile(present, [0.1, 0.5, 0.9])
    four_digits = (float(f"{value:.4g}") for value in (present.mean(), present.std(), low, middle, high))
    return [f"{value:,.10g}" for value in four_digits]


def _charts(rows: Sequence[Mapping[str, Any]], file: str) -> list[PlainData]:
    """The distribution of each column in one file, on axes that both files share."""
    made = []
    for name in dict.fromkeys(row["column"] for row in rows):
        here = [row for row in rows if row["column"] == name]
        points = [{"at": row["at"], "share": row["share"]} for row in here if row["file"] == file]
        bend, top = here[0]["bend"], max(row["share"] for row in here)
        axes = {"x": plots.amount("at", title=None, scale=plots.bent(bend), axis=AXIS), "y": _share(top)}
        made.append(_chart(name, {"type": "area", "interpolate": "step-after"}, axes, points))
    return made


def _labels(original: Any, released: Any, names: Sequence[str]) -> dict[str, list[dict[str, float]]]:
    """Shares of the levels of some columns in both files; rare levels are not shown."""
    import polars as pl

    found = {}
    for name in names:
        shares = [
            dict(frame[name].cast(pl.String).drop_nulls().value_counts(normalize=True).rows())
            for frame in (original, released)
        ]
        every = sorted(set(shares[0]) | set(shares[1]), key=lambda level: -sum(s.get(level, 0) for s in shares))
        if len(every) > 1:
            found[name] = [{level: share.get(level, 0.0) for level in every[:LEVELS]} for share in shares]
    return found


def _bars(name: str, shares: Mapping[str, float]) -> PlainData:
    axes = {"y": plots.label("level", shares, labelLimit=90), "x": _share(1.0)}
    points = [{"level": level, "share": round(share, 4)} for level, share in shares.items()]
    return _chart(name, {"type": "bar"}, axes, points)


def _map(table: Matrix, names: Sequence[str]) -> PlainData:
    """Correlations of all pairs of columns."""
    points = [
        {"one": names[i], "other": names[j], "r": round(found, 3)}
        for i in range(len(names))
        for j in range(len(names))
        if i != j and (found := portrait.correlation(table.columns[i], table.columns[j])) is not None
    ]
    scale, legend = {"scheme": "blueorange", "domain": [-1, 1]}, {"title": None, "gradientLength": 110}
    sides = {axis: plots.label(field, names, labelLimit=80) for axis, field in (("x", "one"), ("y", "other"))}
    axes = {**sides, "color": plots.amount("r", scale=scale, legend=legend)}
    return _chart("correlations", {"type": "rect"}, axes, points)


def _share(top: float) -> PlainData:
    return plots.amount("share", title=None, scale={"domain": [0, top]}, axis={**plots.PERCENT, "tickCount": 4})


def _chart(title: str, mark: PlainData, axes: PlainData, points: Sequence[PlainData]) -> PlainData:
    """A small picture in the words of Vega-Lite."""
    words = {"text": title, "fontSize": 12, "fontWeight": "normal", "limit": plots.FACET}
    drawn = {"width": plots.FACET, "height": 110, "mark": {**mark, "color": plots.BLUE}, "encoding": axes}
    return {"title": words, "data": {"values": list(points)}, "config": plots.CONFIG, **drawn}
