"""Writing into a database: a failure in the middle leaves everything as it was."""

import os
import stat

import polars as pl
import pytest
from table_bases import ROWS, refused, table

from microveil.core.errors import FileError
from microveil.io.locations import Database, place_from
from microveil.io.tables import FileFormat, check_target, pending_table, read_table, write_table


def test_an_existing_table_is_replaced_only_if_asked(base):
    source, target = table(base), table(base, ROWS[:2])
    frame, like = read_table(f"{base.address}#{source}")
    where = f"{base.address}#{target}"
    for action in (lambda: write_table(frame, where, like), lambda: check_target(where)):
        assert "exists already; name another table, or say --overwrite" in refused(FileError, action)
    assert len(base.run(f'SELECT * FROM "{target}"')) == 2
    check_target(where, replacing=True)
    write_table(frame, where, like, replacing=True)
    assert len(base.run(f'SELECT * FROM "{target}"')) == len(ROWS)


def test_the_source_is_no_target(base):
    source = table(base)
    where = place_from(f"{base.address}#{source}")
    assert "one of the inputs" in refused(FileError, lambda: check_target(where, [where], replacing=True))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_failure_before_the_end_leaves_the_target_as_it_was(base, error):
    source, target = table(base), table(base, ROWS[:2])
    before = base.run(f'SELECT * FROM "{target}"')
    frame, like = read_table(f"{base.address}#{source}")

    def fail() -> None:
        with pending_table(frame, place_from(f"{base.address}#{target}"), like, replacing=True):
            raise error

    with pytest.raises(error):
        fail()
    assert base.run(f'SELECT * FROM "{target}"') == before
    assert base.types(target) == [(n, kind) for n, kind in base.types(source)]


def test_a_failure_in_the_middle_of_the_batches_leaves_the_target_as_it_was(base, monkeypatch):
    for module in ("base", "sqlite"):
        monkeypatch.setattr(f"microveil.io.databases.{module}.ROWS", 2)
    source, target = table(base), table(base, ROWS[:2])
    before = base.run(f'SELECT * FROM "{target}"')
    frame, like = read_table(f"{base.address}#{source}")
    plain, taken = pl.DataFrame.to_arrow, []

    def breaks(self, *args, **options):
        taken.append(self.height)
        if taken.count(2) == 2:  # the second batch
            raise RuntimeError
        return plain(self, *args, **options)

    class Cells(list):
        def __getitem__(self, place):
            if isinstance(place, slice) and place.start == 2:
                raise RuntimeError
            return super().__getitem__(place)

    monkeypatch.setattr(pl.DataFrame, "to_arrow", breaks)
    monkeypatch.setattr("microveil.io.databases.sqlite._cells", lambda column, _: Cells(column.to_list()))
    with pytest.raises((RuntimeError, FileError)):
        write_table(frame, f"{base.address}#{target}", like, replacing=True)
    monkeypatch.undo()
    assert base.run(f'SELECT * FROM "{target}"') == before
    refused(FileError, lambda: write_table(frame, f"{base.address}#{target}", like))  # it can still be reached


def test_a_file_that_is_new_is_private_until_it_is_whole_and_gone_if_it_fails(tmp_path):
    frame = pl.DataFrame({"x": [1.5, 2.5]})
    for kind in ("sqlite", "duckdb"):
        file = tmp_path / f"new.{kind}"
        where = Database(kind, f"{kind}:///{file}", "made")

        def fail(where=where, file=file) -> None:
            with pending_table(frame, where, FileFormat("csv")):
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert list(tmp_path.iterdir()) == []
        mask = os.umask(0o027)
        write_table(frame, where, FileFormat("csv"))
        os.umask(mask)
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert [path.name for path in tmp_path.iterdir()] == [file.name]
        file.unlink()
