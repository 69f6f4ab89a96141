"""Native blocks against the same layers in PyTorch: integers exactly, floats against double precision."""

import copy
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from ftbnn import _native
from ftbnn.nn import BConv, FPReLU, MeanScaledSigns, Polynomial, Sign, Signs, Tanh, Window, use_backend
from ftbnn.nn.methods import METHODS
from ftbnn.nn.methods.reactnet import RPReLU
from ftbnn.nn.native import Block
from ftbnn.nn.native.block import BLOCK
from ftbnn.nn.rules import Wedge
from ftbnn.nn.scales import ChannelScale

OUTPUT_TOLERANCE = 1e-5  # float32 BatchNorm, relative to the largest output
GRADIENT_TOLERANCE = {"portable": 1e-4, "avx2": 1e-4, "avx512": 1e-4}
# gy is rounded to bf16: at most 2^-9 of every summand, so of a sum at most 2^-9 of the sum of magnitudes. Relative to
# the largest gradient of a tensor, sums that cancel lose more; these sizes stay below 4 %.
BF16_TOLERANCE = 4e-2
ISAS = _native.capabilities()["isas"]


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", request.param)
    return request.param


class ShiftedSign(Sign):
    """A sign with a number to each channel, whatever its rule."""

    def __init__(self, channels, **settings):
        super().__init__(**settings)
        self.numbers = nn.Parameter(torch.zeros(channels))

    def shift(self):
        return self.numbers


def act_of(name, channels):
    return {
        "none": nn.Identity,
        "relu": nn.ReLU,
        "prelu": lambda: nn.PReLU(channels, init=0.3),
        "fprelu": lambda: FPReLU(channels),
        "rprelu": lambda: RPReLU(channels),
        "hardtanh": nn.Hardtanh,
    }[name]()


@st.composite
def convolutions(draw):
    """A binary convolution with both its sides, and the shape of its input."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels = st.integers(groups, draw(st.sampled_from([8, 40, 140])))
    inputs, outputs = draw(channels), draw(channels)
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    size = [draw(st.integers(k, 9)) for k in kernel]
    rule = draw(st.sampled_from([Window(0.5), Window(), Polynomial(), Tanh(2.0, 1.5), Wedge(1.5, 2.0)]))
    sign = {"zero_one": draw(st.booleans()), "rule": rule}
    weight_rule = draw(st.sampled_from([Window(0.1), Window(), Polynomial(), Tanh(0.5, 2.0)]))
    kind = draw(st.sampled_from([Signs, Signs, MeanScaledSigns]))
    signs = kind(weight_rule, multiplier=draw(st.sampled_from(["factor", "none", "function"])))
    if inputs // groups * kernel[0] * kernel[1] > 2:  # one weight has no deviation, and of two the scale is 2^-0.5
        signs = draw(st.sampled_from([signs, signs, signs, METHODS["irnet"].signs()]))
    conv = BConv(
        inputs,
        outputs,
        kernel,
        stride=(draw(st.integers(1, 2)), draw(st.integers(1, 3))),
        padding=(draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        groups=groups,
        input=ShiftedSign(inputs, **sign) if draw(st.booleans()) else Sign(**sign),
        signs=signs,
        scale=ChannelScale(draw(st.sampled_from([1, outputs]))) if draw(st.booleans()) else None,
    )
    for parameter in [*conv.input.parameters(), *([] if conv.scale is None else conv.scale.parameters())]:
        nn.init.normal_(parameter)
    return conv, (draw(st.integers(1, 3)), inputs, *size)


@st.composite
def blocks(draw):
    """A block with random parameters, and the shape of its input."""
    conv, shape = draw(convolutions())
    norm = nn.BatchNorm2d(
        conv.out_channels,
        affine=draw(st.booleans()),
        momentum=draw(st.sampled_from([None, 0.1])),
        track_running_stats=draw(st.booleans()),
    )
    act = act_of(draw(st.sampled_from(["none", "relu", "prelu", "fprelu", "rprelu", "hardtanh"])), conv.out_channels)
    for parameter in [*norm.parameters(), *act.parameters()]:
        nn.init.normal_(parameter)
    return nn.ModuleDict({"conv": conv, "norm": norm, "act": act}), shape


def native_block(block, x, shortcut=None):
    with use_backend("native"):
        return Block.of(x, block["conv"], block["norm"], block["act"], shortcut)


def run_torch(block, x, shortcut=None):
    out = block["norm"](block["conv"](x))
    return block["act"](out if shortcut is None else out + shortcut)


def shortcut_for(kind, block, x):
    """None, a tensor of the output's shape, or x itself where it has that shape."""
    shape = block["conv"](x).shape
    if kind == "identity" and shape == x.shape:
        return x
    return None if kind == "none" else torch.randn(shape).requires_grad_()


def in_double(tensor, x=None, x64=None):
    return x64 if tensor is x else None if tensor is None else tensor.detach().double().requires_grad_()


def assert_near(ours, wanted, tolerance, what):
    error = (ours.double() - wanted.double()).abs().amax().item() if wanted.numel() else 0.0
    # Where a narrow window lets few gradients pass, all that do may be small sums of large numbers.
    least = 1e-2 if tolerance < BF16_TOLERANCE else 0.5
    assert error <= tolerance * max([least, *wanted.abs().flatten().tolist()]), f"{what}: {error}"


def assume_well_posed(block, x, shortcut, training):
    """What floats can agree on, whoever adds them up."""
    conv = block["conv"]
    sums = conv(x).detach().transpose(0, 1).flatten(1)
    assume(sums.shape[1] > 1)
    if training or not block["norm"].track_running_stats:
        # A channel that hardly varies is rounding magnified by BatchNorm, up to 300 times, and two positions become +-1
        # whatever they were: their gradient is 0, and what we find is rounding.
        assume(sums.shape[1] > 2 and (sums.std(1) > 1e-2 * sums.abs().amax(1)).all())
    # BatchNorm undoes what an only weight does: its gradient is 0, and what we find is rounding.
    assume(all(conv.proxies(part)[0].numel() > 1 for part in conv.parts))
    twin = copy.deepcopy(block).double().train(training)
    x64 = in_double(x)
    kinks = []
    twin["act"].register_forward_pre_hook(lambda _, given: kinks.append(given[0]))
    run_torch(twin, x64, in_double(shortcut, x, x64))
    before = getattr(twin["act"], "before", torch.zeros(1)).view(1, -1, 1, 1)
    knees = (-1.0, 1.0) if isinstance(twin["act"], nn.Hardtanh) else (0.0,)
    # At a knee a float may take the other slope.
    assume(all(((kinks[0] + before - knee).abs() > 1e-4).all() for knee in knees))


@settings(max_examples=40, deadline=None)
@given(made=blocks(), kind=st.sampled_from(["none", "identity", "given"]), training=st.booleans())
def check_block(isa, made, kind, training):
    block, shape = made
    x = torch.randn(shape).requires_grad_()
    shortcut = shortcut_for(kind, block, x)
    assume_well_posed(block, x, shortcut, training)
    block.train(training)
    twin, x64 = copy.deepcopy(block).double(), in_double(x)
    s64 = in_double(shortcut, x, x64)
    out, wanted = native_block(block, x, shortcut).run(), run_torch(twin, x64, s64)
    assert_near(out, wanted, OUTPUT_TOLERANCE, "out")
    for (name, ours), theirs in zip(block.named_buffers(), twin.buffers(), strict=True):
        assert_near(ours, theirs, OUTPUT_TOLERANCE, name)
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
@given(made=convolutions(), bare=st.booleans())
def check_without_norm(isa, made, bare):
    """A Sign and a BConv of a user's own, one inside the other or one behind the other."""
    conv, shape = made
    assume(all(conv.proxies(part)[0].numel() > 1 for part in conv.parts))
    x = torch.randn(shape).requires_grad_()
    network = nn.Sequential(conv)
    if bare:
        network, conv.input = nn.Sequential(conv.input, conv), None
    twin, x64 = copy.deepcopy(network).double(), in_double(x)
    with use_backend("native"), patch.object(BLOCK, "run", wraps=BLOCK.run) as seen:
        out = network(x)
    assert seen.call_count == 1
    wanted = twin(x64)
    assert_near(out, wanted, OUTPUT_TOLERANCE, "out")
    grad = torch.randn(out.shape)
    out.backward(grad)
    wanted.backward(grad.double())
    tolerance = GRADIENT_TOLERANCE.get(isa, BF16_TOLERANCE)
    assert_near(x.grad, x64.grad, tolerance, "x")
    for (name, ours), theirs in zip(network.named_parameters(), twin.named_parameters(), strict=True):
        assert_near(ours.grad, theirs[1].grad, tolerance, name)


def test_signs_and_convolutions_without_a_norm_equal_double_precision(isa):
    check_without_norm(isa)


def arguments_of(block):
    """What the operator is called with."""
    with patch.object(BLOCK, "run", side_effect=InterruptedError) as called, pytest.raises(InterruptedError):
        block.run()
    given_tensors, settings_given = called.call_args.args
    tensors = [given_tensors.get(name) for name in BLOCK.inputs]
    return [None if tensor is None else tensor.detach() for tensor in tensors], settings_given


@settings(max_examples=40, deadline=None)
@given(
    made=blocks(),
    kind=st.sampled_from(["none", "identity", "given"]),
    training=st.booleans(),
    wants=st.lists(st.booleans(), min_size=len(BLOCK.learned), max_size=len(BLOCK.learned)),
)
def check_operator(isa, made, kind, training, wants):
    """Both registrations, whichever gradients are wanted."""
    block, shape = made
    x = torch.randn(shape).requires_grad_()
    shortcut = shortcut_for(kind, block, x)
    assume_well_posed(block, x, shortcut, training)
    tensors, told = arguments_of(native_block(block.train(training), x, shortcut))
    ours, wanted = (
        dict(zip(BLOCK.results, run(*tensors, *told), strict=True)) for run in (BLOCK._native, BLOCK._plain)
    )
    for name in ("codes", "inside", "y"):
        assert torch.equal(ours[name], wanted[name]), name
    for name in ("out", "new_mean", "new_var", "saved"):
        assert ours[name].shape == wanted[name].shape
        assert_near(ours[name], wanted[name], 2 * OUTPUT_TOLERANCE, name)
    known = dict(zip(BLOCK.inputs, tensors, strict=True)) | wanted
    kept = [known[name] if name in BLOCK.keep(known, told) else None for name in BLOCK.kept]
    wants = [
        want and (name == "x" or known.get(name) is not None) for name, want in zip(BLOCK.learned, wants, strict=True)
    ]
    grad = torch.randn(wanted["out"].shape)
    found = [run(grad, *kept, wants, *told) for run in (BLOCK._native_backward, BLOCK._plain_backward)]
    tolerance = GRADIENT_TOLERANCE.get(isa, BF16_TOLERANCE)
    for name, want, mine, other in zip(BLOCK.learned, wants, *found, strict=True):
        assert mine.shape == other.shape, name
        if want:
            assert_near(mine, other, 2 * tolerance, name)


def test_the_operators_two_registrations_agree(isa):
    check_operator(isa)


@settings(max_examples=40, deadline=None)
@given(made=convolutions())
def check_integers(made):
    conv, shape = made
    conv.signs = Signs()
    x = torch.randn(shape)
    wanted = conv(x)
    assume(wanted.numel() // conv.out_channels > 1)
    norm = nn.BatchNorm2d(conv.out_channels, eps=0.0).eval()  # mean 0, variance 1: leaves the integers alone
    with use_backend("native"):
        assert torch.equal(conv(x), wanted)
        assert torch.equal(Block.of(x, conv, norm, nn.Identity()).run(), wanted)


def test_the_convolution_gives_exact_integers(isa):  # noqa: ARG001
    check_integers()


@pytest.mark.parametrize(("outputs", "groups"), [(200, 1), (520, 1), (1100, 1), (450, 2), (451, 2)])
def test_many_output_channels_give_exact_integers(isa, outputs, groups):  # noqa: ARG001
    """Kernels may make several panels of output channels in one call."""
    torch.manual_seed(0)
    conv = BConv(outputs, outputs, groups=groups, input=Sign())
    x = torch.randn(3, outputs, 5, 4)
    wanted = conv(x)
    with use_backend("native"):
        assert torch.equal(conv(x), wanted)


def test_a_channel_that_does_not_vary_is_its_shift(isa):  # noqa: ARG001
    conv = BConv(40, 6, padding=0, input=Sign())
    block = nn.ModuleDict({"conv": conv, "norm": nn.BatchNorm2d(6), "act": nn.Identity()})
    nn.init.normal_(block["norm"].bias)
    x = torch.rand(2, 40, 5, 5).add(0.1).requires_grad_()
    out = native_block(block, x).run()
    assert torch.allclose(out, block["norm"].bias.view(1, -1, 1, 1).expand_as(out), atol=5e-3)
    assert torch.equal(block["norm"].running_var, torch.full((6,), 0.9))
    out.sum().backward()
    assert x.grad.isfinite().all()


def block_of(channels, groups=1):
    conv = BConv(channels, channels, groups=groups, input=Sign())
    return nn.ModuleDict({"conv": conv, "norm": nn.BatchNorm2d(channels), "act": FPReLU(channels)}).train()


def step(threads):
    """Output and gradients of one step of a block, with its statistics. Gradients are made of bytes, whose sums are
    integers: those of floats depend on their order."""
    torch.manual_seed(0)
    block = block_of(70, groups=3)
    x = torch.randn(33, 70, 5, 6).requires_grad_()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        made = native_block(block, x, x)
        out = replace(made, settings=made.settings._replace(byte_gradients=True)).run()
        out.square().sum().backward()
    finally:
        torch.set_num_threads(before)
    return [out.detach(), x.grad, *(p.grad for p in block.parameters()), *block.buffers()]


@pytest.mark.parametrize("threads", [1, 2])
def test_no_isa_changes_a_bit_of_a_step(threads, monkeypatch):
    results = []
    for name in ISAS:
        monkeypatch.setenv("FTBNN_ISA", name)
        results.append(step(threads))
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing(threads):
    torch.manual_seed(0)
    block = block_of(20)
    x, results = torch.randn(5, 20, 17, 13), []
    before = torch.get_num_threads()
    try:
        for count in (1, threads):
            torch.set_num_threads(count)
            block.zero_grad()
            inputs = x.clone().requires_grad_()
            native_block(block, inputs, inputs).run().square().sum().backward()
            results.append([inputs.grad, *(p.grad.clone() for p in block.parameters())])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
