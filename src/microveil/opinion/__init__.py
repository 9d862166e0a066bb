"""Opinion: what people say of a release when they look at it, and what they would say by a link fitted to that."""

from microveil.opinion.ratings import ratings_from

__all__ = ["ratings_from"]
