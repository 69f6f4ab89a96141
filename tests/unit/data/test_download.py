import hashlib
import io
import json
import sys
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ftbnn.cli.main import main
from ftbnn.data import download
from ftbnn.data.download import INSTEAD, REMOTES, Remote
from ftbnn.errors import UserError

FILE = "things.bin"
DATA = hashlib.shake_128(b"things").digest(600_000)
SMALL = b"small file"


@dataclass
class Behaviour:
    """What the server holds and how it misbehaves; `asked` records (path, Range) of every request."""

    files: dict = field(default_factory=lambda: {f"/{FILE}": DATA, "/small.bin": SMALL})
    break_after: int | None = None  # bytes per answer
    ignores_range: bool = False
    wrong_range: bool = False
    says_length: bool = True
    status: int | None = None
    asked: list = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        behaviour = self.server.behaviour
        wanted = self.headers.get("Range")
        behaviour.asked.append((self.path, wanted))
        data = behaviour.files.get(self.path)
        if behaviour.status or data is None:
            self.send_error(behaviour.status or 404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and not behaviour.ignores_range else 0
        if start and start >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            shown = start + 1 if behaviour.wrong_range else start
            self.send_header("Content-Range", f"bytes {shown}-{len(data) - 1}/{len(data)}")
        if behaviour.says_length:
            self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:][: behaviour.break_after])


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.behaviour = Behaviour()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}"
    md5 = {FILE: hashlib.md5(DATA).hexdigest(), "small.bin": hashlib.md5(SMALL).hexdigest()}
    monkeypatch.setitem(REMOTES, "cifar10", Remote(base, "sub", md5))
    yield server.behaviour
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def part(tmp_path):
    (tmp_path / "sub").mkdir()
    return tmp_path / "sub" / f"{FILE}.part"


def arrived(tmp_path):
    folder = tmp_path / "sub"
    assert sorted(path.name for path in folder.iterdir()) == ["small.bin", FILE]
    return (folder / FILE).read_bytes() == DATA and (folder / "small.bin").read_bytes() == SMALL


def ranges(server):
    return [wanted for path, wanted in server.asked if path == f"/{FILE}"]


def test_downloads_once(server, tmp_path, capsys):
    paths = download("cifar10", tmp_path / "new")
    assert paths == [tmp_path / "new/sub" / FILE, tmp_path / "new/sub/small.bin"]
    assert arrived(tmp_path / "new")
    assert capsys.readouterr().err.count("\n") == 2
    download("cifar10", tmp_path / "new")
    assert len(server.asked) == 2
    assert capsys.readouterr().err.count("already there") == 2


def test_a_damaged_file_is_fetched_again(server, tmp_path, part):
    part.with_name(FILE).write_bytes(DATA[:-1])
    download("cifar10", tmp_path)
    assert arrived(tmp_path)
    assert ranges(server) == [None]


def test_goes_on_where_an_earlier_run_stopped(server, tmp_path, part):
    part.write_bytes(DATA[:1234])
    download("cifar10", tmp_path)
    assert arrived(tmp_path)
    assert ranges(server) == ["bytes=1234-"]


def test_a_complete_part_is_not_fetched_again(server, tmp_path, part):
    part.write_bytes(DATA)
    download("cifar10", tmp_path)
    assert arrived(tmp_path)
    assert ranges(server) == []


def test_a_connection_that_keeps_breaking_gets_there(server, tmp_path):
    server.break_after = 250_000
    download("cifar10", tmp_path)
    assert arrived(tmp_path)
    assert ranges(server) == [None, "bytes=250000-", "bytes=500000-"]


@pytest.mark.parametrize("fault", ["ignores_range", "wrong_range"])
def test_starts_anew_where_the_server_will_not_resume(server, tmp_path, part, fault):
    setattr(server, fault, True)
    part.write_bytes(DATA[:1234])
    download("cifar10", tmp_path)
    assert arrived(tmp_path)


@pytest.mark.parametrize("extra", [b"", b"and more"])
def test_a_part_longer_than_the_file_starts_anew(server, tmp_path, part, extra):
    part.write_bytes(b"x" * len(DATA) + extra)
    download("cifar10", tmp_path)
    assert arrived(tmp_path)
    assert ranges(server)[-1] is None


def test_a_server_without_lengths(server, tmp_path):
    server.says_length = False
    download("cifar10", tmp_path)
    assert arrived(tmp_path)


def fails(tmp_path, *, match, **kwargs):
    with pytest.raises(UserError, match=match) as caught:
        download("cifar10", tmp_path, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_breaking_off_without_progress_keeps_the_part(server, tmp_path, part):
    server.break_after = 100_000
    server.ignores_range = True
    fails(tmp_path, match="broke off after 100000 of 600000 bytes; run again to continue")
    assert part.stat().st_size == 100_000
    assert len(server.asked) == 2


def test_wrong_bytes_are_thrown_away(server, tmp_path, part):
    server.files[f"/{FILE}"] = DATA[::-1]
    fails(tmp_path, match="wrong checksum")
    assert list(part.parent.iterdir()) == []


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusing_server(server, tmp_path, status):
    server.status = status
    fails(tmp_path, match=f"HTTP {status}")


def test_without_a_network_it_says_which_files_belong_where(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    nowhere = "http://127.0.0.1:9"
    with pytest.raises(UserError, match="Connection refused") as caught:
        download("mnist", tmp_path, nowhere)
    text = str(caught.value)
    assert all(file in text for file in REMOTES["mnist"].md5)
    assert f"from {nowhere} into {tmp_path / 'mnist'}" in text
    assert "\n" not in text


def test_only_the_missing_files_are_asked_for(server, tmp_path, part):
    part.with_name(FILE).write_bytes(DATA)
    server.status = 503
    text = fails(tmp_path, match=r"put small\.bin from")
    assert FILE not in text


def test_a_full_disk_is_one_line(server, tmp_path, part):
    part.symlink_to("/dev/full")
    fails(tmp_path, match=r"cannot write .*\.part: No space left on device")
    assert server.asked


def test_a_directory_that_cannot_be_written(server, tmp_path):
    (tmp_path / "sub").write_text("a file in the way")
    fails(tmp_path, match="cannot write")
    assert not server.asked


@pytest.mark.parametrize("mirror", ["example.org/data", "ftp://example.org"])
def test_a_mirror_is_an_address(tmp_path, mirror):
    fails(tmp_path, match="begins with http://", mirror=mirror)


def test_a_mirror_may_be_a_folder(server, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / FILE).write_bytes(DATA)
    (source / "small.bin").write_bytes(SMALL)
    download("cifar10", tmp_path, f"{source.as_uri()}/")
    assert arrived(tmp_path)
    assert not server.asked


@pytest.mark.parametrize("name", INSTEAD)
def test_what_cannot_be_downloaded_says_what_to_do(tmp_path, name):
    with pytest.raises(UserError, match=r"nothing to download|image-net\.org|of your own"):
        download(name, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("server")
def test_a_terminal_gets_a_bar(tmp_path, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    download("cifar10", tmp_path)
    assert FILE in terminal.getvalue()
    assert "100%" in terminal.getvalue()


@pytest.mark.usefixtures("server")
def test_the_verb_downloads(tmp_path, capsys):
    assert main(["data", "cifar10", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["files"] == [str(tmp_path / "sub" / FILE), str(tmp_path / "sub/small.bin")]


def test_the_verb_lists(capsys):
    assert main(["data"]) == 0
    assert "fashion-mnist" in capsys.readouterr().out
    assert main(["data", "--json"]) == 0
    assert {row["name"]: row["downloads"] for row in json.loads(capsys.readouterr().out)}["cifar100"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["cifar"], "did you mean cifar10"),
        (["cifar10"], "--out DIR"),
        (["--out", "x"], "say which data set"),
        (["imagefolder", "--out", "x"], "image-net.org"),
    ],
)
def test_mistakes_with_the_verb_are_one_line(capsys, argv, message):
    assert main(["data", *argv]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
