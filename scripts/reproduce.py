"""Make every table and figure of the papers again, and write docs/reproduced.md (`make reproduce`).

What is not there (reference data, packages, the picture that IMAGE names) is said on the page.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from microveil.papers.reproduce import reproduce

ROOT = Path(__file__).resolve().parent.parent


def tell(step: str, share: float) -> None:
    print(f"\r{share:4.0%}  {step:70.70}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    page = reproduce("all", image=os.environ.get("IMAGE") or None, progress=tell)
    (ROOT / "docs" / "reproduced.md").write_text(page.to_markdown(), encoding="utf-8")
    print(f"\n{page!r}, in docs/reproduced.md")
