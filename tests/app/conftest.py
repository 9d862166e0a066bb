"""The app: its pages, and those who work for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from visitor import Visitor

from microveil.app.cases import Desk
from microveil.app.guard import Keys
from microveil.app.pages import Pages
from microveil.app.work import WorkerPool


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    workers = WorkerPool()
    yield Pages(Desk(folder), workers)
    workers.stop()


@pytest.fixture
def visitor(pages: Pages) -> Visitor:
    return Visitor(pages, Keys())
