"""What people and stimuli may be called, in the files of sessions and of ratings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _one_word(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("must be printable, without spaces around it")
    return value


Id = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_one_word)]
"""What a person or a stimulus is called, here and in the ratings."""
