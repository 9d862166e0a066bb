"""`make fuzz` for a few seconds: it tries what it says, and sees what it looks for."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import pytest

from microveil.core.errors import DataError

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fuzz.py"


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_readers_are_tried_and_hold(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "ROUND", 20)
    fuzz.fuzz(0)
    assert {what.split()[0] for what in fuzz.outcomes} == {"csv", "dictionary"}
    assert fuzz.outcomes.total() >= 40


def test_a_value_in_an_error_is_seen_also_behind_it(fuzz: ModuleType) -> None:
    fuzz.check_silent(DataError("column 'a' has 3 infinite cells"))
    with pytest.raises(AssertionError, match="a value is in an error"):
        fuzz.check_silent(DataError(f"cannot read {fuzz.SENTINEL}"))
    try:
        try:
            raise ValueError(fuzz.SENTINEL)
        except ValueError as error:
            behind = DataError("cannot read it")
            behind.__context__ = error
            raise behind from None
    except DataError as silent:
        fuzz.check_silent(silent)  # a traceback does not show it
        silent.__suppress_context__ = False
        with pytest.raises(AssertionError, match="a value is in an error"):
            fuzz.check_silent(silent)


def test_a_hang_is_seen(fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "DEADLINE", 1)
    with pytest.raises(TimeoutError), fuzz.in_time():
        time.sleep(5)
