"""From cells to sums: tables that differ by one record, have sums that differ by no more than is told."""

import numpy as np
import pandas as pd
import pytest

from microveil.io.dictionary import Dictionary
from microveil.io.frames.dataframes import open_frame
from microveil.options import Protect
from microveil.private.declared import declared_columns
from microveil.private.distributions import Scale
from microveil.private.mechanism import Account
from microveil.private.moments import NEAR, QUERIES
from microveil.private.targets import measured

ASKED = Protect(
    epsilon=1.0,
    bounds={"a": (0, 100, 1), "b": (0, 100, 0.01), "d": ("2000-01-01", "2020-01-01")},
    levels={"c": ["x", "y", "z"]},
    may_be_missing=["b", "c"],
)
ODD = [None, np.nan, np.inf, -np.inf, 1e300, -1e300, 2**53 + 1, 2**63, 10**400, "?", "1e5", True, pd.NaT, 0, 100]
ODD += [pd.Timestamp("1900-01-01"), 100.0000001, -0.0, 5e-324, "2000-01-01", "2020-01-01", b"x", [1]]


class _Scripted(Account):
    """An account that keeps the exact sums, and gives the answers of another one, if there is one, to the same."""

    def __init__(self, script=None):
        super().__init__(200.0, 1e-6)
        self.script, self.asked, self.answers = script, [], []

    def noisy(self, query, exact, sensitivity, rho, per_unit=1.0):
        noise = np.random.default_rng(len(self.asked)).normal(0, self.noise_sd(sensitivity, rho), exact.size)
        answer = exact + np.round(noise) if self.script is None else self.script[len(self.asked)]
        self.asked.append((query, exact, sensitivity))
        self.answers.append(answer)
        return answer


def _table(rng, rows):
    a = rng.normal(50, 15, rows).clip(0, 100).round()
    columns = {"a": a, "b": a + rng.normal(0, 0.3, rows), "c": rng.choice(["x", "y", "z"], rows)}
    columns["d"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 7_000, rows), unit="D")
    return pd.DataFrame(columns).astype(object)


def _largest_changes(runs):
    """The largest change of the sums of each query by one record, as a share of the sensitivity that is told."""
    rng, found = np.random.default_rng(11), {}
    for _ in range(runs):
        table = _table(rng, int(rng.integers(2, 300)))
        gone = int(rng.integers(len(table)))
        for name in table:
            table.at[gone, name] = ODD[rng.integers(len(ODD))] if rng.random() < 0.7 else table.at[gone, name]
        accounts, script = [], None
        for some in (table, table.drop(index=gone).reset_index(drop=True)):
            frame, account = open_frame(some), _Scripted(script)
            measured(declared_columns(frame, ASKED, Dictionary()).read(frame, None)[0], account)
            accounts.append(account.asked)
            script = account.answers
        for (query, whole, sensitivity), (same, less, _) in zip(*accounts, strict=True):
            assert query == same
            found[query] = max(found.get(query, 0.0), float(np.linalg.norm(whole - less)) / sensitivity)
    return found


def test_no_record_changes_any_sum_by_more_than_its_sensitivity():
    found = _largest_changes(6)
    assert max(found.values()) == 1.0  # counts reach it
    assert found[QUERIES[NEAR]] > 0


def test_a_cell_that_depends_on_other_records_is_found(monkeypatch):
    cells_of = Scale.cells_of
    monkeypatch.setattr(Scale, "cells_of", lambda self, values: cells_of(self, values + values.size % 2))
    with pytest.raises(AssertionError):
        assert max(_largest_changes(6).values()) <= 1.0
