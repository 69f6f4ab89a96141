"""The native engine against PyTorch: every network of the registry, every ISA, bit for bit where numbers allow it."""

import re
import struct
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from ftbnn import _native
from ftbnn.errors import UserError
from ftbnn.models import REGISTRY, build, find
from ftbnn.nn import BConv, FPReLU, RoundedConv2d, Sign
from ftbnn.nn.methods.reactnet import RPReLU, RSign
from ftbnn.packing import pack
from ftbnn.runtime import load

ISAS = _native.capabilities()["engine_isas"]
HAS_AVX512 = "avx512" in ISAS
ISAS = [*ISAS, *(["amx_emulated"] if HAS_AVX512 else [])]
NETWORKS = [name for name, entry in REGISTRY.items() if entry.has_width] + ["ftbnn-d18-g3-v9", "ftbnn-d34-g5-v7"]
EXACT = [name for name in NETWORKS if name != "bnext-t"]  # its gates are sigmoids
# Sums of a few thousand floats in another order; a sign next to 0 may turn with it, which no tolerance covers: the
# networks here have none that do.
RELATIVE_ERROR = 1e-4


def small(name, size=32):
    """The network at a small size, with the images it takes."""
    entry = find(name)
    stem = "small" if entry.has_stems else None
    network = build(name, classes=5, width=8 if entry.has_width else None, stem=stem).eval()
    images = torch.randn(3, entry.in_channels, size, size, generator=torch.Generator().manual_seed(1))
    return network, images


def randomise(network):
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
            module.weight.data.normal_()
            module.bias.data.normal_()
            module.weight.data[0] = 0.0
        elif isinstance(module, FPReLU):
            module.left.data.uniform_(-1, 2)
            module.right.data.uniform_(-1, 2)


def unit_of(path):
    """A derived network's numbers are multiples of this: the 3x3 averages ahead, which divide by 9, are then exact."""
    stage = 0 if path.startswith("bridge") else int(path.removeprefix("stage").partition(".")[0])
    return 9.0 ** (4 - stage)


def make_dyadic(network):
    """Every number a small multiple of a power of two, few enough bits to stay exact in float, whatever the order.

    A real-valued network has no sign to start afresh from, so that one tap of each filter has to be enough.
    """
    is_real = not any(isinstance(module, Sign) and module.mode == "sign" for module in network.modules())
    for path, module in network.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            is_derived = hasattr(network, "bridge") and not path.startswith("stem")
            scale = 1.0 if is_real or "shortcut" in path else unit_of(path) if is_derived else 0.25
            module.running_mean.copy_(torch.randint(-2, 3, module.running_mean.shape))
            module.running_var.fill_(1.0)
            module.eps = 0.0
            module.weight.data = torch.full(module.weight.shape, scale)
            module.weight.data *= torch.randint(0, 2, module.weight.shape) * 2 - 1
            module.bias.data = torch.randint(-2, 3, module.bias.shape) * scale
        elif isinstance(module, FPReLU | nn.PReLU):
            for slope in module.parameters():
                slope.data = torch.randint(-1, 2, slope.shape).float()
        elif isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and not is_real):
            for parameter in module.parameters():
                parameter.data = torch.randint(-1, 2, parameter.shape) * (torch.rand(parameter.shape) < 0.3).float()
        elif isinstance(module, nn.Conv2d | BConv) and is_real:
            taps = module.weight.data.zero_().flatten(1)
            taps[range(len(taps)), torch.randint(taps.shape[1], (len(taps),))] = 1.0
        elif isinstance(module, BConv):
            for part in module.parts:
                module.proxies(part).data.copy_(
                    torch.randint(0, 2, module.proxies(part).shape) - 0.5
                )  # of one magnitude
        elif isinstance(module, RSign | RPReLU):
            for numbers in module.parameters():
                numbers.data = torch.randint(-1, 2, numbers.shape).float()


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_pytorchs_and_do_not_depend_on_threads_or_batch(name, tmp_path):
    network, images = small(name)
    randomise(network)
    path = tmp_path / "net.ftbnn"
    pack(network, images[:2], path)
    with torch.no_grad():
        expected = network(images).numpy()
    model = load(path, threads=1)
    got = model(images.numpy())
    np.testing.assert_allclose(got, expected, atol=RELATIVE_ERROR * np.abs(expected).max())
    assert np.array_equal(load(path, threads=3)(images.numpy()), got)
    assert np.array_equal(np.concatenate([model(images[k : k + 1].numpy()) for k in range(3)]), got)
    assert np.array_equal(model(images.numpy()), got), "a second run finds the memory of the first"


@pytest.mark.parametrize("isa", ISAS)
def test_dyadic_networks_agree_to_the_last_bit(isa, tmp_path):
    for name in EXACT:
        network, images = small(name, size=28 if name.startswith("toy") else 32)
        make_dyadic(network)
        images = torch.randint(-3, 4, images.shape).float()
        path = tmp_path / f"{name}.ftbnn"
        pack(network, images[:2], path)
        with torch.no_grad():
            expected = network(images).numpy()
            assert np.array_equal(network.double()(images.double()).numpy(), expected), f"{name} is not exact in float"
        assert len(np.unique(expected)) > 5, f"{name} answers nothing"
        assert np.array_equal(load(path, threads=1, isa=isa)(images.numpy()), expected), name


@pytest.mark.skipif(not HAS_AVX512, reason="the tile kernels' epilogue is AVX-512")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g3-v9", "ftbnn-d34-g5-v7"])
def test_tiles_give_the_floats_of_avx512(name, threads, tmp_path):
    """No tolerance: the sums are integers, and what follows is the same arithmetic."""
    network, images = small(name, size=40)
    randomise(network)
    path = tmp_path / "net.ftbnn"
    pack(network, images[:2], path)
    want = load(path, threads=1, isa="avx512")(images.numpy())
    for isa in ISAS:
        if isa.startswith("amx"):
            assert np.array_equal(load(path, threads=threads, isa=isa)(images.numpy()), want)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    torch.manual_seed(0)
    network = build("toy-relu", width=4, classes=3).eval()
    path = tmp_path_factory.mktemp("tiny") / "tiny.ftbnn"
    pack(
        network,
        torch.zeros(2, 1, 28, 28),
        path,
        name="tiny",
        mean=[0.5],
        std=[0.25],
        class_names=["a", "b", "c"],
        resize=32,
    )
    return network, path


def test_what_travels_in_the_file(tiny):
    model = load(tiny[1])
    assert (model.name, model.input_shape, model.class_names) == ("tiny", (1, 28, 28), ["a", "b", "c"])
    kinds = [row["kind"] for row in model.operators()]
    assert kinds.count("bconv") == 2
    assert {row["weight_bits"] for row in model.operators() if row["kind"] == "bconv"} == {1}


def test_eight_bit_images_are_normalised_and_fitted(tiny):
    network, path = tiny
    model = load(path)
    image = np.random.default_rng(0).integers(0, 256, (28, 28, 1), dtype=np.uint8)
    with torch.no_grad():
        expected = network(torch.from_numpy((image / 255.0 - 0.5) / 0.25).float().permute(2, 0, 1)[None]).numpy()
    np.testing.assert_allclose(model(image), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model([image, image[:, :, 0]]), np.repeat(model(image), 2, axis=0))
    other = np.zeros((90, 61, 3), np.uint8)
    assert model([other, image]).shape == (2, 3)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((1, 28, 28), np.float32), "must be"),
        (np.zeros((1, 3, 28, 28), np.float32), "must be"),
        (np.zeros((0, 1, 28, 28), np.float32), "empty"),
        (np.zeros((0, 28, 28, 1), np.uint8), "empty"),
        ([], "empty"),
        (np.zeros((1, 1, 28, 28), np.float64), "float32 or uint8"),
        (np.full((1, 1, 28, 28), np.nan, np.float32), "not finite"),
        ([np.zeros((4, 4, 2), np.uint8)], "channels"),
        ([np.zeros((0, 4), np.uint8)], "uint8"),
        ([np.zeros((4, 4))], "uint8"),
        (3, "float32 or uint8"),
        ("photo.jpg", "float32 or uint8"),
    ],
)
def test_wrong_images_are_one_line(tiny, images, message):
    model = load(tiny[1])
    for use in (model, model.profile):
        with pytest.raises(UserError, match=message):
            use(images)


def test_a_pil_image_is_an_image(tiny):
    model = load(tiny[1])
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40), np.uint8)
    image = Image.fromarray(pixels)
    np.testing.assert_array_equal(model(image), model(pixels))
    np.testing.assert_array_equal(model([image, image]), model([pixels, pixels]))
    palette = image.convert("RGB").quantize(16)  # its bytes are numbers of colours
    np.testing.assert_array_equal(model(palette), model(np.asarray(palette.convert("RGB"))))
    with pytest.raises(UserError, match="no known range"):
        model(image.convert("F"))


def test_eight_threads_at_once_get_the_right_answers(tiny):
    model = load(tiny[1], threads=2)
    images = np.random.default_rng(0).normal(size=(8, 1, 28, 28)).astype(np.float32)
    expected = model(images)
    wrong = []

    def work(k):
        for _ in range(50):
            if not np.array_equal(model(images[k : k + 1]), expected[k : k + 1]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_profile_names_every_operator(tiny):
    model = load(tiny[1])
    rows = model.profile(np.zeros((1, 1, 28, 28), np.float32), rounds=2)
    assert len(rows) == 1 + len(model.operators())
    assert sum(row.share for row in rows) == pytest.approx(1)


def refuse(data):
    with pytest.raises(_native.FormatError) as caught:
        load(data)
    assert "\n" not in str(caught.value)


def test_truncations_at_every_length_are_refused(tiny, tmp_path):
    data = tiny[1].read_bytes()
    for length in range(len(data)):
        refuse(data[:length])
    path = tmp_path / "cut.ftbnn"
    path.write_bytes(data[:-1])
    with pytest.raises(_native.FormatError, match=re.escape(str(path))):
        load(path)


def test_flipped_bits_are_refused(tiny):
    data = tiny[1].read_bytes()
    generator = np.random.default_rng(0)
    for position in generator.integers(0, 8 * len(data), 10_000):
        broken = bytearray(data)
        broken[position // 8] ^= 1 << (position % 8)
        refuse(bytes(broken))


def sealed(data):
    """The file with its checksums made right again, as someone who means harm would."""
    graph_bytes, payload_at = struct.unpack_from("<QQ", data, 16)
    data = bytearray(data)
    struct.pack_into("<II", data, 40, zlib.crc32(data[64 : 64 + graph_bytes]), zlib.crc32(data[payload_at:]))
    struct.pack_into("<I", data, 60, zlib.crc32(data[:60]))
    return bytes(data)


def test_flipped_bits_behind_right_checksums_never_crash(tiny):
    """What slips through is another network of the same kind; it must load or be refused, and run or be refused."""
    data = tiny[1].read_bytes()
    graph_bytes = struct.unpack_from("<Q", data, 16)[0]
    generator = np.random.default_rng(1)
    loaded = 0
    for position in generator.integers(64 * 8, (64 + graph_bytes) * 8, 1500):
        broken = bytearray(data)
        broken[position // 8] ^= 1 << (position % 8)
        try:
            model = load(sealed(bytes(broken)), threads=1)
            model(np.zeros((1, *model.input_shape), np.float32))
            loaded += 1
        except UserError:
            pass
    assert loaded > 0


def test_a_later_version_and_a_payload_of_nan_are_refused(tiny):
    data = bytearray(tiny[1].read_bytes())
    later = bytearray(data)
    struct.pack_into("<I", later, 8, 6)
    refuse(sealed(bytes(later)))
    payload_at = struct.unpack_from("<Q", data, 24)[0]
    data[payload_at:] = b"\xff" * (len(data) - payload_at)
    refuse(sealed(bytes(data)))


def test_bits_behind_the_last_weight_are_zero(tmp_path):
    path = tmp_path / "one.ftbnn"
    pack(nn.Sequential(Sign(), BConv(3, 1, kernel_size=1)), torch.zeros(1, 3, 4, 4), path)
    data = bytearray(path.read_bytes())
    data[-1] |= 1 << 3
    with pytest.raises(_native.FormatError, match="spare bits"):
        load(sealed(bytes(data)))


def test_what_cannot_be_read_is_one_line(tmp_path):
    for path in (tmp_path / "none.ftbnn", tmp_path):
        with pytest.raises(UserError, match="cannot read"):
            load(path)


@pytest.mark.parametrize("threads", [0, -1, 5000])
def test_wrong_thread_counts_are_refused(tiny, threads):
    with pytest.raises(UserError, match=f"threads must be a whole number from 1 to 1024, not {threads}"):
        load(tiny[1], threads=threads)


def test_a_wrong_isa_is_a_users_mistake(tiny, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "sse9")
    with pytest.raises(UserError, match="FTBNN_ISA=sse9 is not an ISA; choose one of"):
        load(tiny[1])
    with pytest.raises(UserError, match=r"^sse8 is not an ISA; choose one of"):
        load(tiny[1], isa="sse8")


def test_more_threads_than_the_system_starts_are_refused(tiny):
    code = """if True:
        import resource, sys
        from ftbnn.runtime import load
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        load(sys.argv[1], threads=1000)"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tiny[1])], capture_output=True, text=True, check=False, timeout=60
    )
    assert "does not start 1000 threads" in result.stderr


def test_a_forked_process_runs_the_model_and_ends(tiny):
    """As a server does that loads before it forks its workers: the pool's threads are not in the child."""
    code = """if True:
        import os, sys
        import numpy as np
        from ftbnn.runtime import load
        model = load(sys.argv[1], threads=2)
        images = np.random.default_rng(0).normal(size=(5, 1, 28, 28)).astype(np.float32)
        expected = model(images)
        child = os.fork()
        if child == 0:
            same = np.array_equal(model(images), expected)
            alive = len(os.listdir("/proc/self/task"))
            del model
            sys.exit(not (same and alive > 1))
        sys.exit(os.waitpid(child, 0)[1])"""
    subprocess.run([sys.executable, "-c", code, str(tiny[1])], check=True, timeout=60)


def test_the_runtime_loads_no_torch(tiny):
    code = "import sys; from ftbnn.runtime import load; load(sys.argv[1]); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(tiny[1])], check=True)


def test_a_value_that_only_binary_convolutions_read_has_no_real_form(tmp_path):
    """Sign -> BConv chains without shortcut: the engine keeps bits alone, and the answers stay."""
    network = nn.Sequential(
        nn.Conv2d(1, 64, 3), nn.BatchNorm2d(64), Sign(), BConv(64, 32), nn.BatchNorm2d(32), Sign(), BConv(32, 3)
    ).eval()
    images = torch.randn(2, 1, 9, 11)
    path = tmp_path / "chain.ftbnn"
    pack(network, images, path)
    with torch.no_grad():
        expected = network(images).flatten(1).numpy()
    np.testing.assert_allclose(load(path)(images.numpy()), expected, atol=1e-4)


def agree(network, images, path):
    """The file gives PyTorch's numbers, whatever the threads and the batch."""
    pack(network, images[:2], path)
    with torch.no_grad():
        expected = network(images).flatten(1).numpy()
    got = load(path, threads=1)(images.numpy())
    np.testing.assert_allclose(got, expected, atol=RELATIVE_ERROR * np.abs(expected).max())
    several = load(path, threads=3)
    for batch in (1, 2, 3, len(images)):
        parts = [several(images[k : k + batch].numpy()) for k in range(0, len(images), batch)]
        assert np.array_equal(np.concatenate(parts), got)


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(3, 2, 1),
        nn.MaxPool2d(2),
        nn.MaxPool2d((5, 3), (1, 4), (2, 1)),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.AvgPool2d(2, 3, ceil_mode=True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("groups", [1, 3])
def test_a_convolution_and_its_pool_in_bands(pool, groups, tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 36, 5, 2, 2, groups=groups), pool, Sign(), BConv(36, 4)).eval()
    agree(network, torch.randn(7, 3, 61, 150), tmp_path / "net.ftbnn")


class Mapped(nn.Module):
    """Channels repeated, cut and turned around, read by a pool, by binary convolutions and by a real one."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 40, 3, padding=1)
        self.sign = Sign()
        self.even = BConv(80, 6, groups=2)
        self.uneven = BConv(100, 6, groups=3)
        self.pool = nn.AvgPool2d(3, 1, 1)
        self.real = nn.Conv2d(40, 6, 3, padding=1)

    def forward(self, x):
        x = self.stem(x)
        twice = torch.cat([x, x], 1)
        cut = x.repeat(1, 3, 1, 1)[:, :100]
        return torch.cat(
            [
                self.even(self.sign(twice)),
                self.pool(twice),
                self.uneven(self.sign(cut)),
                self.pool(cut[:, 30:60]),
                self.real(x.flip(1)),
                self.real(twice[:, 20:60]),
            ],
            1,
        )


def test_mapped_channels_are_read_where_they_are(tmp_path):
    torch.manual_seed(0)
    agree(Mapped().eval(), torch.randn(4, 2, 9, 21), tmp_path / "net.ftbnn")


INTEGER_STEM = "amx_emulated" if HAS_AVX512 else None
# The integer stem rounds weights once and sums three times, float32 rounds every product and sum.
STEM_ERROR = 2.0


def stem_of(conv, pool):
    channels = conv.out_channels
    layers = [conv, nn.BatchNorm2d(channels), FPReLU(channels)]
    return nn.Sequential(*layers, *([nn.MaxPool2d(3, 2, 1)] if pool else [])).eval()


@pytest.mark.skipif(INTEGER_STEM is None, reason="tile kernels finish with AVX-512")
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("shape", [(64, 7, 2, 3), (20, 3, 1, 1), (3, (2, 5), 3, 0)])
def test_the_integer_stem_is_as_good_as_floats(shape, pool, tmp_path):
    torch.manual_seed(0)
    network, path = stem_of(nn.Conv2d(3, *shape, bias=False), pool), tmp_path / "net.ftbnn"
    randomise(network)
    images = torch.randint(0, 256, (2, 37, 45, 3), dtype=torch.uint8)
    images[1] = torch.randint(100, 140, images[1].shape, dtype=torch.uint8)  # little but the middle of the scale
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    pack(network, torch.zeros(2, 3, 37, 45), path, mean=mean.tolist(), std=std.tolist())
    normal = (images.double() / 255 - torch.tensor(mean).double()) / torch.tensor(std).double()
    with torch.no_grad():
        exact = network.double()(normal.permute(0, 3, 1, 2)).flatten(1).numpy()
    floats = np.abs(load(path, threads=1, isa="avx512")(images.numpy()) - exact).max(1)
    integers = np.abs(load(path, threads=2, isa=INTEGER_STEM)(images.numpy()) - exact).max(1)
    assert (integers <= STEM_ERROR * floats).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("shape", [(64, 7, 2, 3), (20, 3, 1, 1), (3, (2, 5), 3, 0)])
def test_a_rounded_stem_takes_pixels_as_it_takes_numbers(shape, pool, bits, isa, tmp_path):
    """One network, whether an image comes in 8 bits, to integer sums where the CPU has them, or normalised."""
    torch.manual_seed(0)
    network, path = stem_of(RoundedConv2d(3, *shape, bias=False, bits=bits), pool), tmp_path / "net.ftbnn"
    randomise(network)
    images = torch.randint(0, 256, (2, 37, 45, 3), dtype=torch.uint8)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    pack(network, torch.zeros(2, 3, 37, 45), path, mean=mean.tolist(), std=std.tolist())
    normal = ((images.double() / 255 - torch.tensor(mean)) / torch.tensor(std)).permute(0, 3, 1, 2)
    with torch.no_grad():
        exact = network.double()(normal).flatten(1).numpy()
    given = [load(path, threads=threads, isa=isa)(images.numpy()) for threads in (1, 3)]
    assert (given[0] == given[1]).all()
    floats = load(path, threads=1, isa=isa)(normal.float().contiguous().numpy())
    for found in (given[0], floats):
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kernel", [(3, 3), (1, 1), (1, 3), (4, 5), (8, 8)], ids=str)
@pytest.mark.parametrize("shape", ["2/2", "3", "14/2", "8", "24/2", "13", "21", "22", "49/5", "64/2", "65/2"])
def test_narrow_groups_share_words(shape, kernel, isa, tmp_path):
    """Channels/groups: taps lie several to a word; the counts are whole numbers, so nothing may differ."""
    channels, groups = map(int, (*shape.split("/"), "1")[:2])
    torch.manual_seed(channels)
    convs = [
        BConv(channels, channels, kernel_size=kernel, groups=groups, stride=stride, padding=(kernel[0] // 2, 0))
        for stride in (1, 2)
    ]
    network = nn.Sequential(Sign(), convs[0], nn.ReLU(), Sign(zero_one=True), convs[1]).eval()
    images = torch.randint(-3, 4, (2, channels, 21, 19)).float()
    pack(network, images, tmp_path / "groups.ftbnn")
    with torch.no_grad():
        expected = network(images).flatten(1)
    assert np.array_equal(load(tmp_path / "groups.ftbnn", isa=isa)(images.numpy()), expected.numpy())


def test_a_stem_may_be_summed_in_another_order(tmp_path):
    stem = nn.Conv2d(3, 40, 7, stride=2, padding=3, bias=False)
    x = torch.randn(2, 3, 64, 64)
    pack(stem, x[:1], tmp_path / "stem.ftbnn")
    plain, other = (load(tmp_path / "stem.ftbnn", threads=1, any_order=order)(x.numpy()) for order in (False, True))
    torch.testing.assert_close(torch.from_numpy(other), stem(x).detach().flatten(1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(other), torch.from_numpy(plain), rtol=1e-4, atol=1e-5)
    if "avx2" in _native.capabilities()["features"]:
        assert (other != plain).any()
    for threads in (2, 3):
        again = load(tmp_path / "stem.ftbnn", threads=threads, any_order=True)(x.numpy())
        assert (again == other).all()


class _Shuffled(nn.Module):
    """Channels in an order of too many pieces to be read where they lie, and nobody reads their numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 36, 1), BConv(36, 5, 3, input=Sign())

    def forward(self, x):
        x = self.first(x)
        return self.second(x.view(len(x), 2, 18, *x.shape[2:]).transpose(1, 2).flatten(1, 2))


def test_a_shuffle_that_only_signs_read_is_carried_out(tmp_path):
    network, images = _Shuffled().eval(), torch.randn(4, 2, 6, 6)
    pack(network, images[:1], tmp_path / "shuffled.ftbnn")
    with torch.no_grad():
        expected = network(images).flatten(1).numpy()
    assert np.array_equal(load(tmp_path / "shuffled.ftbnn")(images.numpy()), expected)
