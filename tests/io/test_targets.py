"""Files that cannot be read, and targets, which are whole or absent; messages are one line and hold no data."""

import errno
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from saved_files import SENTINEL, refused, save

from microveil.core.errors import DataError, FileError
from microveil.io.tables import (
    EXTENSIONS,
    FileFormat,
    atomic_target,
    check_place,
    check_target,
    read_table,
    write_table,
)
from microveil.storage.atomic import atomic_targets

# Files that cannot be read


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", FileError, ["is empty"]),
        (b"\xef\xbb\xbf", FileError, ["is empty"]),
        (b" \n\n", FileError, ["is empty"]),
        (b"x,y\n", DataError, ["has no rows"]),
        (b"x,y", DataError, ["has no rows"]),
        (b"x,y\n\n\n", DataError, ["has no rows"]),
        (f"x,y\nä,2\n{SENTINEL},".encode() + b"\xff\n", FileError, ["not UTF-8", "line 3", "--encoding"]),
        (f"x,y\n1,2\n{SENTINEL},\x81\n".encode("latin-1"), FileError, ["not UTF-8", "line 3", "nor cp1252"]),
        (f"x,y\n1,{SENTINEL}\n".encode("utf-16-le"), FileError, ["null byte", "--encoding utf-16"]),
        (f"\ufeffx,y\n1,{SENTINEL}".encode() + b"\xff\n", FileError, ["not UTF-8 text (line 2)", "--encoding"]),
        (f"x,y\n\xff,{SENTINEL}\0\n".encode("latin-1"), FileError, ["null bytes", "--encoding utf-16"]),
        (f"\ufeffx,y\n1,{SENTINEL}\n".encode("utf-16-le") + b"x", FileError, ["not UTF-16-LE text"]),
        (f"x,y\n1,2\n{SENTINEL},\0\n".encode(), FileError, ["null byte", "line 3"]),
        (f"x,y\n1,2\n{SENTINEL}\n3,4\n".encode(), FileError, ["1 cells on line 3", "header has 2"]),
        (f"x,y\n1,2\n\n3,{SENTINEL},5\n".encode(), FileError, ["3 cells on line 4", "a comma"]),
        (f'x;y\n"a\nb";2\n3;{SENTINEL};5\n'.encode(), FileError, ["3 cells on line 4", "a semicolon"]),
        (f'x,y\n1,2\n3,"{SENTINEL}\n5,6\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,y\n1,2\n3,"{SENTINEL}'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,y\n1,2\n"{SENTINEL},3\n5,6\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x\n1\n"{SENTINEL}\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,y\n1,2\n3,"{SENTINEL}""\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,"y\n1,{SENTINEL}\n'.encode(), FileError, ["quote in its header", "not closed"]),
        (f'x,"y\n1,{SENTINEL * 20_000}\n'.encode(), FileError, ["quote in its header", "not closed"]),
        (f'"x"y,z\n1,{SENTINEL}\n'.encode(), FileError, ["quote in its header", "followed by text"]),
        (f'x,y\n1,2\n3,"{SENTINEL}{"5,6 " * 3_000_000}\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f"x,,z\n1,{SENTINEL},3\n".encode(), DataError, ["no name for column 2 of 3"]),
        (f'"","row_names"\n"1",{SENTINEL}\n'.encode(), DataError, ["no name for column 1 of 2"]),
        (f"x,y,x,y,z\n{SENTINEL},2,3,4,5\n".encode(), DataError, ["'x' (columns 1, 3); 'y' (columns 2, 4)"]),
        (f'"a,\nb",y,"a,\nb"\n{SENTINEL},2,3\n'.encode(), DataError, [r"'a,\nb' (columns 1, 3)"]),
    ],
)
def test_malformed_csv(tmp_path, content, kind, words):
    path = save(tmp_path, content)
    message = refused(kind, lambda: read_table(path))
    for word in [*words, str(path)]:
        assert word in message


def test_a_record_in_place_of_the_header_is_refused_unseen(tmp_path):
    for content in (b"81234.5,3\n1,2\n", b"81234,81234,5\n1,2,3\n", b"81234,NA\n1,2\n", b"5,81234\n1,2\n"):
        message = refused(DataError, lambda content=content: read_table(save(tmp_path, content)))
        assert "column names" in message
        assert "81234" not in message
    for content in (b"Ann,81234,81234\n1,2,3\n", b"Ann,7,81234\n1,2,3\n", b"Ann,81234.5\n1,2\n"):
        message = refused(DataError, lambda content=content: read_table(save(tmp_path, content)))
        assert "numbers in place of column names" in message
        assert "81234" not in message
    assert read_table(save(tmp_path, b"region,2019,2020\n1,2,3\n"))[0].columns == ["region", "2019", "2020"]


def test_missing_file_names_its_neighbour(tmp_path):
    save(tmp_path, "x\n1\n", "firms.csv")
    message = refused(FileError, lambda: read_table(tmp_path / "firm.csv"))
    assert "no file" in message
    assert "'firms.csv'" in message
    assert "check the path" in refused(FileError, lambda: read_table(tmp_path / "no" / "firms.csv"))
    assert "no file" in refused(FileError, lambda: read_table(tmp_path / "firms.csv" / "x.csv"))
    refused(FileError, lambda: read_table(tmp_path / "null\0.csv"))
    refused(FileError, lambda: read_table(tmp_path / ("long" * 100 + ".csv")))


def test_names_with_line_ends_keep_the_message_on_one_line(tmp_path):
    refused(FileError, lambda: read_table(tmp_path / "two\nlines.csv"))
    refused(FileError, lambda: read_table(Path(os.fsdecode(b"odd\xff.csv"))))


def test_what_is_not_a_file_is_refused(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    assert "is a directory" in refused(FileError, lambda: read_table(tmp_path / "folder.csv"))
    os.mkfifo(tmp_path / "pipe.csv")
    assert "a pipe" in refused(FileError, lambda: read_table(tmp_path / "pipe.csv"))


@pytest.mark.parametrize("name", ["table.xls", "table", "table.csv.gz", ".csv"])
def test_unknown_extensions_list_the_known(tmp_path, name):
    path = save(tmp_path, "x\n1\n", name)
    written = [extension for extension in EXTENSIONS if extension != ".sas7bdat"]  # which only SAS writes
    for action, known in (
        (lambda: read_table(path), EXTENSIONS),
        (lambda: check_target(path), written),
        (lambda: write_table(pl.DataFrame({"x": [1]}), path, FileFormat("csv", ".csv")), written),
    ):
        message = refused(FileError, action)
        assert "extension" in message
        assert all(extension in message for extension in known)
        assert (".sas7bdat" in message) == (known is EXTENSIONS)


@pytest.mark.parametrize("extension", [".csv", ".parquet"])
def test_no_permission_to_read(tmp_path, monkeypatch, extension):
    # Root may read everything, so the refusal is staged where both readers open the file.
    path = save(tmp_path, "x\n1\n", f"in{extension}")

    def forbid(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", forbid)
    monkeypatch.setattr(Path, "read_bytes", forbid)
    message = refused(FileError, lambda: read_table(path))
    assert "cannot be read (permission denied)" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_real_permissions(tmp_path):
    path = save(tmp_path, "x\n1\n")
    path.chmod(0o000)
    assert "permission denied" in refused(FileError, lambda: read_table(path))
    path.chmod(0o444)
    assert "write-protected" in refused(FileError, lambda: check_target(path))
    path.unlink()
    tmp_path.chmod(0o555)
    assert "permission denied" in refused(FileError, lambda: check_target(path))
    tmp_path.chmod(0o755)


def test_not_parquet(tmp_path):
    frame = pl.DataFrame({"x": [SENTINEL] * 50})
    frame.write_parquet(tmp_path / "good.parquet")
    good = (tmp_path / "good.parquet").read_bytes()
    for content in (SENTINEL.encode() * 9, b"PAR1" + SENTINEL.encode() + b"PAR1", good[:-9], b"P"):
        path = save(tmp_path, content, "bad.parquet")
        message = refused(FileError, lambda path=path: read_table(path))
        assert "is not a Parquet file" in message
        assert str(path) in message
    frame.clear().write_parquet(path)
    assert "has no rows" in refused(DataError, lambda: read_table(path))
    repeated = pa.table([pa.array([SENTINEL])] * 3, names=["x", "y", "x"])
    pq.write_table(repeated, path)
    assert "repeats column names: 'x'" in refused(DataError, lambda: read_table(path))


# Targets


def test_a_good_target_passes_and_nothing_is_left(tmp_path):
    source = save(tmp_path, "x\n1\n")
    check_target(tmp_path / "out.csv", [source])
    check_place(tmp_path / "report.html", [source])
    check_target(source)  # an existing file may be replaced
    assert list(tmp_path.iterdir()) == [source]


def test_an_input_is_no_target(tmp_path):
    source = save(tmp_path, "x\n1\n")
    (tmp_path / "soft.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    for target in (source, tmp_path / "soft.csv", tmp_path / "hard.csv", tmp_path / ".." / tmp_path.name / "in.csv"):
        message = refused(FileError, lambda target=target: check_target(target, [source]))
        assert "one of the inputs" in message
    missing = tmp_path / "missing.csv"
    assert "inputs" in refused(
        FileError, lambda: check_target(missing, [tmp_path / ".." / tmp_path.name / "missing.csv"])
    )


def test_targets_without_a_place(tmp_path):
    save(tmp_path, "x\n1\n")
    (tmp_path / "folder.csv").mkdir()
    for target, words in (
        (tmp_path / "no" / "out.csv", "no folder"),
        (tmp_path / "in.csv" / "out.csv", "not a directory"),
        (tmp_path / "folder.csv", "is a directory"),
        (tmp_path / ("long" * 100 + ".csv"), "too long"),
        (tmp_path / "null\0.csv", "cannot be written"),
        (Path("/proc/self/out.csv"), "cannot be written"),  # a folder where not even root can make a file
    ):
        message = refused(FileError, lambda target=target: check_target(target))
        assert words in message
        refused(
            FileError, lambda target=target: write_table(pl.DataFrame({"x": [1]}), target, FileFormat("csv", ".csv"))
        )


def test_devices_and_pipes_are_never_replaced(tmp_path):
    full = Path("/dev/full")
    (tmp_path / "link.csv").symlink_to(full)
    os.mkfifo(tmp_path / "pipe.csv")

    def write(path: Path) -> None:
        with atomic_target(path) as temporary:
            temporary.write_text("never")

    for path in (full, tmp_path / "link.csv", tmp_path / "pipe.csv"):
        assert "a device or a pipe" in refused(FileError, lambda path=path: check_place(path))
        assert "a device or a pipe" in refused(FileError, lambda path=path: write(path))
    assert "a device" in refused(FileError, lambda: check_target(tmp_path / "link.csv"))
    assert stat.S_ISCHR(full.stat().st_mode)
    assert stat.S_ISFIFO((tmp_path / "pipe.csv").stat().st_mode)


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield 0o027
    os.umask(old)


def test_the_temporary_file_is_private_and_the_target_follows_the_umask(tmp_path, umask):
    path = tmp_path / "report.html"
    with atomic_target(path) as temporary:
        assert temporary.parent == tmp_path
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        temporary.write_text("done")
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        assert not path.exists()
    assert path.read_text() == "done"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_keeps_its_permissions_and_its_link(tmp_path, umask):
    real = tmp_path / "real.csv"
    for mode in (0o600, 0o666):
        real.write_text("old")
        real.chmod(mode)
        link = tmp_path / "link.csv"
        link.unlink(missing_ok=True)
        link.symlink_to(real)
        write_table(pl.DataFrame({"x": [1, 2]}), link, FileFormat("csv", ".csv"))
        assert link.is_symlink()
        assert real.read_text() == "x\n1\n2\n"
        assert stat.S_IMODE(real.stat().st_mode) == mode


def test_the_group_loses_its_rights_when_it_would_be_another_group(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("old")
    path.chmod(0o664)

    def forbid(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", forbid)
    with atomic_target(path) as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError, MemoryError])
@pytest.mark.parametrize("exists", [True, False])
def test_any_failure_leaves_things_as_they_were(tmp_path, error, exists):
    path = tmp_path / "x.json"
    if exists:
        path.write_text("old")

    def fail() -> None:
        with atomic_target(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == ([(path, "old")] if exists else [])


def test_files_that_belong_together_appear_together(tmp_path):
    paths = [tmp_path / name for name in ("report.html", "out.csv")]
    paths[0].write_text("old")
    with atomic_targets(paths) as temporaries:
        for temporary in temporaries:
            temporary.write_text("new")
        assert paths[0].read_text() == "old"
        assert not paths[1].exists()
    assert [path.read_text() for path in paths] == ["new", "new"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_no_file_is_replaced_before_all_are_on_the_disk(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("report.html", "out.csv")]
    for path in paths:
        path.write_text("old")
    calls = []

    def full(path, _):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("microveil.storage.atomic._sync", full)

    def write() -> None:
        with atomic_targets(paths):
            pass

    assert str(paths[1]) in refused(FileError, write)
    assert {path: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(paths, "old")


def test_what_its_writer_calls_private_stays_so(tmp_path, umask):
    paths = [tmp_path / name for name in ("a.html", "b.html")]
    with atomic_targets(paths) as (first, second), atomic_targets([first, second], private=[second]):
        pass
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o640, 0o600]


def test_without_locks_the_file_of_another_run_is_not_swept(tmp_path, monkeypatch):
    """Some network file systems have none (ENOLCK), and then nobody can tell whether a file was left behind."""

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    others = tmp_path / ".microveil-other.tmp"
    others.write_text("being written")
    with atomic_target(tmp_path / "x.csv") as temporary:
        temporary.write_text("new")
    assert others.read_text() == "being written"
    assert (tmp_path / "x.csv").read_text() == "new"


def test_an_error_about_a_temporary_file_names_the_target(tmp_path):
    paths = [tmp_path / name for name in ("a.html", "b.html")]

    def fail() -> None:
        with atomic_targets(paths) as (_, second), atomic_target(second):
            raise OSError(28, "No space left on device")

    assert refused(FileError, fail).startswith(f"'{paths[1]}' cannot be written")
    assert list(tmp_path.iterdir()) == []


def test_a_table_goes_into_a_given_file_in_the_format_of_its_target(tmp_path):
    frame = pl.DataFrame({"x": [1, 2]})
    place = tmp_path / "given.tmp"
    for name in ("out.csv", "out.tsv", "out.parquet"):
        write_table(frame, tmp_path / name, FileFormat("csv", ".csv"))
        write_table(frame, tmp_path / "other" / name, FileFormat("csv", ".csv"), into=place)
        assert place.read_bytes() == (tmp_path / name).read_bytes()
    missing = tmp_path / "nowhere" / "given.tmp"
    message = refused(
        FileError, lambda: write_table(frame, tmp_path / "o.csv", FileFormat("csv", ".csv"), into=missing)
    )
    assert message.startswith(f"'{tmp_path / 'o.csv'}' cannot be written")


def test_a_target_that_cannot_hold_the_table_is_refused_in_time(tmp_path):
    frame = pl.DataFrame({"x": [[1]]})
    check_target(tmp_path / "o.parquet", frame=frame)
    assert "'x'" in refused(FileError, lambda: check_target(tmp_path / "o.csv", frame=frame))


@pytest.mark.parametrize(("name", "method"), [("out.csv", "write_csv"), ("out.parquet", "write_parquet")])
def test_ctrl_c_while_writing_leaves_nothing(tmp_path, monkeypatch, name, method):
    modes = []

    def interrupted(self, file, **_):
        file.write(b"half")
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_table(pl.DataFrame({"x": [1]}), tmp_path / name, FileFormat("csv", ".csv"))
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_polars_is_told_without_its_words(tmp_path, monkeypatch):
    def fail(self, file, **_):
        raise pl.exceptions.ComputeError(f"cannot convert {SENTINEL}")

    monkeypatch.setattr(pl.DataFrame, "write_csv", fail)
    path = tmp_path / "out.csv"
    message = refused(FileError, lambda: write_table(pl.DataFrame({"x": [1]}), path, FileFormat("csv", ".csv")))
    assert str(path) in message
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_the_system_is_named(tmp_path):
    def fail() -> None:
        with atomic_target(tmp_path / "x.html"):
            raise OSError(28, "No space left on device")

    message = refused(FileError, fail)
    assert "x.html' cannot be written (no space left on device); free some space" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_full_disk_for_real(tmp_path, name):
    path = save(tmp_path, "old", name)
    script = f"""
        import resource
        from pathlib import Path
        import numpy as np, polars as pl
        from microveil.core.errors import FileError
        from microveil.io.tables import FileFormat, write_table

        frame = pl.DataFrame({{"x": np.random.default_rng(1).normal(size=200_000)}})
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            write_table(frame, Path({str(path)!r}), FileFormat("csv", ".csv"))
        except FileError as error:
            print(error)
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"'{path}' cannot be written (file too large); free some space, or choose another disk\n"
    assert run.stderr == ""
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(path, "old")]
