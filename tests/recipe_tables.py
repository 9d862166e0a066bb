"""Tables with strange names, for tests of recipes."""

from __future__ import annotations

import numpy as np
import polars as pl

SEED = 918_273_645_546_372_819_918_273_645_546_372_819


STRANGE = ['net "income"', "Größe in m², €", "a = b # c", "[out\\put]", "  spaces ", "x.y"]


def table(rows: int = 80) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    values = rng.gamma(1.5, size=(rows, 6)) @ rng.standard_normal((6, 6)) + 10
    return pl.DataFrame(values, schema=STRANGE)
