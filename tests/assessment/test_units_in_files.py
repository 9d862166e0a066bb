"""Two files of units with several rows: who went to another unit cannot be seen from the files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import microveil as mv


@pytest.mark.parametrize("moved", [False, True])
def test_it_is_said_where_rows_are_in_another_unit(moved: bool) -> None:
    rng = np.random.default_rng(1)
    patient = np.repeat(np.arange(60), 2)
    original = pd.DataFrame({"patient_id": patient, "dose": rng.gamma(2, size=120), "cost": rng.gamma(3, size=120)})
    names = rng.permutation(60)[patient]  # numbered anew
    names[1] = names[2] if moved else names[1]
    released = original.assign(patient_id=names, dose=rng.permutation(original["dose"]))
    found = mv.assess(original, released, measures=["dbrl"], seed=1, sanity=False)
    said = [note for note in found.notes if "in another unit" in note]
    assert len(said) == moved
    assert not moved or "(patient_id)" in said[0]
