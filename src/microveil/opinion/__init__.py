"""Opinion: what people say of a release when they look at it, and what they would say by a link fitted to that."""

from microveil.opinion.link import Link, fit_link, predicted_mos, prediction_notes, read_link
from microveil.opinion.ratings import Kind, Ratings, ratings_from
from microveil.opinion.score import Opinion, OpinionScores, Screening, score, screen
from microveil.opinion.session import Observer, Session, Stimulus, make_session, read_session

__all__ = [
    "Kind",
    "Link",
    "Observer",
    "Opinion",
    "OpinionScores",
    "Ratings",
    "Screening",
    "Session",
    "Stimulus",
    "fit_link",
    "make_session",
    "predicted_mos",
    "prediction_notes",
    "ratings_from",
    "read_link",
    "read_session",
    "score",
    "screen",
]
