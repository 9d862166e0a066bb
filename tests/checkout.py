"""What tests need from a checkout of the repository, which an installed package does not have."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def script(name: str) -> ModuleType:
    """A script of the repository as a module; without a checkout the test is skipped."""
    path = ROOT / "scripts" / f"{name}.py"
    if not path.is_file():
        pytest.skip("the scripts folder is not here: this is not a checkout of the repository")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
