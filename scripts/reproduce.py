"""Make every table and figure of the papers again, and write docs/reproduced.md (`make reproduce`).

What is not there (reference data, packages, the picture that IMAGE names) is said on the page. REPEATS=N asks for N
releases behind each figure; by default they are 20.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from microveil.papers.reproduce import REPEATS, reproduce

ROOT = Path(__file__).resolve().parent.parent


begun: dict[str, float] = {}


def tell(step: str, share: float) -> None:
    entry = step.partition(":")[0]
    if entry not in begun:  # a line for each table, with the minute it began in
        begun[entry] = time.monotonic()
        print(f"\n{(begun[entry] - min(begun.values())) / 60:4.0f} min", end="", file=sys.stderr)
    print(f"\r\033[9C{share:4.0%}  {step:70.70}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asked = {"image": os.environ.get("IMAGE") or None, "repeats": int(os.environ.get("REPEATS") or REPEATS)}
    page = reproduce("all", **asked, progress=tell)
    (ROOT / "docs" / "reproduced.md").write_text(page.to_markdown(), encoding="utf-8")
    print(f"\n{page!r}, in docs/reproduced.md")
