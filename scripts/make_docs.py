"""Write docs/methods.md from the declarations in the code, or check that it is up to date (`--check`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from microveil import api

PAGE = Path(__file__).resolve().parent.parent / "docs" / "methods.md"
HEAD = """# Methods

This page is generated from the code (`make docs`): the parameters below are the ones that validation, the command
line and the recipes use. Set one with `protect(..., name=value)` or `--set name=value`.
"""


def page() -> str:
    parts = [HEAD]
    for name in api.methods():
        details = api.method_details(name)
        parts.append(f"## `{name}`\n\n{details['summary']}\n\n{details['reference']}.\n")
        parts += [group_text(group) for group in details["parameters"]]
    return "\n".join(parts)


def group_text(group: dict[str, Any]) -> str:
    title = "Parameters" if not group["perturb"] else f'`perturb="{group["perturb"]}"`'
    lines = [f"### {title}", ""]
    if group["summary"]:
        lines += [group["summary"], ""]
    if group["parameters"]:
        lines += ["| parameter | allowed | default | meaning |", "|---|---|---|---|"]
    for parameter in group["parameters"]:
        default = parameter["default"]
        shown = ", ".join(default) if isinstance(default, tuple) else default
        cells = [f"`{parameter['name']}`", parameter["allowed"], f"{shown}", parameter["meaning"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.name} is up to date" if same else f"{PAGE} is out of date: run `make docs`")
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
