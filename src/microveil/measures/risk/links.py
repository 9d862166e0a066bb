"""Links between originals and released records: by one search, by one of many ways to look, piece by piece, by luck."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.rng import Stream
from microveil.core.table import Matrix
from microveil.measures.base import (
    are_many,
    means_and_sds,
    scales,
    standardised,
    standardised_pieces,
    without_holes,
)
from microveil.measures.nearest.distances import Index, reach
from microveil.measures.nearest.nearest_records import NearestRecords, nearest_records, outlying
from microveil.measures.nearest.neighbours import Links, credit_by_stages, link, link_distant, link_pieces
from microveil.measures.nearest.standardisation import VIEWS, known_together, on_axes

SHUFFLES = 200
"""Row-permuted releases that the chance of the best of many searches is measured on."""

Way = Callable[[Array], Array]
"""What an intruder sees of records, rows x columns in standard deviations."""


def links_of(before: Array, after: Array, tried: Index, known: Mask | None = None) -> Links:
    """Link the originals tried to the released records; those nothing is known of are no hits.

    Both files, `before` and `after`, are n x k in common units, NaN where a cell is missing; `tried` are rows of the
    original, and `known` (n) is found out if it is not given.
    """
    known = known_together(before, after) if known is None else known
    found = link(without_holes(before[tried]), without_holes(after), tried)
    return Links(found.nearest, np.where(known[tried], found.credit, 0.0))


def by_columns(chosen: Index) -> Way:
    """Some columns are all that is known."""
    return lambda rows: rows[:, chosen]


def by_directions(axes: Array, chosen: slice) -> Way:
    """All are known, and the intruder looks in some directions."""
    return lambda rows: (rows @ axes)[:, chosen]


def links_by(way: Way, before: Array, after: Array, tried: Index, seen: Mask) -> Links:
    """`links_of` for one of many ways to look at both files, n x k without holes.

    `seen` says of which of the originals `tried` anything is known. Of many records only the credit is found out, and
    `nearest` is empty.
    """
    if are_many(len(after)):
        found = Links(np.empty(0, dtype=np.intp), credit_by_stages(way(before[tried]), after, tried, way))
    else:
        found = link(way(before)[tried], way(after), tried)
    return Links(found.nearest, np.where(seen, found.credit, 0.0))


def shares_by_luck(found: list[Links], known: Mask, count: int, stream: Stream) -> Array:
    """The share that each search links in each of many releases with permuted rows, shuffles x searches.

    A permutation does not change who is near whom. So no search is repeated: it is only counted how often the neighbour
    found is the record's own (of equally near ones the first, which spreads a little more than a guess among them). One
    stream gives the same permutations again. `known` is searches x records tried, `count` the number of released
    records. Where the nearest are not known, each search guesses for itself: the best of them is rather too good.
    """
    generator = stream.generator()
    shares = np.empty((SHUFFLES, len(found)))
    if not all(links.nearest.size for links in found):
        tries = np.broadcast_to(known, (len(found), known.shape[-1])).sum(axis=1)
        shares[:] = generator.binomial(tries, 1 / count, shares.shape) / known.shape[-1]
        return shares
    nearest = np.stack([links.nearest for links in found])
    for shuffle in range(SHUFFLES):
        own = generator.choice(count, nearest.shape[1], replace=False)
        right = np.flatnonzero((nearest == own) & known) // nearest.shape[1]  # which is fast, as there are few
        shares[shuffle] = np.bincount(right, minlength=len(found)) / nearest.shape[1]
    return shares


def links_in_pieces(
    original: Matrix, released: Matrix, tried: Index, axes: Array | None = None, *, own_barred: bool = False
) -> Links:
    """Link the originals tried to released records that are read piece by piece.

    Distances are in standard deviations of the original, or on `axes` of columns in these units. With `own_barred` no
    original is linked to the record of its own row: that is itself.
    """
    before, own = standardised(original, released, tried)
    queries, count = on_axes(before, axes), released.shape[0]
    if released.distant:
        units = scales(original)
        to_axes = partial(_on_axes, *means_and_sds(units), axes)
        links = link_distant(queries, on_axes(own, axes), released.select(list(units)), to_axes)
        return Links(links.nearest, np.where(known_together(before, own), links.credit, 0.0))
    pieces_of = standardised_pieces(original, released)

    def piece_of(rows: slice) -> Array:
        return on_axes(pieces_of(rows)[0].T, axes)

    if own_barred:
        return link_pieces(queries, None, count, piece_of, barred=tried)
    found = link_pieces(queries, on_axes(own, axes), count, piece_of)
    return Links(found.nearest, np.where(known_together(before, own), found.credit, 0.0))


def _on_axes(mean: Array, sd: Array, axes: Array | None, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    """Some rows as they are searched, rows x k."""
    return on_axes(((cells - mean) / sd).T, axes)


def around_sample(
    name: str, original: Matrix, released: Matrix, tried: Index, *, others: bool = True, outliers: bool = False
) -> NearestRecords:
    """`nearest_records`; of a large file those of outlying records are searched as well, so that all attacks share it.

    They come after the originals `tried`, if `outliers` are asked for.
    """
    rows = tried
    if are_many(original.shape[0]):
        rows = with_outlying(original, released, tried)
    found = nearest_records(name, original, released, rows, others=others)
    return found if outliers else found.first(tried.size)


def with_outlying(original: Matrix, released: Matrix, tried: Index) -> Index:
    """The rows tried, and then those that a sample must not miss."""
    return np.concatenate([tried, np.setdiff1d(outlying(original, released), tried)])


def links_of_sample(name: str, original: Matrix, released: Matrix, tried: Index) -> Links:
    """`link` for a few originals of many, whose neighbours others ask for, too."""
    found = around_sample(name, original, released, tried, others=False)
    credit = (found.own & found.known).astype(float)
    tied = np.flatnonzero((credit > 0) & (found.released_at[:, 1] <= reach(found.released_at[:, 0])))
    if tied.size:  # the intruder has to guess, among how many is to be counted
        view = VIEWS[name](original, released)
        credit[tied] = link(view.before[tried[tied]], view.after, tried[tied]).credit
    return Links(found.released[:, 0], credit)
