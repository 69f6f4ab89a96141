"""The native backend in whole networks, and when it steps aside."""

import copy
from unittest.mock import patch

import pytest
import torch
from torch import nn

from ftbnn import _native_tests as native
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import (
    BasicBlock,
    BConv,
    DuplicateReduction,
    PlainStem,
    ProjectionReduction,
    PurifiedStem,
    Sign,
    backend,
    set_mode,
    use_backend,
)
from ftbnn.nn.native import Block, repeat
from ftbnn.nn.native.block import BLOCK, listening
from ftbnn.nn.native.core import SMALL_BYTES, empty, launcher
from ftbnn.nn.native.norm import NORM
from ftbnn.tracing import Recorder


def natively(network, *inputs):
    with use_backend("native"):
        return network(*inputs)


def native_calls(network, images):
    """The weights of the blocks that run natively, by their addresses."""
    seen = []
    with listening(lambda weights, *_: seen.append(weights)):
        natively(network, images)
    return seen


def test_the_backend_holds_inside_and_ends_with_its_block():
    def fail():
        assert backend() == "plain"
        raise ZeroDivisionError

    assert backend() == "torch"
    with use_backend("native"):
        with pytest.raises(ZeroDivisionError), use_backend("plain"):
            fail()
        assert backend() == "native"
    assert backend() == "torch"


def test_a_backend_that_does_not_exist_is_named():
    with pytest.raises(UserError, match="unknown backend 'nativ'; did you mean native"), use_backend("nativ"):
        pass


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn18-relu", "bireal18", "ftbnn-d18-g3-v5"])
def test_a_whole_network_has_the_loss_and_the_gradients_of_the_torch_backend(name, monkeypatch):
    """Baseline, ReLU codes, scaling factors; bridge, uneven groups and duplicates. Odd sizes on the way down."""
    monkeypatch.setenv("FTBNN_ISA", "portable")  # float gradients: what is left are roundings
    torch.manual_seed(0)
    network = build(name, classes=3, width=None if "-d18" in name else 4, stem="small")
    twin = copy.deepcopy(network)
    images, labels = torch.randn(4, 3, 27, 27), torch.tensor([0, 1, 2, 0])
    assert len(native_calls(copy.deepcopy(network), images)) == sum(isinstance(m, BConv) for m in network.modules())
    losses = [nn.functional.cross_entropy(out, labels) for out in (natively(network, images), twin(images))]
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    for loss in losses:
        loss.backward()
    for (path, ours), theirs in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() <= 1e-3 * theirs.grad.norm() + 1e-6, path


def test_gradients_in_bytes_are_near_and_everything_else_is_the_same(monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")
    torch.manual_seed(0)
    network = build("ftbnn18", classes=3, width=8, stem="small")
    twin = copy.deepcopy(network)
    images, labels = torch.randn(8, 3, 32, 32), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    with patch("ftbnn.nn.native.require"), use_backend("native8"):  # slow without the CPU's bytes, and the same
        losses = [nn.functional.cross_entropy(network(images), labels)]
    losses.append(nn.functional.cross_entropy(natively(twin, images), labels))
    assert losses[0].item() == losses[1].item()
    for loss in losses:
        loss.backward()
    off = {
        path: ((ours.grad - theirs.grad).norm() / theirs.grad.norm()).item()
        for (path, ours), theirs in zip(network.named_parameters(), twin.parameters(), strict=True)
    }
    assert 0 < max(off.values()) < 0.5  # slopes and biases have sums that nearly cancel
    weights = [off[path] for path, parameter in network.named_parameters() if parameter.dim() > 1]
    assert max(weights) < 0.2  # the noise of 16 layers, one after the other
    assert all(value == 0 for path, value in off.items() if path.startswith(("fc.", "stage4.3.norm")))


@pytest.mark.parametrize("start", [0, launcher()], ids=["ours", "PyTorch's"])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_task_that_runs_out_of_memory_is_an_error_of_its_caller(threads, start):
    for _ in range(20):
        with pytest.raises(MemoryError):
            native.run_tasks(threads, 40, 7, start)
        assert native.run_tasks(threads, 40, 0, start) == 40


def test_real_valued_layers_run_in_torch_and_layers_with_hooks_are_called():
    network = build("ftbnn18", classes=3, width=4, stem="small")
    images = torch.randn(2, 3, 16, 16)
    count = len(native_calls(network, images))
    set_mode(network, activations="tanh", weights="real")
    assert not native_calls(network, images)
    set_mode(network, activations="sign", weights="binary")
    block, outputs = network.stage1[0], []
    for layer in (block.conv.input, block.conv.signs, block.norm, block.act, block.conv):
        handle = layer.register_forward_hook(lambda *_: outputs.append(_[-1]))
        # Without its norm a convolution is a block of its own; without its sides it is none.
        expected = count - 1 if layer in (block.conv.input, block.conv.signs) else count
        assert len(native_calls(network, images)) == expected
        handle.remove()
    assert len(outputs) == 5
    assert torch.equal(outputs[-1], outputs[-1].round())  # the convolution's integers, not the block's output
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not native_calls(network, images)
    assert not native_calls(network.double(), images.double())


@pytest.mark.parametrize("activations", ["tanh", "sign", "identity"])
def test_around_real_valued_weights_norm_shortcut_and_non_linearity_run_natively(activations):
    torch.manual_seed(0)
    network = build("ftbnn18", classes=3, width=4, stem="small")
    set_mode(network, activations=activations, weights="real")
    twin = copy.deepcopy(network)
    images, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 0])
    with patch.object(NORM, "run", wraps=NORM.run) as calls:
        out = natively(network, images)
    assert calls.call_count == 16 + 3  # blocks, projections; the stem is an operator of its own
    for made in (out, twin(images)):
        nn.functional.cross_entropy(made, labels).backward()
    for (path, ours), theirs in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() <= 2e-3 * theirs.grad.norm(), path


@pytest.mark.parametrize(("channels", "wanted"), [(32, 13), (32, 32), (8, 20), (5, 10), (5, 15), (3, 8), (1, 4)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_repeated_channels_and_their_gradients_are_those_of_torch(channels, wanted, layout):
    torch.manual_seed(0)
    x = torch.randn(6, channels, 9, 7).to(memory_format=layout).requires_grad_()
    out = natively(repeat, x, *divmod(wanted, channels))
    theirs = x.repeat(1, -(-wanted // channels), 1, 1)[:, :wanted]
    assert type(out.grad_fn).__name__ == "_RepeatBackward"
    assert torch.equal(out, theirs)
    grad = torch.randint(-99, 99, out.shape).float()  # whole numbers: sums in any order are the same
    assert torch.equal(*(torch.autograd.grad(y, x, grad)[0] for y in (out, theirs)))


def test_a_sum_too_large_for_16_bits_runs_in_torch():
    block = BasicBlock(4000, act="none", follows_relu=False)
    x = torch.zeros(1, 4000, 1, 1)
    with use_backend("native"):
        assert Block.of(x, block.conv, block.norm, block.act, x) is None


def test_a_shortcut_of_another_shape_is_left_to_torch():
    """It says that the shapes differ; the native core would read and write beside them."""
    x = torch.randn(2, 8, 6, 6)
    for conv in (BConv(8, 8, kernel_size=2, input=Sign()), BConv(8, 8, stride=2, input=Sign())):
        block = BasicBlock(8, act="relu", follows_relu=False)
        block.conv = conv
        with pytest.raises(RuntimeError, match="size of tensor"):
            natively(block, x)
    broad = ProjectionReduction(4, act="relu", follows_relu=False)
    broad.shortcut = nn.Conv2d(4, 8, 6, bias=False)  # one position, as wide as torch makes it
    twin = copy.deepcopy(broad)
    torch.testing.assert_close(natively(broad, x[:, :4]), twin(x[:, :4]))


def test_a_kernel_too_large_for_the_gradients_runs_in_torch():
    block = BasicBlock(4, act="relu", follows_relu=False)
    block.conv = BConv(4, 4, kernel_size=13, input=Sign())
    assert not native_calls(block, torch.randn(2, 4, 8, 8))
    natively(block, torch.randn(2, 4, 8, 8)).sum().backward()


@pytest.mark.parametrize("act", ["relu", "fprelu"])
def test_recomputed_blocks_have_the_same_gradients(act):
    """Checkpointing drops what forward saved; backward must not remember where it was."""
    torch.manual_seed(0)
    network = nn.Sequential(*(BasicBlock(64, act=act, follows_relu=False) for _ in range(3)))
    twin = copy.deepcopy(network)
    x = torch.randn(4, 64, 9, 9)
    with use_backend("native"):
        network(x).square().sum().backward()
        torch.utils.checkpoint.checkpoint(twin, x, use_reentrant=False).square().sum().backward()
    for ours, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("change", [None, "in place", "another tensor"])
def test_bits_that_a_block_made_serve_the_next_while_its_output_stays_the_same(change):
    torch.manual_seed(0)
    first, second = (BasicBlock(40, act="fprelu", follows_relu=False) for _ in range(2))
    x = torch.randn(4, 40, 6, 5, requires_grad=True)
    found = []
    for forget in (False, True):
        middle = natively(first, x)
        assert middle._ftbnn_bits.bound == first.conv.input.rule.bound
        if forget:
            del middle._ftbnn_bits
        if change == "in place":
            middle.neg_()
        elif change == "another tensor":
            middle = -middle
        with patch.object(BLOCK, "run", side_effect=BLOCK.run) as run:
            out = natively(second, middle)
        assert ("x_codes" in run.call_args.args[0]) == (change is None and not forget)
        gradients = torch.autograd.grad(out.square().sum(), [x, second.conv.weight])
        found.append([out, *gradients])
    for kept, made in zip(*found, strict=True):
        assert torch.equal(kept, made)


def test_parameters_that_are_not_dense_are_read_right():
    torch.manual_seed(0)
    block, x = BasicBlock(8, act="fprelu", follows_relu=False), torch.randn(2, 8, 5, 5)
    wide = torch.randn(8, 3)
    given = {"norm.weight": wide[:, 0], "norm.bias": torch.randn(1).expand(8)}
    dense = {key: value.contiguous() for key, value in given.items()}
    with use_backend("native"):
        assert torch.equal(*(torch.func.functional_call(block, parameters, x) for parameters in (given, dense)))


def test_a_default_type_changes_nothing():
    block = BasicBlock(8, act="relu", follows_relu=False)
    x = torch.randn(2, 8, 5, 5)
    expected = natively(block.eval(), x)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(natively(block, x), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_forward_put_in_its_place_is_called():
    block = BasicBlock(8, act="relu", follows_relu=False)
    block.act.forward = lambda x: x * 0
    assert not natively(block, torch.randn(2, 8, 5, 5)).any()


def test_one_value_per_channel_is_refused_as_batch_norm_does():
    block = BasicBlock(4, act="relu", follows_relu=False)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        natively(block, torch.zeros(1, 4, 1, 1))
    block.norm = nn.BatchNorm2d(4, track_running_stats=False)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        natively(block.eval(), torch.zeros(1, 4, 1, 1))


def test_accumulated_gradients_add_up():
    torch.manual_seed(0)
    block = BasicBlock(8, act="fprelu", follows_relu=False).eval()
    x = torch.randn(4, 8, 5, 5)
    natively(block, x).sum().backward()
    whole = [p.grad.clone() for p in block.parameters()]
    block.zero_grad()
    for half in x.split(2):
        natively(block, half).sum().backward()
    for parameter, grad in zip(block.parameters(), whole, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=2e-2, atol=2e-2)


def test_no_gradient_no_memory():
    block = BasicBlock(8, act="fprelu", follows_relu=False)
    with torch.no_grad():
        assert natively(block, torch.randn(2, 8, 4, 4)).grad_fn is None
    assert natively(block, torch.randn(2, 8, 4, 4)).grad_fn is not None


def operators(out):
    """The names of the operators behind a tensor."""
    seen, names, waiting = set(), set(), [out.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            names.add(type(node).__name__)
            waiting += [before for before, _ in node.next_functions]
    return names


NORMS, AVERAGES = "normBackward", "_AverageBackward"
PARTS = {
    "plain stem": (lambda: PlainStem(3, 5, stem="imagenet"), 3, {NORMS}, ["norm", "pool"]),
    "small stem": (lambda: PlainStem(3, 5, stem="small"), 3, {NORMS}, ["norm"]),
    "purified stem": (lambda: PurifiedStem(3, 5), 3, {NORMS}, ["norm", "act"]),
    "projection": (
        lambda: ProjectionReduction(4, act="fprelu", follows_relu=False),
        4,
        {NORMS, AVERAGES},
        ["shortcut.0", "shortcut.2"],
    ),
    "duplicate": (lambda: DuplicateReduction(4, groups=2, act="relu", follows_relu=True), 4, {AVERAGES}, ["shortcut"]),
}


@pytest.mark.parametrize("name", PARTS)
def test_stems_and_shortcuts_run_natively_unless_somebody_looks(name):
    make, channels, wanted, layers = PARTS[name]
    torch.manual_seed(0)
    part = make()
    x = torch.randn(3, channels, 23, 17, requires_grad=True)
    twin, state = copy.deepcopy(part), list(part.state_dict())
    out = natively(part, x)
    torch.testing.assert_close(out, twin(x), rtol=1e-4, atol=1e-5)
    assert operators(out) & {NORMS, AVERAGES} == wanted
    assert list(part.state_dict()) == state
    for layer in [*layers, *(["shortcut"] if name == "projection" else [])]:
        seen = []
        handle = part.get_submodule(layer).register_forward_hook(lambda *_, seen=seen: seen.append(1))
        assert operators(natively(part, x)) & {NORMS, AVERAGES} < wanted
        assert seen == [1]
        handle.remove()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not operators(natively(part, x)) & wanted
    assert not operators(natively(copy.deepcopy(part).double(), x.double())) & wanted
    assert not operators(part(x)) & wanted


def test_replaced_layers_run_as_they_are():
    stem = PlainStem(3, 4)
    stem.norm, stem.pool = nn.GroupNorm(2, 4), nn.AvgPool2d(2)
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(natively(stem, x), stem.pool(stem.norm(stem.conv(x))))


@pytest.mark.parametrize("name", ["ftbnn18", "ftbnn-d18-g3-v5"])
def test_a_native_network_is_seen_as_any(name):
    """Counting and exporting read the same operators whatever computes them."""
    network = build(name, classes=3, width=None if "-d18" in name else 4, stem="small").eval()
    x, seen = torch.zeros(2, 3, 32, 32), []
    for name_of_backend in ("torch", "native"):
        recorder = Recorder(network, x)
        with use_backend(name_of_backend), recorder.watching(network):
            network(x)
        seen.append([(call.name, call.label) for call in recorder.calls])
    assert seen[0] == seen[1]


def test_a_second_gradient_is_added_in_place():
    """Else every reduction would allocate a third map."""
    size, made = SMALL_BYTES // 4, []

    class Ours(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # noqa: ARG004
            return x[:1].clone()

        @staticmethod
        def backward(ctx, *_):  # noqa: ARG004
            grad = empty((size,), torch.float32).fill_(1)
            made.append(grad.data_ptr())
            return grad

    x = torch.zeros(size, requires_grad=True)
    y, sums = x * 1, []
    y.register_hook(lambda grad: sums.append(grad.data_ptr()))
    (Ours.apply(y) + Ours.apply(y)).sum().backward()
    assert sums[0] in made
    assert (x.grad == 2).all()
