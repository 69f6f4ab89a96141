"""The example of serving, under load on loopback."""

import http.client
import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from ftbnn.data import load as load_data
from ftbnn.runtime import load

ROOT = Path(__file__).parents[2]
CLIENTS, REQUESTS = 6, 40


@pytest.fixture(params=[1, 2], ids="of {} process(es)".format)
def port(request):
    words = ["zoo:digits", "--port", "0", "--processes", str(request.param)]
    command = [sys.executable, str(ROOT / "examples/serve.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield int(server.stdout.readline().rstrip("/\n").rpartition(":")[2])
        server.terminate()
        assert server.wait(30) == 0


def pictures():
    for image in load_data("digits", None).test.images[:REQUESTS, 0].numpy():
        file = io.BytesIO()
        Image.fromarray(image).save(file, "PNG")
        yield file.getvalue(), image


def ask(connection, body, headers=None):
    connection.request("POST", "/", body, headers or {})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_many_clients_at_once_get_the_models_answers(port):
    bodies, images = zip(*pictures(), strict=True)
    expected = [[vars(guess) for guess in row] for row in load("zoo:digits").top(list(images), 3)]

    def client(_):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        return [ask(connection, body) for body in bodies]

    with ThreadPoolExecutor(CLIENTS) as pool:
        for answers in pool.map(client, range(CLIENTS)):
            assert [status for status, _ in answers] == [200] * REQUESTS
            for (_, found), best in zip(answers, expected, strict=True):
                assert [guess["index"] for guess in found["top"]] == [guess["index"] for guess in best]


def test_wrong_requests_get_an_answer_and_harm_nobody(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    assert ask(connection, b"no picture") == (400, {"error": "not a picture that can be read"})
    assert ask(connection, b"x", {"Content-Length": "99999999999"})[0] == 413
    connection.close()
    connection.request("GET", "/")
    assert "ftbnn18" in json.loads(connection.getresponse().read())["model"]
    body, _ = next(pictures())
    assert ask(connection, body[: len(body) // 2])[0] == 400
    assert ask(connection, body)[0] == 200
