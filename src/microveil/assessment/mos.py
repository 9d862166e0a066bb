"""Mean opinion scores: sessions for observers, their ratings, the scores that follow, and predictions from them.

    from microveil.assessment import mos

    session = mos.make_session(stimuli, observers=24)
    mos.write(session, "session.toml")                         # shown to people, whose ratings come back as CSV
    scores = mos.score(mos.read_ratings("ratings.csv", session))
    link = mos.fit_link(scores, predictor="ssim")
    mv.protect(data, "component_removal", utility="mos", link=link, threshold=60)

Here opinions meet files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from microveil.assessment.pairing import Pair, pair_up
from microveil.core.errors import DataError
from microveil.core.table import Matrix
from microveil.intake.intake import Rules
from microveil.intake.roles import Choice
from microveil.io.config_files import checked, toml_text
from microveil.io.frames.dataframes import open_frame
from microveil.io.pictures import PICTURES, read_picture
from microveil.io.tables import read_table
from microveil.measures.base import Measure
from microveil.measures.utility.image import psnr, ssim
from microveil.opinion.library import Library, Member, library_of, member, read_library
from microveil.opinion.link import Link, fit_link, predicted_mos, read_link
from microveil.opinion.ratings import Ratings, ratings_from
from microveil.opinion.score import Opinion, OpinionScores, score, screen
from microveil.opinion.session import Session, Stimulus, make_session, read_session
from microveil.options import Assess
from microveil.storage.atomic import atomic_target


def stimulus(
    id: str,  # noqa: A002 - what it is called everywhere else
    original: Any,
    processed: Any,
    *,
    source: str,
    removed: int = 0,
    confidential: Choice = None,
    rules: Rules = "infer",
) -> Stimulus:
    """A stimulus for `make_session`, with the ssim and psnr of the original and the processed table.

    The tables and their `confidential` columns are matched as `assess` does, by its `rules`. In the session, the pair
    is called `id` and the original `source`; `removed` is how many of its largest components were taken out.
    """
    both = _pair(original, processed, confidential, rules)
    found = {measure.id: measure(both.original, both.released).value for measure in (ssim, psnr)}
    content = {"id": id, "source": source, "removed": removed, **found}
    return checked(Stimulus, "stimulus", content, "give each stimulus a short name of its own")


def predict(
    original: Any, released: Any, link: Link | str | Path, *, confidential: Choice = None, rules: Rules = "infer"
) -> Measure:
    """The mean opinion score of a release as a link (or the file of one) predicts it.

    The tables `original` and `released` and their `confidential` columns are matched as `assess` does, by its `rules`.
    """
    curve = link if isinstance(link, Link) else read_link(link)
    both = _pair(original, released, confidential, rules)
    return predicted_mos(curve)(both.original, both.released)


def library(
    files: Sequence[str | Path], link: Link | str | Path, limit: float, *, classes: int = 3
) -> tuple[Library, list[Member]]:
    """Classes of alike spectra made of tables and pictures, and how many components each can spare; and the files.

    Args:
        files: tables, of which the numeric columns are taken, and pictures, whose rows are records.
        link: what predicts opinions, or its file.
        limit: the opinion (0 to 100) that must be left, as the link predicts it.
        classes: how many classes of equal size there are, by the share of the dominant eigenvalue.
    """
    curve = link if isinstance(link, Link) else read_link(link)
    members = [member(Path(path).name, _shades_or_numbers(Path(path)), curve, limit) for path in files]
    return library_of(members, curve, limit, classes), members


def shades_or_table(path: Path) -> Any:
    """What is in a file that is shown to observers: a picture as an array of grey shades, or a table."""
    return read_picture(path) if path.suffix.lower() in PICTURES else read_table(path)[0]


def _shades_or_numbers(path: Path) -> Matrix:
    if path.suffix.lower() in PICTURES:
        return Matrix.from_array(read_picture(path))
    frame = open_frame(read_table(path)[0])
    columns = [frame.numbers(name) for name in frame.names if frame.is_numeric(name)]
    if not columns:
        raise DataError(f"{path.name}: it has no columns of numbers", "give tables with numbers, or pictures")
    return Matrix(columns)


def read_stimuli(path: str | Path) -> list[dict[str, Any]]:
    """Stimuli for `make_session` from a table with the columns id, source, removed, ssim and psnr.

    If it has the columns original and processed, which name files in its folder (tables or pictures), the pairs can be
    shown, and ssim and psnr are measured where they are not given.
    """
    columns = _columns(Path(path), texts=("id", "source", "original", "processed"))
    rows = [
        {name: cell for name, cell in zip(columns, row, strict=True) if cell is not None}
        for row in zip(*columns.values(), strict=True)
    ]
    return [_measured(row, Path(path).parent) for row in rows]


def _measured(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    if not {"id", "source", "original", "processed"} <= row.keys() or {"ssim", "psnr"} <= row.keys():
        return row
    both = [shades_or_table(folder / row[file]) for file in ("original", "processed")]
    found = stimulus(row["id"], *both, source=row["source"])
    return {"removed": 0, "ssim": found.ssim, "psnr": found.psnr, **row}


def read_ratings(path: str | Path, session: Session | str | Path) -> Ratings:
    """Ratings from a table with the columns observer, stimulus, reference and processed; or observer, stimulus, score.

    Scores go from 0 to 100; an empty cell or a row that is not there is a missing rating.
    """
    known = session if isinstance(session, Session) else read_session(session)
    return ratings_from(_columns(Path(path), texts=("observer", "stimulus")), known)


def write(content: Session | Link | Library, path: str | Path) -> None:
    """A session, a link or a library as a TOML file, whole or not at all."""
    with atomic_target(Path(path)) as temporary:
        temporary.write_text(toml_text(content.to_dict()), encoding="utf-8")


def _pair(original: Any, released: Any, confidential: Choice, rules: Rules) -> Pair:
    return pair_up(open_frame(original), open_frame(released), Assess(confidential=confidential, rules=rules))


def _columns(path: Path, texts: tuple[str, ...]) -> dict[str, list[Any]]:
    """The cells of a table by column; those of `texts` as they were written, even if they look like numbers."""
    frame, form = read_table(path)
    found: dict[str, list[Any]] = {name: frame[name].to_list() for name in frame.columns}
    for name in texts:
        if name in found:
            written = form.text_of(name)
            cells = found[name] if written is None else written.to_list()
            found[name] = [None if cell is None else str(cell).strip() or None for cell in cells]
    return found
