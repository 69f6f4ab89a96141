"""Serves a network over HTTP: a picture's bytes in, its likeliest classes out as JSON.

    python examples/serve.py zoo:digits --port 8000 --processes 2
    curl --data-binary @digit.png http://127.0.0.1:8000/

Every request has a thread of its own, in one of `--processes` processes that share the port. The network itself runs on
the request's thread (`threads=1`): many requests at once keep the cores busy, and the GIL is released while it runs.
Needs the light install alone. For the open internet, put a real server in front.
"""

import argparse
import io
import json
import os
import signal
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image

from ftbnn import Model, UserError, load

MOST_BYTES = 10_000_000
Image.MAX_IMAGE_PIXELS = 25_000_000  # Pillow refuses pictures of twice as many


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a client may send picture after picture
    timeout = 30
    model: Model
    top: int

    def do_GET(self) -> None:
        self._answer(200, {"model": repr(self.model)})

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or not 0 < int(size) <= MOST_BYTES:
            self.close_connection = True  # what it sends is not read
            self._answer(413, {"error": f"send 1 to {MOST_BYTES} bytes, with their Content-Length"})
            return
        try:
            picture = Image.open(io.BytesIO(self.rfile.read(int(size))), formats=("PNG", "JPEG", "WEBP", "BMP"))
            guesses = self.model.top(picture, self.top)[0]
        except UserError as error:
            self._answer(400, {"error": str(error)})
        except Exception:  # Pillow's readers raise nearly anything over broken bytes
            self._answer(400, {"error": "not a picture that can be read"})
        else:
            self._answer(200, {"top": [vars(guess) for guess in guesses]})

    def _answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """On a socket that listens already."""

    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves a network over HTTP.")
    parser.add_argument("model", help="a .ftbnn file, or zoo:NAME")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--top", type=int, default=3)
    args = parser.parse_args()
    try:
        Handler.model, Handler.top = load(args.model, threads=1), args.top
    except UserError as error:
        parser.exit(2, f"{error}\n")
    listening = socket.create_server((args.host, args.port), backlog=256)
    signal.signal(signal.SIGTERM, lambda *_: parser.exit(0))
    children = []
    for _ in range(args.processes - 1):  # before any thread is there; pages of the network are shared
        if (child := os.fork()) == 0:
            children.clear()
            break
        children.append(child)
    else:
        print(f"http://{args.host}:{listening.getsockname()[1]}/", flush=True)
    try:
        Server(listening).serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
