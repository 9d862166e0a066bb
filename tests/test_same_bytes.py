"""Every method gives the bytes it gave before the redesign, for a seed, on the bundled survey. Dropped when it ends."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microveil as mv

DIGESTS = Path(__file__).with_name("same_bytes.json")


def machine() -> str:
    """What the last bits of linear algebra depend on."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line for line in text.splitlines() if line.startswith("model name")), "")
    return f"{model} numpy {np.__version__} polars {pl.__version__}"


def digest(method: str, *, weighted: bool) -> str:
    """A hash of everything that comes back: the cells, what was kept, and the warnings."""
    frame = pl.read_csv(mv.example_file()).head(600)
    options: dict[str, object] = {"weight": "weight"} if weighted else {}
    if method in ("correct", "synthetic_addition"):
        numbers = [name for name in frame.columns if frame[name].dtype.is_numeric()]
        noise = np.random.default_rng(1).normal(1, 0.1, (frame.height, len(numbers)))
        options["other"] = frame.select(pl.Series(n, frame[n].cast(float) * noise[:, j]) for j, n in enumerate(numbers))
    if method == "cluster_hybrid":
        options["clusters"] = "industry"
    try:
        release = mv.protect(frame, method, seed=7, **options)
    except mv.errors.MicroveilError as error:
        return f"{type(error).__name__}: {error}"
    found = hashlib.sha256(release.data.write_csv().encode())
    found.update(repr((release.kept, release.rows, sorted(release.recipe()))).encode())
    return found.hexdigest()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", list(mv.methods()))
def test_the_bytes_are_the_same(method: str, weighted: bool) -> None:
    known = json.loads(DIGESTS.read_text())
    if known["machine"] != machine():
        pytest.skip("the last bits depend on the processor and on numpy: the digests were made on others")
    assert digest(method, weighted=weighted) == known[f"{method} {weighted}"]


if __name__ == "__main__":
    found = {f"{m} {w}": digest(m, weighted=w) for m in mv.methods() for w in (False, True)}
    DIGESTS.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
