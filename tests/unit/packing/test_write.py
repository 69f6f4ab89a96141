import errno
import hashlib
import os
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from export_networks import build_small, export_and_read, make_dyadic, outputs, randomise, small_networks
from torch import nn

from ftbnn.budget import count
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import BConv, FPReLU, Sign
from ftbnn.packing import ExportError, pack
from ftbnn.packing.graph import AverageTo, Graph, Pointwise, Value, Window
from ftbnn.packing.graph import BConv as BinaryConv
from ftbnn.packing.write import InputInfo, encode
from ftbnn.runtime import FormatError, load

# Scales and shifts are rounded to float32 (6e-8) and depth adds up a few of these.
FLOAT32_ROUNDING = 1e-5
# Divisions by 9 (3x3 average pools) are not dyadic; sums of these depend on their order in float64's last bits.
FLOAT64_ROUNDING = 1e-12
NETWORKS = small_networks()


@pytest.mark.parametrize(("name", "stem"), NETWORKS)
def test_every_network_computes_from_its_file_what_the_module_computes(name, stem):
    network, x = build_small(name, stem)
    found, expected, _ = outputs(randomise(network), x)
    torch.testing.assert_close(found, expected, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING * expected.abs().max())


@pytest.mark.parametrize(("name", "stem"), [it for it in NETWORKS if it[0] != "bnext-t"])  # its gates are sigmoids
def test_dyadic_networks_agree_to_the_last_bit(name, stem):
    network, x = build_small(name, stem)
    found, expected, _ = outputs(make_dyadic(network), x)
    assert expected.abs().max() > 0
    if "-d" in name:
        torch.testing.assert_close(found, expected, rtol=FLOAT64_ROUNDING, atol=FLOAT64_ROUNDING)
    else:
        assert torch.equal(found, expected)


INFO = InputInfo("hand-made", (0.0,), (1.0,), 1, ())


def test_a_value_that_nobody_reads_has_a_place():
    """Our exporter writes none; what a file says must not decide where the engine writes."""
    image, unread, out = Value(1, 1, 1), Value(1, 1000, 1000), Value(1, 1, 1)
    graph = Graph(image, out, (AverageTo("dead", (image,), unread), Pointwise("copy", (image,), out)))
    answer = load(encode(graph, INFO))(np.full((1, 1, 1, 1), 3.0, np.float32))
    assert answer.item() == 3.0


def test_a_small_file_does_not_ask_for_gigabytes():
    """One megabyte of bits is many once each of its groups has its words; what is more than allowed is refused."""
    image, out = Value(4096, 1, 1), Value(4096, 1, 1)
    window = Window((63, 31), (1, 1), (31, 15))
    bits = (np.zeros((4096, 1, 63, 31), bool),)
    conv = BinaryConv("b", (image,), out, window=window, groups=4096, zero_one=True, positive=bits)
    data = encode(Graph(image, out, (conv,)), replace(INFO, mean=(0.0,) * 4096, std=(1.0,) * 4096))
    assert load(data, max_bytes=1 << 27, threads=1)(np.ones((1, 4096, 1, 1), np.float32)).sum() == -4096
    with pytest.raises(FormatError, match=r"would take \d+ bytes of memory, more than the 16777216 that are allowed"):
        load(data, max_bytes=1 << 24)


def tiny():
    """A network of fixed numbers with an operator of most kinds."""
    network = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.MaxPool2d(2),
        Sign(),
        BConv(4, 5, groups=2),
        nn.BatchNorm2d(5),
        FPReLU(5),
        nn.AvgPool2d(3, 2, 1),
        nn.Flatten(),
        nn.Linear(20, 3),
    )
    with torch.no_grad():
        for number, (name, tensor) in enumerate(network.state_dict().items()):
            steps = torch.arange(tensor.numel()).reshape(tensor.shape) * 7 % 11 - 5 + number % 3
            tensor.copy_(steps.abs() + 1 if name.endswith("running_var") else steps / 8)
    return network


SETTINGS = {"name": "tiny", "mean": [0.5, 0.25], "std": [0.25, 0.5], "class_names": ["a", "β", "c"], "resize": 10}
GOLDEN = "bd7ccfe18ae3e125c761ade5e1f127d25b35b9626126b9d0745ef3a43b2b1eed"


def test_the_bytes_of_a_fixed_network_are_fixed(tmp_path):
    x = torch.zeros(1, 2, 8, 8)
    pack(tiny(), x, tmp_path / "a.ftbnn", **SETTINGS)
    pack(tiny(), torch.randn(3, 2, 8, 8), tmp_path / "b.ftbnn", **SETTINGS)
    data = (tmp_path / "a.ftbnn").read_bytes()
    assert data == (tmp_path / "b.ftbnn").read_bytes()
    assert hashlib.sha256(data).hexdigest() == GOLDEN


def test_preprocessing_travels_in_the_file():
    file = export_and_read(tiny(), torch.zeros(1, 2, 8, 8), **SETTINGS)
    assert (file.name, file.shape, file.resize) == ("tiny", (2, 8, 8), 10)
    assert (file.mean, file.std) == ((0.5, 0.25), (0.25, 0.5))
    assert file.class_names == ["a", "β", "c"]
    plain = export_and_read(tiny(), torch.zeros(1, 2, 8, 8))
    assert (plain.name, plain.mean, plain.std, plain.resize, plain.class_names) == ("", (0, 0), (1, 1), 8, [])


def test_a_file_is_as_small_as_its_weights(tmp_path):
    network = randomise(build("ftbnn18"))
    with torch.no_grad():  # no two blobs alike: nothing is saved by storing equal ones once
        for bn in (layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)):
            bn.weight.normal_()
    budget = count(network, (3, 224, 224))
    report = pack(network, torch.zeros(1, 3, 224, 224), tmp_path / "ftbnn18.ftbnn")
    assert budget.packed_bytes < report.size_bytes < 1.05 * budget.packed_bytes


def test_equal_blobs_are_stored_once():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.sign, self.conv = Sign(), BConv(8, 8)

        def forward(self, x):
            return self.conv(self.sign(self.conv(self.sign(x))))

    file = export_and_read(Shared(), torch.zeros(1, 8, 4, 4))
    assert file.kinds == ["bconv", "bconv"]
    assert len(file.blobs) == 1
    assert len(file.payload) == 8 * 8 * 9 // 8


def test_report_gives_the_sizes_before_and_after(tmp_path):
    network = tiny()
    report = pack(network, torch.zeros(1, 2, 8, 8), tmp_path / "tiny.ftbnn")
    assert report.size_bytes == (tmp_path / "tiny.ftbnn").stat().st_size
    assert report.fp32_bytes == count(network, (2, 8, 8)).fp32_bytes
    assert report.operators == 6
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.ftbnn"]


def test_the_engine_runs_the_file_before_it_is_written(tmp_path):
    path, x = tmp_path / "model.ftbnn", torch.zeros(1, 2, 8, 8)
    assert pack(tiny(), x, path).agreement.top1 == 1.0
    assert pack(tiny(), x, path, samples=torch.randn(5, 2, 8, 8)).agreement.images == 5
    assert list(tmp_path.iterdir()) == [path]


def test_what_tracing_does_not_see_is_found_by_comparing(tmp_path):
    class Sly(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1  # the trace is the first call, the comparison the second
            return self.calls * x

    network = nn.Sequential(*tiny(), Sly())
    with pytest.raises(ExportError, match="does not compute what the module does"):
        pack(network, torch.zeros(1, 2, 8, 8), tmp_path / "wrong.ftbnn")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [2, 3])
def test_a_file_that_is_wrong_for_some_images_is_refused(wrong, tmp_path):
    """A sign next to 0 may turn for an image or two; three of eight are no accident."""

    class Sly(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x if self.calls == 1 else torch.cat([3 * x[:wrong], x[wrong:]])

    network = nn.Sequential(*tiny(), Sly())
    if wrong == 2:
        assert pack(network, torch.zeros(1, 2, 8, 8), tmp_path / "a.ftbnn").agreement.median_error < FLOAT32_ROUNDING
        return
    with pytest.raises(ExportError, match="does not compute what the module does"):
        pack(network, torch.zeros(1, 2, 8, 8), tmp_path / "a.ftbnn")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mean": [0.5]}, "2 channels"),
        ({"std": [1.0, 0.0]}, "std positive"),
        ({"mean": [0.0, float("nan")]}, "finite"),
        ({"class_names": ["a", "b"]}, "2 class names do not fit 3 outputs"),
        ({"resize": 7}, "resize=7"),
        ({"name": "x" * 70000}, "too long"),
    ],
)
def test_wrong_settings_are_one_line_and_leave_no_file(settings, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        pack(tiny(), torch.zeros(1, 2, 8, 8), tmp_path / "tiny.ftbnn", **settings)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300])
def test_numbers_that_float32_cannot_hold_are_named(number, tmp_path):
    network = tiny().double()
    network[8].weight.data[0, 0] = number
    with pytest.raises(ExportError, match="8: its weight is not finite"):
        pack(network, torch.zeros(1, 2, 8, 8, dtype=torch.float64), tmp_path / "tiny.ftbnn")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tiny.ftbnn"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="the disk is full") as caught:
        pack(tiny(), torch.zeros(1, 2, 8, 8), path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.ftbnn"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        pack(tiny(), torch.zeros(1, 2, 8, 8), tmp_path / "nowhere" / "tiny.ftbnn")


def test_values_too_large_for_the_file_are_named(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(300 * 300, 1))
    with pytest.raises(ExportError, match="0: a value of 90000x1x1"):
        pack(network, torch.zeros(1, 1, 300, 300), tmp_path / "wide.ftbnn")


def test_too_many_groups_and_operators_are_named(tmp_path):
    network = nn.Sequential(Sign(), BConv(4097, 4097, kernel_size=1, groups=4097))
    with pytest.raises(ExportError, match="1: has 4097 groups"):
        pack(network, torch.zeros(1, 4097, 1, 1), tmp_path / "groups.ftbnn")
    values = [Value(1, 1, 1) for _ in range(4097)]
    steps = tuple(Pointwise("", (a,), b) for a, b in pairwise(values))
    info = InputInfo(name="", mean=[0], std=[1], resize=1, class_names=[])
    with pytest.raises(ExportError, match="4096 operators"):
        encode(Graph(values[0], values[-1], steps), info)
    assert encode(Graph(values[0], values[-2], steps[:-1]), info)


def test_the_header_is_as_documented(tmp_path):
    pack(tiny(), torch.zeros(1, 2, 8, 8), tmp_path / "tiny.ftbnn")
    words = np.frombuffer((tmp_path / "tiny.ftbnn").read_bytes()[:64], "<u4")
    assert words[2:4].tolist() == [1, 64]
    assert words[6] % 64 == 0
    assert words[12:15].tolist() == [0, 0, 0]
