"""What a file may ask for, how memory grows with threads, and a run that is interrupted."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

from ftbnn._native import FormatError
from ftbnn.models import build
from ftbnn.nn import BConv, Sign
from ftbnn.packing import graph as g
from ftbnn.packing import pack
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import load

GIB = 1 << 30


def file_of(start: g.Value, operators: list[g.Operator], *, name: str = "", classes: tuple[str, ...] = ()) -> bytes:
    channels = start.channels
    info = InputInfo(name, [0.0] * channels, [1.0] * channels, max(start.height, start.width), classes)
    return encode(g.Graph(start, operators[-1].output, tuple(operators)), info)


def chain(start: g.Value, *makers) -> bytes:
    operators, value = [], start
    for make in makers:
        operators.append(make(value))
        value = operators[-1].output
    return file_of(start, operators)


def widened(value):
    source = np.zeros(65536, np.int32)
    return g.Channels("wide", (value,), g.Value(65536, value.height, value.width), source=source)


def pointwise(value):
    epilogue = g.Epilogue(shift=np.zeros(value.channels))
    return g.Pointwise("p", (value,), g.Value(value.channels, value.height, value.width), epilogue)


def narrow_conv(value):
    weights = (np.ones((value.channels, 1, 1, 1), np.float32),)
    window = g.Window((1, 1), (1, 1), (0, 0))
    output = g.Value(value.channels, value.height, value.width)
    return g.Conv("c", (value,), output, window=window, groups=value.channels, weights=weights)


def narrow_bconv(value):
    positive = (np.ones((value.channels, 1, 1, 1), bool),)
    window = g.Window((1, 1), (1, 1), (0, 0))
    output = g.Value(value.channels, value.height, value.width)
    return g.BConv("b", (value,), output, window=window, groups=value.channels, zero_one=False, positive=positive)


def spread(value):
    return g.AverageTo("a", (value,), g.Value(value.channels, 8192, 8192))


GREEDY = {
    "values": chain(g.Value(1, 4, 4), widened, *[pointwise] * 3000),
    "narrow convolutions": chain(g.Value(4096, 1, 1), *[narrow_conv] * 2000),
    "narrow binary convolutions": chain(g.Value(4096, 1, 1), *[narrow_bconv] * 2000),
    "large maps": chain(g.Value(1, 4, 4), spread, *[narrow_bconv] * 4),
}


@pytest.mark.parametrize("what", GREEDY)
def test_a_small_file_does_not_take_gigabytes(what):
    """Refused before anything is allocated: the process has no room for it."""
    code = """if True:
        import resource, sys
        from ftbnn.runtime import FormatError, load
        from ftbnn import _native
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), used + (512 << 20)))
        try:
            load(sys.stdin.buffer.read(), threads=1)
        except FormatError as error:
            print(error)"""
    data = GREEDY[what]
    assert len(data) < 1 << 20
    result = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True, timeout=60)
    said = result.stdout.decode()
    assert "max_bytes" in said
    assert "would take" in said


def test_the_limits_can_be_moved():
    data = chain(g.Value(1, 4, 4), widened, *[pointwise] * 10)
    with pytest.raises(FormatError, match=r"more than the 1000000 that are allowed \(max_bytes\)"):
        load(data, max_bytes=1_000_000)
    with pytest.raises(FormatError, match=r"more than the 10 that are allowed \(max_macs\)"):
        load(data, max_macs=10)
    assert load(data, max_bytes=2 * GIB).output_shape == (65536, 4, 4)
    with pytest.raises(FormatError, match="max_bytes"):
        load(data, max_bytes=len(data) - 1)


def wide_pool(value):
    """64 x 64 numbers for each of as many outputs as there are inputs."""
    window = g.Window((64, 64), (1, 1), (32, 32))
    return g.MaxPool("p", (value,), g.Value(value.channels, value.height + 1, value.width + 1), window=window)


def wide_average(value):
    return g.AverageTo("a", (value,), g.Value(value.channels, 1, 1))


@pytest.mark.parametrize(("operator", "least"), [(wide_pool, 64 * 64 * 513 * 513), (wide_average, 512 * 512)])
def test_pools_are_limited_by_what_they_read(operator, least):
    data = chain(g.Value(1, 512, 512), operator)
    with pytest.raises(FormatError, match="max_macs"):
        load(data, max_macs=least)
    assert load(data, max_macs=2 * least).output_shape[0] == 1


def test_blobs_that_many_operators_share_are_read_once():
    """2000 matrices in one blob: what is kept is one copy for each, and the file is read in one pass."""
    weight = np.ones((64, 64), np.float32)

    def linear(value):
        return g.Linear("l", (value,), g.Value(64, 1, 1), weight=weight)

    data = chain(g.Value(64, 1, 1), *[linear] * 2000)
    assert len(data) < 200_000
    assert load(data, threads=1).output_shape == (64, 1, 1)


def kept_pages(path, threads: int) -> int:
    """Memory that a model has taken once it has run a batch of as many images as it has threads."""
    code = """if True:
        import sys
        import numpy as np
        from ftbnn.runtime import load
        def resident():
            return int(open("/proc/self/statm").read().split()[1])
        threads = int(sys.argv[2])
        image = np.zeros((threads, 3, 128, 128), np.float32)
        image[:] = 1
        before = resident()
        model = load(sys.argv[1], threads=threads)
        model(image)
        print(resident() - before)"""
    command = [sys.executable, "-c", code, str(path), str(threads)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_memory_grows_with_threads_and_not_with_their_square(tmp_path):
    path = tmp_path / "net.ftbnn"
    network = build("ftbnn18", width=16, classes=10).eval()
    pack(network, torch.zeros(1, 3, 128, 128), path)
    few, many = kept_pages(path, 8), kept_pages(path, 64)
    assert 0 < many < 10 * few  # eight times as many threads; their square would be 64


SLOW = """if True:
    import signal, sys
    import numpy as np
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born deaf to it
    from ftbnn.runtime import load
    model = load(sys.argv[1], threads=int(sys.argv[2]), isa="portable")
    images = np.zeros((4, *model.input_shape), np.float32)
    print("begun", flush=True)
    while True:
        model(images)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_ends_a_run(tmp_path, threads):
    path = tmp_path / "slow.ftbnn"
    layers = [nn.Conv2d(3, 64, 3, padding=1), *(BConv(64, 64, 5, input=Sign()) for _ in range(30))]
    pack(nn.Sequential(*layers).eval(), torch.zeros(1, 3, 160, 160), path, samples=torch.zeros(1, 3, 160, 160))
    command = [sys.executable, "-c", SLOW, str(path), str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.3)  # inside the call
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert process.returncode != 0


def test_text_of_a_file_cannot_reach_the_terminal_raw():
    start = g.Value(1, 4, 4)
    nasty = "a\x1b[31mred\n\n" + "x" * 5000
    operator = g.Pointwise(nasty, (start,), g.Value(1, 4, 4))
    data = bytearray(file_of(start, [operator]))
    with pytest.raises(FormatError) as caught:
        load(chain_with_wrong_shortcut(nasty))
    said = str(caught.value)
    assert len(said) < 300
    assert said.isprintable()
    assert load(bytes(data)).operators()[0]["path"] == nasty  # what a program asks for, it gets


def chain_with_wrong_shortcut(path: str) -> bytes:
    """An operator whose shortcut has another shape than its output."""
    start = g.Value(2, 4, 4)
    cut = g.Channels("cut", (start,), g.Value(1, 4, 4), source=np.zeros(1, np.int32))
    end = g.Pointwise(path, (cut.output,), g.Value(1, 4, 4), g.Epilogue(shortcut=start))
    return file_of(start, [cut, end])


def test_a_zero_byte_in_a_name_is_refused():
    start = g.Value(1, 4, 4)
    with pytest.raises(FormatError, match="zero byte"):
        load(file_of(start, [pointwise(start)], name="a\0b"))
