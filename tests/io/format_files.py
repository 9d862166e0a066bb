"""Files that are read and written again, for tests of formats."""

import datetime as dt
import traceback
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.io.tables import read_table, write_table

SENTINEL = "SECRET81234"


ROWS = 40


def survey(rows: int = ROWS) -> pl.DataFrame:
    """Firms with amounts, categories, text and dates."""
    rng = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "id": [f"firm {n}" for n in range(rows)],
            "turnover": rng.lognormal(5, 1, rows).round(2),
            "wages": rng.lognormal(4, 1, rows).round(2),
            "staff": rng.integers(1, 200, rows),
            "region": rng.choice([1, 2, 3], rows),
            "founded": [dt.date(1980, 1, 31) + dt.timedelta(days=int(n) * 37) for n in rng.integers(0, 400, rows)],
        }
    )


def again(path: Path) -> tuple[pl.DataFrame, Path]:
    """Read a file, write it without a change."""
    frame, form = read_table(path)
    target = path.with_name(f"again{path.suffix}")
    write_table(frame, target, form)
    return frame, target


def protected(path: Path, **options) -> tuple[pl.DataFrame, Path]:
    """Read a file, protect two columns, write it with all others."""
    frame, form = read_table(path)
    release = mv.protect(frame, "pca", confidential=["turnover", "wages"], keep="rest", seed=1, **options)
    target = path.with_name(f"released{path.suffix}")
    write_table(release.data, target, form)
    return release.data, target


def refused(kind, action) -> str:
    with pytest.raises(kind) as caught:
        action()
    chain = caught.value
    assert chain.hint
    message = str(chain)
    while chain is not None:
        assert SENTINEL not in "".join(traceback.format_exception_only(chain))
        chain = chain.__cause__ or chain.__context__
    return message
