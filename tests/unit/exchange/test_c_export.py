"""Networks as C: compiled as a user would, and compared with the engine's portable kernels bit for bit."""

import ctypes
import itertools
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from c_graphs import random_file
from export_networks import build_small, randomise, small_networks

from ftbnn import zoo
from ftbnn.cli.main import main
from ftbnn.errors import UserError
from ftbnn.exchange import c_export
from ftbnn.exchange.c_export import export_c, footprint
from ftbnn.packing import pack
from ftbnn.runtime import load

ROOT = Path(__file__).parents[3]
STRICT = ["-std=c99", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZED = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-g"]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
WORD_BITS = (32, 64)


def compile_check(folder, *flags, gcc="gcc", name="check"):
    """The folder's program that checks itself."""
    program = folder / name
    sources = [str(folder / file) for file in ("model.c", "main.c")]
    subprocess.run([gcc, *STRICT, *flags, *sources, "-o", str(program)], check=True)
    return program


def check(program, *before):
    found = subprocess.run([*before, str(program)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.startswith("ok: ")


class Compiled:
    """The exported network as a shared library."""

    def __init__(self, folder, bits):
        library = folder / f"model{bits}.so"
        flags = [*STRICT, "-O2", f"-DFTBNN_WORD_BITS={bits}", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, str(folder / "model.c"), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))

    def __call__(self, images, outputs):
        run = self.library.model_run if images.dtype == np.uint8 else self.library.model_run_f32
        scores = np.empty((len(images), outputs), np.float32)
        for image, row in zip(images, scores, strict=True):
            run(np.ascontiguousarray(image).ctypes.data_as(ctypes.c_void_p), row.ctypes.data_as(ctypes.c_void_p))
        return scores


def assert_same_bits(file, folder):
    export_c(file, folder)
    model, rng = load(file, isa="portable", threads=1), np.random.default_rng(1)
    channels, height, width = model.input_shape
    bytes_in = rng.integers(0, 256, (3, height, width, channels), np.uint8)
    floats_in = rng.normal(size=(3, channels, height, width)).astype(np.float32)
    for bits in WORD_BITS:
        compiled = Compiled(folder, bits)
        for images in (bytes_in, floats_in):
            expected = model(images)
            found = compiled(images, expected.shape[1])
            assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


@needs_gcc
@pytest.mark.parametrize("name", zoo.names())
def test_every_network_of_the_zoo_checks_itself(name, tmp_path):
    export_c(zoo.resolve(f"zoo:{name}"), tmp_path)
    for bits in WORD_BITS:
        check(compile_check(tmp_path, "-O2", f"-DFTBNN_WORD_BITS={bits}"))


@needs_gcc
@pytest.mark.parametrize("seed", range(50))
def test_random_networks_give_the_same_bits(seed, tmp_path):
    file = tmp_path / "random.ftbnn"
    file.write_bytes(random_file(seed))
    assert_same_bits(file, tmp_path)
    check(compile_check(tmp_path, "-O1", f"-DFTBNN_WORD_BITS={WORD_BITS[seed % 2]}", *SANITIZED))


@needs_gcc
@pytest.mark.parametrize(("name", "stem"), small_networks())
def test_networks_of_the_registry_give_the_same_bits(name, stem, tmp_path):
    torch.manual_seed(0)
    network, x = build_small(name, stem)
    file = tmp_path / "small.ftbnn"
    pack(randomise(network).float(), x.float(), file)
    assert_same_bits(file, tmp_path)
