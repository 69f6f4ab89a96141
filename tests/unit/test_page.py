"""The page's Python side: what is served and written. What it does in a browser is `make test-web`."""

import json
import socket
import struct
import threading
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from ftbnn import page, zoo
from ftbnn.cli.main import main
from ftbnn.errors import UserError


@pytest.fixture
def built(tmp_path, monkeypatch):
    """As much of a built page as Python looks at."""
    static = tmp_path / "static"
    (static / "ftbnn").mkdir(parents=True)
    (static / "ftbnn" / "ftbnn.wasm").write_bytes(b"\0asm")
    (static / "index.html").write_text("<title>page</title>")
    (static / "app.js").write_text("1")
    monkeypatch.setattr(page, "STATIC", static)
    return static


@contextmanager
def serving():
    with page.server("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_every_network_of_the_zoo_is_offered_once():
    rows = page.networks()
    assert sorted(row["name"] for row in rows) == zoo.names()
    assert all(row["title"] and "% right" in row["about"] for row in rows)
    assert rows[0]["name"] == "mnist"  # a digit can be drawn at once


@pytest.mark.usefixtures("built")
def test_serves_page_and_zoo():
    with serving() as address:
        assert b"<title>page" in urlopen(f"{address}/").read()
        assert urlopen(f"{address}/app.js").headers["Content-Type"] == "text/javascript"
        assert urlopen(f"{address}/ftbnn/ftbnn.wasm").headers["Content-Type"] == "application/wasm"
        assert json.load(urlopen(f"{address}/contents.json")) == {"networks": page.networks(), "floats": None}
        assert urlopen(f"{address}/zoo/digits.ftbnn").read() == zoo.resolve("zoo:digits").read_bytes()


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "path", ["/zoo/none.ftbnn", "/zoo/digits.json", "/../../pyproject.toml", "/zoo/../__init__.py"]
)
def test_serves_nothing_else(path):
    with serving() as address, pytest.raises(HTTPError, match="404"):
        urlopen(f"{address}{path}")


def test_a_browser_that_goes_away_is_no_error(built, capsys):
    (built / "large").write_bytes(bytes(2**24))  # more than fits into what is on its way
    with serving() as address:
        connection = socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends at once
        connection.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        connection.recv(100)
        connection.close()
        assert b"<title>page" in urlopen(f"{address}/").read()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("built")
def test_writes_files_for_any_server(tmp_path, capsys):
    main(["demo", "--out", str(tmp_path / "site")])
    files = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*") if path.is_file()}
    assert files == {
        "index.html",
        "app.js",
        "ftbnn/ftbnn.wasm",
        "contents.json",
        *(f"zoo/{name}.ftbnn" for name in zoo.names()),
    }
    assert f"{len(files)} files" in capsys.readouterr().out


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--serve to serve the page, or --out"),
        (["--serve", "--out", "x"], "--serve to serve the page, or --out"),
        (["--serve", "--port", "70000"], "0 to 65535"),
    ],
)
def test_wrong_words(words, message, capsys):
    assert main(["demo", *words]) == 2
    assert message in capsys.readouterr().err


def test_says_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "STATIC", tmp_path)
    with pytest.raises(UserError, match="make web"):
        page.write(tmp_path / "site")


@pytest.mark.usefixtures("built")
def test_a_port_that_is_taken():
    with page.server("127.0.0.1", 0) as server, pytest.raises(UserError, match="another port"):
        page.server("127.0.0.1", server.server_port)
