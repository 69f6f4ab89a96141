"""What a wheel must do where nothing is installed but it, NumPy and Pillow. Prints what make.py compares, as JSON."""

import contextlib
import io
import json
import platform
import sys
import threading
import zlib
from importlib import metadata, util
from pathlib import Path
from urllib.request import urlopen

import numpy as np
from PIL import Image

import ftbnn
from ftbnn import _native, page, zoo
from ftbnn.cli.main import main

PHOTO = Path(sys.argv[1]) / "photo.png"


def said(*words: str) -> dict:
    """What a command answers."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main([*words, "--json"]) == 0
    return json.loads(text.getvalue())


there = sorted(one.metadata["Name"].lower() for one in metadata.distributions())
assert there == ["ftbnn", "numpy", "pillow"], there
assert util.find_spec("torch") is None
(entry,) = metadata.entry_points(group="console_scripts", name="ftbnn")
assert callable(entry.load())

# Nothing that only tests or whoever works on kernels needs.
assert util.find_spec("ftbnn._native_tests") is None
assert not hasattr(_native, "bench")
assert not [isa for isa in _native.capabilities()["isas"] if "emulated" in isa]
extension = Path(_native.__file__).read_bytes()
assert not [word for word in (b"trap_tiles", b"binary_loops", b"gradient_roof") if word in extension]

assert said("info")["versions"]["ftbnn"] == ftbnn.__version__
with contextlib.redirect_stderr(io.StringIO()) as text:
    assert main(["train", "ftbnn18"]) == 2
assert "needs PyTorch, which the light install leaves out: pip install 'ftbnn[train]'" in text.getvalue()

# The page is there, but for the 14 MB of ONNX Runtime Web.
with page.server("127.0.0.1", 0) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    files = json.load(urlopen(f"{address}/files.json"))
    assert {".", "app.js", "ftbnn/ftbnn.wasm", "ftbnn/ftbnn-relaxed.wasm"} <= set(files), files
    assert all(urlopen(f"{address}/{name}").read() for name in files)
    contents = json.load(urlopen(f"{address}/contents.json"))
    assert contents["floats"] is None, contents
    assert [network["name"] for network in contents["networks"]] == [row["name"] for row in page.networks()]
    server.shutdown()

pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
Image.fromarray(pixels).save(PHOTO)
bits = {}
for name in zoo.names():
    assert said("predict", f"zoo:{name}", str(PHOTO))
    with ftbnn.load(f"zoo:{name}", threads=2, isa="portable") as model:
        images = np.random.default_rng(1).standard_normal((3, *model.input_shape)).astype(np.float32)
        bits[name] = zlib.crc32(model(images).tobytes())
print(json.dumps({"python": platform.python_version(), "isa": _native.capabilities()["isa"], "bits": bits}))
