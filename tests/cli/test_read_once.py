"""A run with both reports reads every table once, pairs the files once, and measures each pair of files once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command import run

import microveil as mv
from microveil.assessment import pairing
from microveil.intake import intake
from microveil.io.frames.dataframes import NarwhalsFrame
from microveil.measures.base import MeasureSpec
from microveil.report import reporter


def test_a_run_with_both_reports_reads_pairs_and_links_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: Counter[Any] = Counter()

    def count(owner: Any, name: str, key: Any) -> None:
        real = getattr(owner, name)

        def counting(*args: Any, **options: Any) -> Any:
            counted[key(args) if callable(key) else key] += 1
            return real(*args, **options)

        monkeypatch.setattr(owner, name, counting)

    count(NarwhalsFrame, "__init__", "frames")
    count(reporter, "pair_up", "pairs")
    count(pairing, "codes_in", "codes of a pair")
    count(intake, "find_codes", lambda args: ("codes", args[0].columns[args[1]].tobytes()))
    count(MeasureSpec, "__call__", lambda args: (args[0].id, id(args[1]), id(args[2])))
    files = [tmp_path / name for name in ("out.csv", "in.html", "public.html")]
    source = tmp_path / "in.csv"
    source.write_text("".join(mv.example_file().read_text().splitlines(keepends=True)[:201]))
    options = ["--report", files[1], "--public-report", files[2], "--seed", "1"]
    code, _, err = run(capsys, "protect", source, "-o", files[0], *options)
    assert code == 0, err
    assert counted["frames"] <= 4
    assert counted["pairs"] == 1
    assert counted["codes of a pair"] == 0, "the intake has found them"
    assert max(times for what, times in counted.items() if what[0] == "codes") == 1
    by_numbers, by_all = ([what for what in counted if what[0] == name] for name in ("dbrl", "mixed_linkage"))
    assert len(by_numbers) == 3, "of the files, and the two sanity lines"
    assert len(by_all) == 4, "the headline: of the original with itself, too"
    assert all(counted[what] == 1 for what in (*by_numbers, *by_all))
