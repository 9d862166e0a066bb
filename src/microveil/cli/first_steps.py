"""`microveil example` and `microveil doctor`: a file to try things on, and what this machine has."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from rich.markup import escape

from microveil.catalogue import example_file
from microveil.cli.endings import point_of_no_return
from microveil.cli.shared import Screen
from microveil.cli.show.console import out
from microveil.core.errors import ParameterError
from microveil.core.late import EXTRAS
from microveil.core.threads import worker_count
from microveil.core.version import __version__
from microveil.storage.atomic import atomic_targets, check_new, check_place


def example(asked: Any, screen: Screen) -> None:
    """Write the bundled survey."""
    file = asked.file
    if file.suffix.lower() != ".csv":
        raise ParameterError(f"FILE: '{file.name}' is no .csv file", "name it firms.csv, for example")
    check_place(file, [])
    check_new(file, overwrite=asked.overwrite)
    with atomic_targets([file], point_of_no_return()) as (temporary,):
        temporary.write_bytes(example_file().read_bytes())
    following = f"Next: microveil describe {escape(str(file))}"
    screen.answer(lambda: {"written": str(file)}, lambda: out(following), [file])


def doctor(asked: Any, screen: Screen) -> None:  # noqa: ARG001 - it has no options
    """What is installed, and what the machine has."""
    found = findings()
    screen.answer(lambda: found, partial(_show, found))


def findings() -> dict[str, Any]:
    """Versions, extras, cores, memory and places; nothing of anybody's data."""
    core = [line.partition(">")[0] for line in requires("microveil") or () if "extra ==" not in line]
    return {
        "microveil": __version__,
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "packages": {name: _version(name) for name in sorted(core)},
        "extras": {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()},
        "cores": worker_count(),
        "memory_gb": None if (size := _memory()) is None else round(size / 1e9, 1),
        "places": {
            "program": str(Path(sys.prefix)),
            "temporary files": tempfile.gettempdir(),
            "reference data": os.environ.get("MICROVEIL_REFERENCE_DATA") or None,
        },
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _memory() -> int | None:
    """Bytes of the machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _show(found: dict[str, Any]) -> None:
    out(f"microveil {found['microveil']}, Python {found['python']}, {found['system']}")
    memory = "" if found["memory_gb"] is None else f", {found['memory_gb']} GB of memory"
    out(f"{found['cores']} cores (MICROVEIL_THREADS sets fewer){memory}")
    for extra, packages in found["extras"].items():
        missing = [name for name, installed in packages.items() if installed is None]
        state = f"not installed: pip install 'microveil\\[{extra}]'" if missing else "installed"
        out(f"  {extra}: {state} ({', '.join(packages)})")
    lacking = [name for name, installed in found["packages"].items() if installed is None]
    if lacking:
        out(f"[yellow]Missing:[/yellow] {', '.join(lacking)}; install microveil again")
    for what, place in found["places"].items():
        out(f"{what}: {escape(place or 'none named (MICROVEIL_REFERENCE_DATA)')}")
    out("Files are written where you say, next to a temporary one; nothing leaves this machine.")
