"""How soon the app answers, in a real browser: the first page, the first feedback of each step; the server's memory.

Writes bench/app.json, and prints it. The file has 20,000 rows and 20 columns. A feedback is what is seen first after a
click or a key: the next page, or that work has begun. Figures are medians over some rounds, by the machine's clock;
its load is noted with them: above the number of its cores they say little, and the CPU time of the server says more.

    python bench/app.py

Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

RESULTS = Path(__file__).with_name("app.json")
SOURCE = Path(__file__).resolve().parent.parent / "src"
ROWS, COLUMNS, ROUNDS = 20_000, 20, 3
FIRST_PAGE, FEEDBACK = 1.0, 0.2
"""Seconds."""


def table(folder: Path) -> Path:
    """Amounts, counts and labels."""
    rng = np.random.default_rng(1)
    amounts = np.round(np.exp(rng.normal(size=(ROWS, COLUMNS - 2)) @ rng.normal(size=(COLUMNS - 2,) * 2) / 4 + 5), 2)
    labels = rng.choice(["north", "south", "east", "west"], (ROWS, 2))
    names = ",".join([*(f"v{k}" for k in range(COLUMNS - 2)), "region", "second"])
    lines = (",".join([*map(str, row), *words]) for row, words in zip(amounts.tolist(), labels.tolist(), strict=True))
    (folder / "table.csv").write_text("\n".join([names, *lines, ""]), encoding="utf-8")
    return folder / "table.csv"


def seconds(deed: Callable[[], Any], seen: Callable[[], Any]) -> float:
    """From a deed until something is seen of it, by the clock of whoever drives the browser."""
    began = time.perf_counter()
    deed()
    seen()
    return time.perf_counter() - began


def painted(page: Any, click: str, seen: str) -> float:
    """From a click until the next page has its first words on the screen, by the browser's own clock."""
    page.click(click, no_wait_after=True)
    page.wait_for_selector(seen)
    words = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    page.wait_for_function(words)
    return float(page.evaluate(words)) / 1000


def cpu_seconds(process: int) -> float:
    """What a process has used, without those that it started: what the clock says depends on others."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(process: int) -> float:
    """Megabytes that a process had at most."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def rounds(page: Any, file: Path) -> dict[str, float]:
    """One walk through the steps: seconds until the first feedback of each."""
    home, found = page.url, {}
    found["upload"] = seconds(
        lambda: page.set_input_files("#upload", file), lambda: page.wait_for_selector("progress:visible, #work")
    )
    page.wait_for_selector("table.data", timeout=300_000)
    place = page.url.rpartition("/")[0]
    found["columns"] = painted(page, "a.button.main", "table.columns")
    found["protect"] = painted(page, ".heading button.main", "#protect")
    found["method"] = painted(page, "input[name=method][value=microaggregate]", "#strength[name='param:group_size']")
    found["run"] = painted(page, "button[value=run]", "#work")
    found["cancel"] = painted(page, "#work button", "[role=alert]")
    found["undo"] = painted(page, "form[action$='/undo'] button", "#protect")
    page.request.post(f"{place}/close", headers={"origin": home.rstrip("/")})
    page.goto(home)
    return found


def main() -> int:
    """Measure, keep, print."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        file = table(folder)
        size = file.stat().st_size / 2**20
        program = next(found for one in ("chromium", "google-chrome") if (found := shutil.which(one)))
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "MICROVEIL_TEMPORARY": name}
        first, first_cpu, walks, steps_cpu, most = [], [], [], [], 0.0
        for _ in range(ROUNDS):
            page = browser.new_page()
            began = time.perf_counter()
            command = [sys.executable, "-m", "microveil", "app", "--no-browser"]
            app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
            assert app.stdout is not None
            page.goto(app.stdout.readline().strip())
            page.wait_for_selector("#drop")
            first.append(time.perf_counter() - began)
            first_cpu.append(cpu_seconds(app.pid))
            page.wait_for_timeout(3000)  # a person reads
            before = cpu_seconds(app.pid)
            walks.append(rounds(page, file))
            steps_cpu.append((cpu_seconds(app.pid) - before) / len(walks[-1]))
            most = max(most, peak(app.pid))
            app.terminate()
            app.wait()
            page.close()
        browser.close()
    medians = {step: statistics.median(walk[step] for walk in walks) for step in walks[0]}
    result = {
        "first_page_seconds": round(statistics.median(first), 3),
        "first_feedback_seconds": {step: round(value, 3) for step, value in medians.items()},
        "fastest_feedback_seconds": {step: round(min(walk[step] for walk in walks), 3) for step in walks[0]},
        "fastest_first_page_seconds": round(min(first), 3),
        "server_cpu_seconds": {
            "first_page": round(statistics.median(first_cpu), 2),
            "each_step": round(statistics.median(steps_cpu), 3),
        },
        "server_peak_megabytes": round(most),
        "file_megabytes": round(size, 1),
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    within = result["first_page_seconds"] <= FIRST_PAGE and max(medians.values()) <= FEEDBACK
    return 0 if within and most <= 3 * size + 300 else 1


if __name__ == "__main__":
    sys.exit(main())
