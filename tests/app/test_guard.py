"""Who is let in, and what is left behind."""

from __future__ import annotations

import http.cookiejar
import os
import signal
import socket
import stat
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest
from app_process import start
from visitor import HOME, OURS, PORT, Visitor

from microveil.app.cases import safe_name
from microveil.app.guard import POLICY, Keys
from microveil.app.pages import EXTENSIONS, LARGEST_UPLOAD, Pages
from microveil.app.private import PREFIX, private_folder
from microveil.app.server import _open as open_page
from microveil.io.tables import FORMATS

CSV = b"a,b\n1,2\n3,4\n"


@pytest.mark.parametrize("token", [None, "", "wrong", "é"])
def test_without_the_token_nothing_is_shown(pages: Pages, token: str | None) -> None:
    stranger = Visitor(pages, Keys(), known=False)
    params = {} if token is None else {"token": token}
    for answer in (stranger.http.get("/", params=params), stranger.http.get("/static/app.js", params=params)):
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    assert stranger.http.put("/upload?name=a.csv", content=CSV, headers=OURS).status_code == 403
    assert pages.desk.cases == {}


def test_the_token_gives_a_cookie_that_scripts_and_other_sites_do_not_see(pages: Pages) -> None:
    visitor = Visitor(pages, keys := Keys(), known=False)
    answer = visitor.http.get("/", params={"token": keys.token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert keys.token not in cookie
    page = visitor.http.get("/")
    assert page.status_code == 200
    assert keys.token not in page.text


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""])
def test_another_host_is_refused(visitor: Visitor, host: str) -> None:
    assert visitor.http.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1", None]
)
def test_another_origin_changes_nothing(visitor: Visitor, origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    assert visitor.http.post("/example", headers=headers).status_code == 403
    assert visitor.http.put("/upload?name=a.csv", content=CSV, headers=headers).status_code == 403
    assert visitor.pages.desk.cases == {}


def test_another_site_cannot_read_a_case_by_a_link(visitor: Visitor) -> None:
    visitor.send("a.csv", CSV)
    answer = visitor.http.get(f"/case/{visitor.case.id}/data", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403


def test_every_answer_has_the_policy_and_pages_have_no_inline_script(visitor: Visitor) -> None:
    for path in ("/", "/static/app.js", "/nothing"):
        assert visitor.http.get(path).headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    page = visitor.http.get("/").text
    assert "<script>" not in page
    assert " style=" not in page
    assert " on" + "click" not in page


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("../../etc/passwd.csv", "passwd.csv"),
        ("..\\..\\x.csv", "x.csv"),
        ("a\x00b.csv", "a_b.csv"),
        ("postgresql://h#t.csv", "h_t.csv"),
        (".csv", "table.csv"),
        ("-rf.csv", "rf.csv"),
        ("Löhne (2024).csv", "Löhne (2024).csv"),
        ("$(reboot);'\".csv", "_(reboot)___.csv"),
    ],
)
def test_names_of_files_lead_nowhere_else(given: str, safe: str) -> None:
    assert safe_name(given) == safe


def test_paths_in_addresses_lead_nowhere_else(visitor: Visitor) -> None:
    visitor.send("../../../out.csv", CSV)
    case = visitor.case
    assert case.source.parent == case.folder
    for path in ("/static/../pages.py", "/static/%2e%2e/pages.py", f"/case/{case.id}/run/x/..%2f..%2fout.csv"):
        assert visitor.http.get(path).status_code == 404
    assert visitor.http.get("/case/../case").status_code == 404


def test_uploads_are_for_their_owner_only(visitor: Visitor) -> None:
    visitor.send("a.csv", CSV)
    assert stat.S_IMODE(visitor.case.source.stat().st_mode) == 0o600
    assert stat.S_IMODE(visitor.case.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("name", "content", "headers", "word"),
    [
        ("a.exe", CSV, {}, "cannot be read"),
        ("a.csv", b"", {}, "empty"),
        ("a.csv", b"x", {"content-length": str(2 * 10**9)}, "larger than"),
        ("a.csv", b"x", {"content-length": "-5"}, "larger than"),
    ],
)
def test_what_is_no_table_is_refused_with_a_sentence(
    visitor: Visitor, name: str, content: bytes, headers: dict[str, str], word: str
) -> None:
    answer = visitor.http.put(f"/upload?name={name}", content=content, headers={**OURS, **headers})
    assert answer.status_code >= 400
    assert word in answer.json()["failed"]
    assert visitor.pages.desk.cases == {}
    assert list(visitor.pages.desk.folder.iterdir()) == []


def test_an_upload_that_never_ends_is_cut(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microveil.app.pages.LARGEST_UPLOAD", 1000)
    answer = visitor.http.put("/upload?name=a.csv", content=(b"x" * 300 for _ in range(9)), headers=OURS)
    assert answer.status_code == 413
    assert list(visitor.pages.desk.folder.iterdir()) == []
    assert LARGEST_UPLOAD >= 10**9


def test_the_kinds_of_files_are_those_that_are_read() -> None:
    assert set(EXTENSIONS) == set(FORMATS)


def test_an_unforeseen_error_quotes_nothing(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("planted-secret")

    monkeypatch.setattr("microveil.app.actions.describe", fail)
    with pytest.raises(ValueError, match="planted-secret"):  # what the server, which logs nothing, would get
        visitor.send("a.csv", CSV)
    visitor.http = type(visitor.http)(visitor.http.app, base_url=HOME, raise_server_exceptions=False)
    visitor.http.get("/", params={"token": visitor.keys.token})
    answer = visitor.send("a.csv", CSV)
    assert answer.status_code == 500
    assert "planted-secret" not in answer.text + caplog.text


def test_a_killed_app_leaves_what_the_next_one_sweeps(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}stranger").mkdir()  # without a lock of ours
    killed, address = start(tmp_path)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    assert address.startswith("http://127.0.0.1:")
    page = opener.open(address, timeout=10)
    assert b"microveil" in page.read()
    origin = address.partition("/?")[0]
    upload = urllib.request.Request(
        f"{origin}/upload?name=a.csv", data=b"a,b\nplanted,2\n" * 9, method="PUT", headers={"origin": origin}
    )
    assert opener.open(upload, timeout=10).status == 200
    with pytest.raises(HTTPError):
        urllib.request.urlopen(f"{origin}/", timeout=10)
    with socket.socket() as other:
        other.settimeout(1)
        assert other.connect_ex((_own_address(), int(origin.rpartition(":")[2]))) != 0, "only the loopback answers"
    left = [folder for folder in tmp_path.iterdir() if list(folder.glob("*/a.csv"))]
    assert len(left) == 1
    assert stat.S_IMODE(left[0].stat().st_mode) == 0o700
    killed.send_signal(signal.SIGKILL)
    assert killed.communicate(timeout=10)[1] == "", "nothing is logged"
    stopped, _ = start(tmp_path)
    assert not left[0].exists()
    stopped.send_signal(signal.SIGINT)
    assert stopped.communicate(timeout=10) == ("", "")
    assert stopped.returncode == 0
    assert [folder.name for folder in tmp_path.iterdir()] == [f"{PREFIX}stranger"]


OTHERS_TRY = """
cat "$(dirname "$1")/for-all.txt" || exit 1   # else the test would show nothing
for attempt in "ls $1" "cat $1/lock" "cat $2" "cat /proc/$3/environ" "ls /proc/$3/fd"; do
    $attempt > /dev/null 2>&1 && echo "$attempt works"
done
tr '\\0' ' ' < "/proc/$3/cmdline"
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another user")
def test_another_user_of_the_machine_gets_nothing() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)  # noqa: PTH101 - what is private must be so by itself
        (Path(place) / "for-all.txt").write_text("nothing")
        app, address = start(Path(place))
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(address, timeout=10).read()
        origin = address.partition("/?")[0]
        sent = urllib.request.Request(
            f"{origin}/upload?name=a.csv", data=CSV * 9, method="PUT", headers={"origin": origin}
        )
        assert opener.open(sent, timeout=10).status == 200
        folder = next(Path(place).glob(f"{PREFIX}*"))
        file = next(folder.glob("*/a.csv"))
        command = ["/bin/sh", "-c", OTHERS_TRY, "sh", str(folder), str(file), str(app.pid)]
        found = subprocess.run(command, user="nobody", capture_output=True, text=True, timeout=60, check=False)
        app.terminate()
        assert app.communicate(timeout=20) == ("", "")
    assert found.stdout.startswith("nothing")
    assert "works" not in found.stdout
    assert address.partition("token=")[2] not in found.stdout, "what processes are started with, all users see"


def test_the_browser_is_started_without_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    open_page("http://127.0.0.1:1/?token=secret", tmp_path)
    assert opened == [(tmp_path / "open.html").as_uri()]
    assert "secret" in (tmp_path / "open.html").read_text()
    assert stat.S_IMODE((tmp_path / "open.html").stat().st_mode) == 0o600


def test_who_comes_from_another_page_is_led_on_by_a_page_of_ours(pages: Pages) -> None:
    visitor = Visitor(pages, keys := Keys(), known=False)
    answer = visitor.http.get("/", params={"token": keys.token}, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200
    assert 'url=/"' in answer.text
    assert keys.token not in answer.text
    assert visitor.http.get("/").status_code == 200


@pytest.mark.parametrize("led", [{}, {"sec-fetch-site": "cross-site"}])
def test_the_token_leads_to_the_file_that_was_named(pages: Pages, led: dict[str, str]) -> None:
    visitor = Visitor(pages, keys := Keys(), known=False, first="/case/x/data")
    answer = visitor.http.get("/", params={"token": keys.token}, headers=led)
    assert "/case/x/data" in answer.headers.get("location", answer.text)


def test_the_cookie_of_one_app_opens_no_other(visitor: Visitor, pages: Pages) -> None:
    other = Visitor(pages, Keys(), known=False)
    other.http.cookies.update(visitor.http.cookies)
    assert other.http.get("/").status_code == 403


@pytest.mark.parametrize(
    "body", [b"a=" + b"x" * 3_000_000, b"&".join(b"a%d=1" % k for k in range(200_000)), b"\xff\x00=%"]
)
def test_a_huge_or_odd_form_is_refused_or_changes_nothing(visitor: Visitor, body: bytes) -> None:
    visitor.send("a.csv", CSV)
    visitor.do("cancel")
    before = visitor.case.choices
    answer = visitor.http.post(f"/case/{visitor.case.id}/columns", content=body, headers=OURS)
    assert answer.status_code in (303, 413)
    assert visitor.case.choices == before


def test_an_upload_that_stops_half_way_leaves_nothing(tmp_path: Path) -> None:
    app, address = start(tmp_path)
    origin = address.partition("/?")[0]
    jar = http.cookiejar.CookieJar()
    urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar)).open(address, timeout=10).read()
    cookie = "; ".join(f"{one.name}={one.value}" for one in jar)
    host = origin.removeprefix("http://")
    lines = ["PUT /upload?name=a.csv HTTP/1.1", f"host: {host}", f"origin: {origin}", f"cookie: {cookie}"]
    with socket.create_connection(("127.0.0.1", int(host.partition(":")[2])), timeout=10) as half:
        half.sendall("\r\n".join([*lines, "content-length: 5000", "", "planted_4711"]).encode())
        time.sleep(0.5)
        assert (
            urllib.request.urlopen(urllib.request.Request(f"{origin}/", headers={"cookie": cookie}), timeout=10).status
            == 200
        ), "who is slow holds nobody up"
    end = time.monotonic() + 20
    while list(tmp_path.glob("*/*/a.csv")) and time.monotonic() < end:
        time.sleep(0.1)
    assert list(tmp_path.glob("*/*/a.csv")) == []
    app.terminate()
    assert app.communicate(timeout=20) == ("", "")


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "192.0.2.1"
        found = str(probe.getsockname()[0])
    return "192.0.2.1" if found.startswith("127.") else found


def test_a_folder_in_use_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROVEIL_TEMPORARY", str(tmp_path))
    with private_folder() as first:
        with private_folder() as second:
            assert first.is_dir()
            assert second != first
        assert not second.exists()
    assert not first.exists()


def test_files_of_a_folder_are_opened_by_their_number_and_links_out_of_it_are_not(tmp_path: Path, pages: Pages) -> None:
    folder, outside = tmp_path / "shown", tmp_path / "outside.csv"
    folder.mkdir()
    outside.write_bytes(CSV)
    (folder / "in.csv").write_bytes(CSV)
    (folder / "out.csv").symlink_to(outside)
    (folder / "notes.md").write_text("no table")
    pages.folder = folder
    visitor = Visitor(pages, Keys())
    assert "in.csv" in visitor.http.get("/").text
    assert "out.csv" not in visitor.http.get("/").text
    for wrong in ("1", "-1", "../outside.csv", ""):
        visitor.http.post("/open", data={"file": wrong}, headers=OURS)
    assert pages.desk.cases == {}
    visitor.http.post("/open", data={"file": "0"}, headers=OURS)
    assert visitor.case.source.resolve() == folder / "in.csv"
    visitor.http.post(f"/case/{visitor.case.id}/close", headers=OURS)
    assert (folder / "in.csv").read_bytes() == CSV, "what is closed is forgotten, and the file stays"
    assert list(pages.desk.folder.iterdir()) == []
