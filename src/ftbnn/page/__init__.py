"""The page people can play with (web/page): served, or written as static files. `make web` puts it together."""

import json
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ftbnn import zoo
from ftbnn.errors import UserError

STATIC = Path(__file__).parent / "static"
# What it is chosen by, best to begin with first; others follow by name.
TITLES = {
    "mnist": "Digits (MNIST)",
    "imagenette": "Photos (Imagenette)",
    "cifar10": "Small photos (CIFAR-10)",
    "fashion-mnist": "Clothes (Fashion-MNIST)",
    "digits": "Tiny digits, 8 x 8",
    "digits-small": "Tiniest digits, 8 x 8",
}


def contents() -> dict[str, Any]:
    """What the page asks for first: its networks, and the version of ONNX Runtime Web, which wheels do without."""
    floats = STATIC / "vendor" / "ort.json"
    return {"networks": networks(), "floats": json.loads(floats.read_text())["version"] if floats.exists() else None}


def networks() -> list[dict[str, str]]:
    """What the page says of each network of the zoo."""
    names = [*(name for name in TITLES if name in zoo.names()), *(name for name in zoo.names() if name not in TITLES)]
    return [_about(name, zoo.card(name)) for name in names]


def _about(name: str, card: dict[str, Any]) -> dict[str, str]:
    about = f"{card['model'].upper()}, width {card['width']}, {card['packed_top1']:.1f} % right on its test images."
    return {"name": name, "title": TITLES.get(name, name), "about": about}


def check_built() -> None:
    if not (STATIC / "ftbnn" / "ftbnn.wasm").exists():
        raise UserError("the page is not built yet: run `make web` in a checkout of the project")


def write(folder: Path) -> int:
    """All files of the page, for any web server; the number of them."""
    check_built()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder")
    shutil.copytree(STATIC, folder, dirs_exist_ok=True)
    (folder / "zoo").mkdir(exist_ok=True)
    for name in zoo.names():
        shutil.copy(zoo.resolve(f"{zoo.PREFIX}{name}"), folder / "zoo")
    (folder / "contents.json").write_text(json.dumps(contents()))
    return sum(1 for path in folder.rglob("*") if path.is_file())


class _Handler(SimpleHTTPRequestHandler):
    """The built files, and the zoo where the package keeps it."""

    extensions_map = {  # noqa: RUF012
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
    }

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/contents.json":
            super().do_GET()
            return
        body = json.dumps(contents()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def translate_path(self, path: str) -> str:
        name = path.split("?", maxsplit=1)[0].removeprefix("/zoo/").removesuffix(".ftbnn")
        if path.startswith("/zoo/") and name in zoo.names():
            return str(zoo.resolve(f"{zoo.PREFIX}{name}"))
        return super().translate_path(path)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody wants to read that a file was fetched."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away while it is served, as a closed tab does, is nothing to tell anybody."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def server(host: str, port: int) -> ThreadingHTTPServer:
    """Ready to serve_forever(). Port 0 takes any that is free."""
    check_built()
    try:
        return _Server((host, port), partial(_Handler, directory=str(STATIC)))
    except OSError as error:
        raise UserError(f"cannot serve on {host}:{port}: {error.strerror}; choose another port") from error
