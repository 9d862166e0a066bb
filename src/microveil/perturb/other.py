"""Another masker's output in the place of drawn values."""

from __future__ import annotations

import os
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from microveil.perturb.base import Perturbation


def _given(value: Any) -> Any:
    """A table of some kind, or the path of one; which it is will be seen when it is opened."""
    if value is None or isinstance(value, bool | int | float):
        raise ValueError("must be a table with the columns to protect and a row for each record")
    return os.fspath(value) if isinstance(value, os.PathLike) else value


OtherTable = Annotated[
    Any,
    BeforeValidator(_given),
    Field(
        repr=False,
        description="the confidential columns as another masker released them, row by row: an array or a frame, or the "
        "path of a file",
        json_schema_extra={"allowed": "a table like the data, or the path of one", "data": True, "path": True},
    ),
]


class OtherScores(Perturbation):
    """Take the scores of another masker's output; orthogonalised, they make its moments exact.

    Langsrud (2019), eq. 11-12. With `decomposition='qr'` the release stays close to that output, closest in the first
    columns; with svd it need not, as components with nearly equal variances change places easily.
    """

    reference: ClassVar[str] = "Langsrud (2019), eq. 11-12"
    mixes: ClassVar[bool] = True
    from_other: ClassVar[bool] = True
    random: ClassVar[bool] = False
    retention_varies: ClassVar[bool] = True  # with the other masker

    other: OtherTable
