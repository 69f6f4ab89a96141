"""PyTorch knows our operators: whoever compiles, exports, traces, transforms or watches a network meets them."""

import copy
import io
import shutil
import subprocess
import sys
from unittest.mock import patch

import pytest
import torch
from export_networks import Forward
from torch import nn
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from ftbnn.nn import (
    METHODS,
    BasicBlock,
    BConv,
    Bridge,
    DuplicateReduction,
    FPReLU,
    PlainStem,
    ProjectionReduction,
    PurifiedStem,
    Sign,
    method_named,
    set_progress,
    settle,
    sign,
    use_backend,
)
from ftbnn.nn.native.block import BLOCK
from ftbnn.nn.native.norm import NORM
from ftbnn.packing import build_graph

OURS = ["ftbnn::sign", "ftbnn::sign", "ftbnn::bconv", "ftbnn::fprelu"]  # of a basic block: of inputs, of weights


# Sums of codes are solved for, in operators that a compiler leaves to Python; torch.func sees sides that are ours.
COMPILED = [name for name in METHODS if name not in ("abc", "xnorpp-4", "real-to-bin")]
TRANSFORMED = [n for n, row in METHODS.items() if row.conv is None and row.scale is None and row.order == "CB+A"]
TRANSFORMED = [name for name in TRANSFORMED if name != "ttq"]


def basic(method="ftbnn"):
    torch.manual_seed(0)
    return settle(BasicBlock(8, act=method_named(method).act, follows_relu=False, method=method), (8, 6, 6))


def called_with(operation, function):
    """The arguments of a native operator that a layer calls."""
    run = patch.object(operation, "run", side_effect=InterruptedError)
    with run as called, use_backend("native"), pytest.raises(InterruptedError):
        function()
    tensors, settings = called.call_args.args
    named = [tensors.get(name) for name in operation.inputs]
    return *(None if t is None else t.detach().requires_grad_(t.requires_grad) for t in named), *settings


def learned(*shape):
    return torch.randn(shape, requires_grad=True)


CALLS = {
    "sign": lambda: (torch.ops.ftbnn.sign, (learned(2, 6, 5, 5), None, True, "polynomial", [])),
    "sign, shifted": lambda: (torch.ops.ftbnn.sign, (learned(2, 6, 5, 5), learned(6), False, "window", [1.2])),
    "fprelu": lambda: (torch.ops.ftbnn.fprelu, (learned(2, 6, 5, 5), learned(6), learned(6))),
    "bconv": lambda: (
        torch.ops.ftbnn.bconv,
        (learned(2, 6, 5, 5), learned(4, 3, 3, 3), None, [2, 1], [1, 1], [1, 1], 2),
    ),
    "bconv, uneven": lambda: (
        torch.ops.ftbnn.bconv,
        (learned(2, 7, 5, 5), learned(4, 3, 3, 3), learned(3, 4, 3, 3), [1, 1], [1, 1], [1, 1], 2),
    ),
    "block": lambda: (torch.ops.ftbnn.block, called_with(BLOCK, lambda: basic()(learned(2, 8, 6, 6)))),
    "block, thresholds": lambda: (
        torch.ops.ftbnn.block,
        called_with(BLOCK, lambda: basic("reactnet")(learned(2, 8, 6, 6))),
    ),
    "norm": lambda: (torch.ops.ftbnn.norm, called_with(NORM, lambda: PurifiedStem(3, 8)(learned(2, 3, 9, 9)))),
    "norm, pool": lambda: (torch.ops.ftbnn.norm, called_with(NORM, lambda: PlainStem(3, 8)(learned(2, 3, 9, 9)))),
    "stairs": lambda: (
        torch.ops.ftbnn.stairs,
        (learned(2, 6, 5, 5), torch.tensor([-0.5, 0.5]), learned(3), torch.tensor([0.0, 1.0, 0.0])),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_schemas_shapes_and_gradients_are_as_registered(name):
    operator, arguments = CALLS[name]()
    opcheck(operator.default, arguments)


def step(network, x):
    out = network(x)
    out.abs().sum().backward()
    return [out.detach(), x.grad, *(p.grad for p in network.parameters()), *network.buffers()]


PARTS = {
    **{f"basic, {method}": lambda method=method: (basic(method), 8) for method in COMPILED},
    "projection": lambda: (ProjectionReduction(8, act="fprelu", follows_relu=True), 8),
    "duplicate": lambda: (DuplicateReduction(8, groups=3, act="relu", follows_relu=True), 8),
    "bridge": lambda: (Bridge(8, 13), 8),
    "stem": lambda: (PlainStem(3, 8), 3),
    "a user's": lambda: (nn.Sequential(Sign(), BConv(8, 8, groups=3), nn.BatchNorm2d(8), FPReLU(8)), 8),
}


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("name", PARTS)
def test_a_compiler_takes_each_part_in_one_graph(name, backend, monkeypatch):
    monkeypatch.setenv("FTBNN_ISA", "portable")  # where a compiler takes another operator, its sums are floats too
    torch._dynamo.reset()
    network, channels = PARTS[name]()
    set_progress(network, 0.5)
    twin, x = copy.deepcopy(network), torch.randn(2, channels, 9, 9)
    with use_backend(backend):
        compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
        expected = step(twin, x.clone().requires_grad_())
        given = x.clone().requires_grad_()
        compiled(given).abs().sum().backward()
    found = [given.grad, *(p.grad for p in network.parameters()), *network.buffers()]
    for ours, theirs in zip(found, expected[1:], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(shutil.which("g++") is None, reason="the compiler of PyTorch needs one of C++")
def test_pytorchs_own_compiler_trains_a_native_block(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    network = basic()
    twin, x = copy.deepcopy(network), torch.randn(2, 8, 6, 6)
    with use_backend("native"):
        compiled = torch.compile(network, fullgraph=True)
        compiled(x).abs().sum().backward()
        step(twin, x.clone().requires_grad_())
    for ours, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_exported_programs_hold_our_operators_and_survive_a_file(backend):
    network, x = basic().eval(), torch.randn(2, 8, 6, 6)
    with use_backend(backend):
        program = torch.export.export(network, (x,))
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert [name.replace(".", "::").removesuffix("::default") for name in names if "ftbnn" in name] == OURS
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(x), network(x))


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_trace_with_gradients_on_can_be_trained(backend):
    network, x = basic().eval(), torch.randn(2, 8, 6, 6)
    twin = copy.deepcopy(network)
    with use_backend(backend):
        traced = torch.jit.trace(network, (x.clone().requires_grad_(),))
    assert [kind for node in traced.inlined_graph.nodes() if "ftbnn" in (kind := node.kind())] == OURS
    found, expected = step(traced, x.clone().requires_grad_()), step(twin, x.clone().requires_grad_())
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("method", TRANSFORMED)
def test_gradients_of_single_images_by_vmap(method, backend):
    network, images = basic(method).eval(), torch.randn(3, 8, 6, 6)
    parameters, buffers = dict(network.named_parameters()), dict(network.named_buffers())

    def loss(given, image):
        return torch.func.functional_call(network, (given, buffers), (image[None],)).abs().sum()

    with use_backend(backend):
        found = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, images)
    for number, image in enumerate(images):
        expected = torch.autograd.grad(loss(parameters, image), list(parameters.values()))
        for ours, theirs in zip(found.values(), expected, strict=True):
            torch.testing.assert_close(ours[number], theirs, rtol=1e-4, atol=1e-4)


class Names(TorchDispatchMode):
    """Writes down what the dispatcher is asked for."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("learns", [False, True])
def test_whoever_watches_the_dispatcher_sees_the_same_operators(learns, backend):
    network, x = basic(), torch.randn(2, 8, 6, 6, requires_grad=learns)
    with torch.set_grad_enabled(learns), use_backend(backend), Names() as names:
        network(x)
    assert [name for name in names.seen if name.startswith("ftbnn")] == OURS


def test_pytorchs_own_counter_runs_through_a_block():
    with use_backend("native"), FlopCounterMode(display=False) as counter:
        nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), basic())(torch.randn(1, 3, 5, 5))
    assert counter.get_total_flops() >= 2 * 25 * 3 * 8


def test_signs_that_another_module_takes_are_exported(tmp_path, monkeypatch):
    (tmp_path / "taken_elsewhere.py").write_text(
        "import ftbnn\n\ndef codes(x):\n    return ftbnn.nn.sign(x, zero_one=True)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from taken_elsewhere import codes

    network = Forward(lambda m, x: m.conv(codes(x)), conv=BConv(4, 4))
    (operator,) = build_graph(network, torch.zeros(1, 4, 5, 5)).operators
    assert (type(operator).__name__, operator.zero_one) == ("BConv", True)


WITHOUT_EXTENSION = """
import sys
sys.modules["ftbnn._native"] = None
import ftbnn
nn = ftbnn.nn
import torch
from ftbnn.errors import UserError

network = torch.nn.Sequential(
    nn.PurifiedStem(3, 8), nn.Bridge(8, 12), nn.DuplicateReduction(12, groups=3, act="fprelu", follows_relu=False),
    nn.BasicBlock(24, act="relu", follows_relu=False), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
    torch.nn.Linear(24, 3))
assert ftbnn.count(network, (3, 16, 16)).bops > 0
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
images, labels, losses = torch.randn(6, 3, 16, 16), torch.arange(6) % 3, []
for _ in range(10):
    loss = torch.nn.functional.cross_entropy(network(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.8 * losses[0], losses
try:
    with nn.use_backend("native"):
        pass
except UserError as error:
    print(error)
"""


def test_layers_train_without_the_compiled_extension():
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTENSION], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("backend native needs the compiled extension, which is not installed here; torch does not\n")


def test_what_overflows_in_a_native_relu_is_not_hidden():
    """A ReLU is a slope of 0 there, and 0 * -inf is no number; PyTorch and the engine say 0."""
    block = BasicBlock(8, act="relu", follows_relu=False).eval()
    x = torch.ones(1, 8, 3, 3)
    x[0, 0, 1, 1] = -torch.inf
    assert block(x).isfinite().all()
    with use_backend("native"):
        out = block(x)
    assert out[0, 0, 1, 1].isnan()
    assert out.isnan().sum() == 1
    assert sign(x).isfinite().all()
