"""Time and memory of the streaming engine on its own files, beside a plain pass that reads and writes the same file.

    python bench/scale.py [rows ...]        5,000,000 and 20,000,000 by default
    python bench/scale.py veil [rows]       the default method on amounts and labels, in blocks beside memory; 2,000,000

Writes bench/scale.json and prints rows x columns x seconds x peak GB, and the ratio to the plain pass in the same run.
Above MOST_IN_MEMORY rows the default method runs in blocks only. Each run is a process of its own, so that its peak
memory is its own; runs alternate, and ratios are medians, because a noisy machine slows both. CPU time counts, of all
threads. Exit code 1 if a limit is exceeded, or if the cost of the larger file is off by more than GROWTH from growing
with its rows.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import stat
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).with_name("scale.json")

COLUMNS = 10
ROWS = (5_000_000, 20_000_000)
REPEATS = 3
METHODS = {"ipso": 3.0, "pca": 8.0}
"""Methods, and how many times the plain pass they may take."""

MOST_GB = 1.5
VEIL_ROWS, VEIL_AMOUNTS, MOST_TIMES_MEMORY = 2_000_000, 13, 3.0
"""Of the default method: rows by default, amounts beside three columns of labels, and the CPU time that a run in blocks
may take, in units of that in memory."""

MOST_IN_MEMORY = 20_000_000
MOST_BYTES_A_ROW = 420
"""Of the temporary files of the default method on that table, at most at a time."""

GROWTH = 0.15
ROWS_AT_ONCE = 2**20


def make(rows: int, target: Path) -> None:
    """A Parquet file of amounts, lognormal and correlated, each column with an offset of its own."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    rng = np.random.default_rng(1)
    mixing = rng.normal(size=(COLUMNS, COLUMNS))
    schema = pa.schema([(f"amount {j}", pa.float64()) for j in range(COLUMNS)])
    with pq.ParquetWriter(target, schema) as writer:
        for start in range(0, rows, ROWS_AT_ONCE):
            values = rng.lognormal(0, 0.5, (min(ROWS_AT_ONCE, rows - start), COLUMNS)) @ mixing
            columns = [np.ascontiguousarray(values[:, j] + 100.0 * j) for j in range(COLUMNS)]
            writer.write_table(pa.table(columns, schema=schema))


def make_mixed(rows: int, target: Path) -> None:
    """A Parquet file of amounts and three columns of labels that go with them."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    rng = np.random.default_rng(1)
    mixing = 0.2 * rng.normal(size=(VEIL_AMOUNTS, VEIL_AMOUNTS))
    amounts = [(f"amount {j}", pa.float64()) for j in range(VEIL_AMOUNTS)]
    schema = pa.schema([*amounts, *((name, pa.string()) for name in ("region", "sex", "size"))])
    with pq.ParquetWriter(target, schema) as writer:
        for start in range(0, rows, ROWS_AT_ONCE):
            values = rng.normal(size=(min(ROWS_AT_ONCE, rows - start), VEIL_AMOUNTS)) @ mixing
            noisy = (2 * values[:, :3] + rng.normal(size=(len(values), 3))).T
            cuts = ([-2, -1, 0, 1, 2], [0], [-1, 1])
            labels = [np.array(list("abcdef"))[np.digitize(cells, cut)] for cells, cut in zip(noisy, cuts, strict=True)]
            columns = [np.ascontiguousarray(column) for column in np.exp(values).T]
            writer.write_table(pa.table([*columns, *labels], schema=schema))


def veil(rows: int, folder: Path) -> int:
    """The default method in blocks and in memory, a process each: CPU time, peak memory, and whether they agree."""
    import polars as pl

    source = folder / "in.parquet"
    make_mixed(rows, source)
    engines = ("stream",) if rows > MOST_IN_MEMORY else ("memory", "stream")
    found = {e: in_process("veil-run", e, source, folder / f"{e}.parquet") for e in engines}
    note("veil", {"rows": rows, "columns": VEIL_AMOUNTS + 3, **found})
    for engine, run in found.items():
        print(
            f"{rows:>12,} x {VEIL_AMOUNTS + 3}  veil, {engine:<6} {run['seconds']:7.1f} s  {run['cpu']:7.1f} CPU s  "
            f"{run['peak GB']:5.2f} GB  {run['temporary GB']:5.2f} GB of temporary files"
        )
    if found["stream"]["temporary GB"] * 1e9 > MOST_BYTES_A_ROW * rows:
        print(f"more than {MOST_BYTES_A_ROW} bytes of temporary files for each row")
        return 1
    if rows > MOST_IN_MEMORY:
        return 0
    ratio = found["stream"]["cpu"] / found["memory"]["cpu"]
    same = pl.read_parquet(folder / "stream.parquet").equals(pl.read_parquet(folder / "memory.parquet"))
    print(f"{ratio:.2f} times the CPU time of memory (at most {MOST_TIMES_MEMORY:.0f}); the same rows: {same}")
    return 0 if same and ratio <= MOST_TIMES_MEMORY and found["stream"]["peak GB"] <= MOST_GB else 1


def veil_run(engine: str, source: Path, target: Path) -> dict[str, float]:
    """One run of the default method in this process, after a small one that loads what it works with."""
    from microveil.workflow.protecting import protect_file

    make_mixed(5_000, target.with_name("small.parquet"))
    most = [0]

    def watch() -> None:
        while True:
            most.append(max(most.pop(), bytes_without_name()))
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()
    for file in (target.with_name("small.parquet"), source):
        wall, cpu = time.perf_counter(), time.process_time()
        release = protect_file(file, target, seed=1, engine=engine, overwrite=True)
    return {
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "temporary GB": most[0] / 1e9,
        **release.kept,
    }


def bytes_without_name() -> int:
    """What files without a name that this process has opened take on the disk."""
    total = 0
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it has been closed meanwhile
            seen = handle.stat()
            total += seen.st_blocks * 512 if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 0 else 0
    return total


def plain(source: Path, target: Path) -> dict[str, float]:
    """Read and write, nothing else."""
    from pyarrow import parquet as pq

    with pq.ParquetFile(source) as file, pq.ParquetWriter(target, file.schema_arrow) as writer:
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
            writer.write_batch(batch)
    return {}


def ours(method: str, source: Path, target: Path) -> dict[str, float]:
    from microveil.workflow.protecting import protect_file

    release = protect_file(source, target, method, seed=1, engine="stream", overwrite=True)
    return dict(release.kept)


def ready(which: str, folder: Path) -> None:
    """Let each of them load what it works with, on a small file: that costs the same for a file of any size."""
    small = folder / "small.parquet"
    make(1_000, small)
    if which == "plain":
        plain(small, folder / "small out.parquet")
    else:
        ours(which, small, folder / "small out.parquet")


def measured(which: str, source: Path, target: Path) -> dict[str, float]:
    """One run in this process: seconds, CPU seconds, the peak of its memory, and what was kept."""
    ready(which, target.parent)
    wall, cpu = time.perf_counter(), time.process_time()
    kept = plain(source, target) if which == "plain" else ours(which, source, target)
    return {
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        **kept,
    }


def in_process(*arguments: object) -> Any:
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def sized(rows: int, folder: Path) -> dict[str, Any]:
    """All runs on one file."""
    source, target = folder / "in.parquet", folder / "out.parquet"
    make(rows, source)
    repeats = REPEATS if rows <= max(ROWS) else 1
    runs = {which: [] for which in ("plain", *METHODS)}
    for _ in range(repeats):
        for which, found in runs.items():
            found.append(in_process("run", which, source, target))
    source.unlink()
    middle = {
        which: {key: statistics.median(run[key] for run in found) for key in found[0]} for which, found in runs.items()
    }
    for which in METHODS:
        pairs = zip(runs[which], runs["plain"], strict=True)
        middle[which]["ratio"] = statistics.median(one["cpu"] / other["cpu"] for one, other in pairs)
    return {"rows": rows, "columns": COLUMNS, **middle}


def line(rows: int, which: str, found: dict[str, float]) -> str:
    ratio = f"{found['ratio']:5.2f} x plain (at most {METHODS[which]:.0f})" if which in METHODS else ""
    kept = f"covariance to {found['covariance']:.0e}" if "covariance" in found else ""
    return (
        f"{rows:>12,} x {COLUMNS}  {which:<6} {found['seconds']:7.1f} s  {found['cpu']:7.1f} CPU s  "
        f"{found['peak GB']:5.2f} GB  {ratio}  {kept}"
    )


def broken(sizes: list[dict[str, Any]]) -> list[str]:
    """What is over a limit."""
    said = []
    for size in sizes:
        for which, limit in METHODS.items():
            if size[which]["ratio"] > limit:
                said.append(f"{which} at {size['rows']:,} rows: {size[which]['ratio']:.2f} times the plain pass")
            if size[which]["peak GB"] > MOST_GB:
                said.append(f"{which} at {size['rows']:,} rows: {size[which]['peak GB']:.2f} GB")
    for small, large in pairwise(sizes):
        times = large["rows"] / small["rows"]
        for which in METHODS:
            growth = large[which]["cpu"] / small[which]["cpu"] / times
            if abs(growth - 1) > GROWTH:
                said.append(f"{which}: {times:.0f} times the rows cost {growth * times:.2f} times as much")
    return said


def note(key: str, *sizes: dict[str, Any]) -> None:
    """Write figures of files of some sizes into the results, in the place of earlier ones of the same size."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    by_rows = {size["rows"]: size for size in [*known.get(key, []), *sizes]}
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    known |= {"machine": machine, key: [by_rows[rows] for rows in sorted(by_rows)]}
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")


def main() -> int:
    if sys.argv[1:2] == ["run"]:
        print(json.dumps(measured(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
        return 0
    if sys.argv[1:2] == ["veil-run"]:
        print(json.dumps(veil_run(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
        return 0
    if sys.argv[1:2] == ["veil"]:
        with tempfile.TemporaryDirectory(dir=os.environ.get("MICROVEIL_TEMPORARY")) as folder:
            return veil(int(sys.argv[2].replace("_", "")) if sys.argv[2:] else VEIL_ROWS, Path(folder))
    rows = [int(text.replace(",", "").replace("_", "")) for text in sys.argv[1:]] or list(ROWS)
    sizes = []
    for count in rows:
        with tempfile.TemporaryDirectory(dir=os.environ.get("MICROVEIL_TEMPORARY")) as folder:
            sizes.append(sized(count, Path(folder)))
        for which in ("plain", *METHODS):
            print(line(count, which, sizes[-1][which]), flush=True)
    note("sizes", *sizes)
    problems = broken(sizes)
    print("\n".join(problems) or "all within their limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
