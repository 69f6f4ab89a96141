"""Native blocks against the same layers in PyTorch: integers exactly, floats against double precision."""

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from ftbnn import _native
from ftbnn.nn import BConv, FPReLU, ScaledBConv, Sign, native, set_backend

OUTPUT_TOLERANCE = 1e-5  # float32 BatchNorm, relative to the largest output
GRADIENT_TOLERANCE = {"portable": 1e-4, "avx2": 1e-4, "avx512": 1e-4}
# gy is rounded to bf16: at most 2^-9 of every summand, so of a sum at most 2^-9 of the sum of magnitudes. Relative to
# the largest gradient of a tensor, sums that cancel lose more; these sizes stay below 4 %.
BF16_TOLERANCE = 4e-2
TILES = ["amx_emulated"] if "avx512" in _native.isas() else []
ISAS = [*TILES, *_native.isas()]


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", request.param)
    return request.param


def act_of(name, channels):
    return {
        "none": nn.Identity,
        "relu": nn.ReLU,
        "prelu": lambda: nn.PReLU(channels, init=0.3),
        "fprelu": lambda: FPReLU(channels),
    }[name]()


@st.composite
def blocks(draw):
    """A block with random parameters, and the shape of its input."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels = st.integers(groups, draw(st.sampled_from([8, 40, 140])))
    inputs, outputs = draw(channels), draw(channels)
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    size = [draw(st.integers(k, 9)) for k in kernel]
    conv = draw(st.sampled_from([BConv, BConv, ScaledBConv]))(
        inputs,
        outputs,
        kernel_size=kernel,
        stride=(draw(st.integers(1, 2)), draw(st.integers(1, 3))),
        padding=(draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        groups=groups,
        bound=draw(st.sampled_from([0.1, 1.2])),
    )
    norm = nn.BatchNorm2d(
        outputs,
        affine=draw(st.booleans()),
        momentum=draw(st.sampled_from([None, 0.1])),
        track_running_stats=draw(st.booleans()),
    )
    act = act_of(draw(st.sampled_from(["none", "relu", "prelu", "fprelu"])), outputs)
    for parameter in [*norm.parameters(), *act.parameters()]:
        nn.init.normal_(parameter)
    sign = Sign(zero_one=draw(st.booleans()), bound=draw(st.sampled_from([0.5, 1.2])))
    shape = (draw(st.integers(1, 3)), inputs, *size)
    return nn.ModuleDict({"sign": sign, "conv": conv, "norm": norm, "act": act}), shape


def run_block(block, x, shortcut):
    layers = native.Layers(block["sign"], block["conv"], block["norm"], block["act"])
    if native.fits(x, layers, shortcut):
        return native.run(x, layers, shortcut)
    out = block["norm"](block["conv"](block["sign"](x)))
    return block["act"](out if shortcut is None else out + shortcut)


def shortcut_for(kind, block, x):
    """None, a tensor of the output's shape, or x itself where it has that shape."""
    shape = block["conv"](block["sign"](x)).shape
    if kind == "identity" and shape == x.shape:
        return x
    return None if kind == "none" else torch.randn(shape).requires_grad_()


def assert_near(ours, wanted, tolerance, what):
    error = (ours.double() - wanted).abs().max().item() if wanted.numel() else 0.0
    assert error <= tolerance * max(1e-2, wanted.abs().max().item()), f"{what}: {error}"


@settings(max_examples=40, deadline=None)
@given(made=blocks(), kind=st.sampled_from(["none", "identity", "given"]), training=st.booleans())
def check_block(isa, made, kind, training):
    block, shape = made
    x = torch.randn(shape).requires_grad_()
    sums = block["conv"](block["sign"](x)).detach().transpose(0, 1).flatten(1)
    assume(sums.shape[1] > 1)
    if training or not block["norm"].track_running_stats:
        # A channel that hardly varies is rounding magnified by BatchNorm, up to 300 times: floats cannot agree on it.
        assume((sums.std(1) > 1e-2 * sums.abs().amax(1)).all())
    # BatchNorm undoes what an only weight does: its gradient is 0, and what we find is rounding.
    assume(all(block["conv"].proxies(part)[0].numel() > 1 for part in block["conv"].parts))
    block.train(training)
    shortcut = shortcut_for(kind, block, x)
    twin = copy.deepcopy(block).double()
    x64 = x.detach().double().requires_grad_()
    s64 = x64 if shortcut is x else None if shortcut is None else shortcut.detach().double().requires_grad_()
    z = copy.deepcopy(twin)["norm"](twin["conv"](twin["sign"](x64)))
    assume(((z if s64 is None else z + s64).abs() > 1e-4).all())  # at 0 a float may take the other slope
    set_backend(block, "native")
    assert native.fits(x, native.Layers(block["sign"], block["conv"], block["norm"], block["act"]), shortcut)
    out, wanted = run_block(block, x, shortcut), run_block(twin, x64, s64)
    assert_near(out, wanted, OUTPUT_TOLERANCE, "out")
    for (name, ours), theirs in zip(block.named_buffers(), twin.buffers(), strict=True):
        assert_near(ours, theirs.double(), OUTPUT_TOLERANCE, name)
    grad = torch.randn(out.shape)
    out.backward(grad)
    wanted.backward(grad.double())
    tolerance = GRADIENT_TOLERANCE.get(isa, BF16_TOLERANCE)
    assert_near(x.grad, x64.grad, tolerance, "x")
    if shortcut is not None:
        assert_near(shortcut.grad, s64.grad, tolerance, "shortcut")
    for (name, ours), theirs in zip(block.named_parameters(), twin.parameters(), strict=True):
        assert_near(ours.grad, theirs.grad, tolerance, name)


def test_blocks_equal_double_precision(isa):
    check_block(isa)


@settings(max_examples=40, deadline=None)
@given(made=blocks())
def check_integers(made):
    block, shape = made
    conv = block["conv"]
    x = torch.randn(shape)
    wanted = BConv.forward(conv, block["sign"](x))
    assume(wanted.numel() // conv.out_channels > 1)
    if isinstance(conv, ScaledBConv):
        return
    norm = nn.BatchNorm2d(conv.out_channels, eps=0.0).eval()  # mean 0, variance 1: leaves the integers alone
    set_backend(conv, "native")
    layers = native.Layers(block["sign"], conv, norm, nn.Identity())
    assert torch.equal(native.run(x, layers, None), wanted)


def test_the_convolution_gives_exact_integers(isa):  # noqa: ARG001
    check_integers()


def test_a_channel_that_does_not_vary_is_its_shift(isa):  # noqa: ARG001
    block = nn.ModuleDict({"sign": Sign(), "conv": BConv(40, 6), "norm": nn.BatchNorm2d(6), "act": nn.Identity()})
    block["conv"].padding = (0, 0)
    nn.init.normal_(block["norm"].bias)
    set_backend(block, "native")
    x = torch.rand(2, 40, 5, 5).add(0.1).requires_grad_()
    out = run_block(block, x, None)
    assert torch.allclose(out, block["norm"].bias.view(1, -1, 1, 1).expand_as(out), atol=5e-3)
    assert torch.equal(block["norm"].running_var, torch.full((6,), 0.9))
    out.sum().backward()
    assert x.grad.isfinite().all()


def step(threads=1):
    """Output and gradients of one step of a block, with its statistics."""
    torch.manual_seed(0)
    block = nn.ModuleDict(
        {"sign": Sign(), "conv": BConv(70, 70, groups=3), "norm": nn.BatchNorm2d(70), "act": FPReLU(70)}
    ).train()
    set_backend(block, "native")
    x = torch.randn(33, 70, 5, 6).requires_grad_()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        out = run_block(block, x, x)
        out.square().sum().backward()
    finally:
        torch.set_num_threads(before)
    return [out.detach(), x.grad, *(p.grad for p in block.parameters()), *block.buffers()]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", TILES)
def test_tiles_change_no_bit_of_a_step(isa, threads, monkeypatch):
    shape = (33, 5, 6, 70, 70, 3, 3, 1, 1, 1, 1, 3)
    results = []
    for name in (isa, next(name for name in _native.isas() if name != "amx")):
        monkeypatch.setenv("FTBNN_ISA", name)
        block = _native.training.Block(
            shape, zero_one=False, bound=1.2, weight_bound=1.2, identity=True, batch_stats=True,
            byte_gradients=False, eps=1e-5, momentum=0.1, parameters=(0,) * 7,
        )  # fmt: skip
        assert block.by_tiles == (name == isa)
        results.append(step(threads))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing(threads):
    torch.manual_seed(0)
    block = nn.ModuleDict(
        {"sign": Sign(), "conv": BConv(20, 20), "norm": nn.BatchNorm2d(20), "act": FPReLU(20)}
    ).train()
    set_backend(block, "native")
    x, results = torch.randn(5, 20, 17, 13), []
    before = torch.get_num_threads()
    try:
        for count in (1, threads):
            torch.set_num_threads(count)
            block.zero_grad()
            inputs = x.clone().requires_grad_()
            run_block(block, inputs, inputs).square().sum().backward()
            results.append([inputs.grad, *(p.grad.clone() for p in block.parameters())])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
