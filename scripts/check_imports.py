"""Check that no room of the package imports one that lies outside of it, and that no files import each other in a ring.

The rooms and who may import whom are the table below; the design fits on it. Run by `make lint`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "microveil"
SOURCE = Path(__file__).resolve().parent.parent / "src" / PACKAGE

# From the innermost room to the outermost: a room imports only rooms that stand before it.
ROOMS = [
    "core",
    "errors",
    "options",
    "storage",
    "rules",
    "io",
    "measures",
    "decompose",
    "perturb",
    "restore",
    "private",
    "opinion",
    "methods",
    "intake",
    "assessment",
    "engines",
    "release",
    "report",
    "tables",
    "protection",
    "assess",
    "catalogue",
    "workflow",
    "studies",
    "papers",
    "app",
    "cli",
    "__init__",
    "__main__",
]

# Rooms that do not know each other, although one stands before the other: each method is made of these three steps.
STRANGERS = {
    "decompose": {"perturb", "restore", "io"},
    "perturb": {"decompose", "restore", "io"},
    "restore": {"decompose", "perturb", "io"},
    "measures": {"io"},
    "tables": {"engines", "methods", "measures"},
}
ALLOWED = {room: {*ROOMS[:number]} - STRANGERS.get(room, set()) for number, room in enumerate(ROOMS)}

# Packages that may only be imported inside a function, because they are slow to load.
LATE = {"formulaic", "numba", "pandas", "polars", "pyarrow", "scipy", "sklearn", "jinja2", "altair", "vl_convert"}
LATE |= {"opendp"}
LATE |= {"adbc_driver_postgresql", "adbc_driver_manager", "duckdb", "openpyxl", "pyreadstat", "pyspark"}
LATE_EXEMPT = {*SOURCE.rglob("_*_kernels.py")}  # compiled loops: imported late themselves


def room_of(path: Path) -> str:
    """The room a file lies in: its folder, or its own name at the top."""
    inside = path.relative_to(SOURCE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imported_modules(node: ast.AST, path: Path) -> list[str]:
    """Dotted names a statement imports; a relative import is refused, so that every import can be read."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.level:
            raise SystemExit(f"{path}:{node.lineno}: write imports in full, starting with {PACKAGE}")
        base = node.module or ""
        return [f"{base}.{alias.name}" if base == PACKAGE else base for alias in node.names]
    return []


def problems_in(path: Path) -> list[str]:
    """What a file imports against the rules."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    room, found = room_of(path), []
    if room not in ALLOWED:
        return [f"{path}: room '{room}' is not in the table of {Path(__file__).name}"]
    late = {node for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in ast.walk(function)}
    typing_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        for module in imported_modules(node, path):
            top, *rest = module.split(".")
            if top == PACKAGE:
                target = rest[0] if rest else "__init__"
                if target not in ({room} | ALLOWED[room]):
                    found.append(f"{path}:{node.lineno}: {room} must not import {target}")
            elif top in LATE and node not in late and node not in typing_only and path not in LATE_EXEMPT:
                found.append(f"{path}:{node.lineno}: import {top} inside the function that needs it")
    return found


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join((PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def rings(paths: Iterable[Path]) -> list[str]:
    """Files that import each other in a ring, if there is one. Imports within functions and for types count, too."""
    files = {module_of(path): path for path in paths}
    imports = {
        module: {
            name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for name in files_of(node, files)
        }
        for module, path in files.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return [f"files import each other in a ring: {' -> '.join(reversed(error.args[1]))}"]
    return []


def files_of(node: ast.AST, files: Iterable[str]) -> set[str]:
    """Those of the files that a statement imports, or imports something from."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & {*files}
    if isinstance(node, ast.ImportFrom):
        inner = {f"{node.module}.{alias.name}" for alias in node.names}
        return {name if name in files else str(node.module) for name in inner} & {*files}
    return set()


def main() -> int:
    paths = sorted(SOURCE.rglob("*.py"))
    problems = [*(problem for path in paths for problem in problems_in(path)), *rings(paths)]
    print("\n".join(problems) or f"imports of {len(paths)} files are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
