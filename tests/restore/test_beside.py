"""Values that are arranged beside columns that are released already have the old relations to these, not to the old."""

from __future__ import annotations

import numpy as np
import pytest

from microveil.core.rng import Streams
from microveil.core.table import Beside, LabelColumns, Matrix, Microdata
from microveil.restore import Marginal, arrange

ROWS = 1_500


def arranged(with_label: bool) -> tuple[np.ndarray, ...]:
    """A column and labels that go with another column, arranged beside an independent copy of that."""
    rng = np.random.default_rng(3)
    known, released = rng.normal(size=(2, ROWS))
    value, other = known + rng.normal(size=ROWS), rng.normal(size=ROWS)
    codes = (known + rng.normal(size=ROWS) > 0).astype(np.intp)
    labels = LabelColumns(("l",), (codes,)) if with_label else LabelColumns()
    table = Microdata(Matrix([value, other]), ("v", "o"), labels=labels, beside=Beside([known], [released]))
    start = [rng.permutation(value), rng.permutation(other)]
    marginals = [Marginal(np.sort(value)), Marginal(np.sort(other))]
    found = arrange(start.copy, marginals, table, None, Streams.from_seed(1).stream("x"))
    return known, released, value, codes, *found.columns, *found.labels


def test_relations_are_those_with_the_released_column() -> None:
    known, released, value, codes, new, _, labels = arranged(with_label=True)
    assert sorted(new) == sorted(value)
    assert np.corrcoef(released, new)[0, 1] == pytest.approx(np.corrcoef(known, value)[0, 1], abs=0.01)
    pairs = ((known, codes), (released, labels))
    gap = [(of[level == 1].mean() - of[level == 0].mean()) / of.std() for of, level in pairs]
    assert gap[1] == pytest.approx(gap[0], abs=0.02)
    assert abs(np.corrcoef(known, new)[0, 1]) < 4 / np.sqrt(ROWS), "what the record was is not told"


def test_without_labels_too() -> None:
    known, released, value, _, new, _ = arranged(with_label=False)
    assert np.corrcoef(released, new)[0, 1] == pytest.approx(np.corrcoef(known, value)[0, 1], abs=0.01)
