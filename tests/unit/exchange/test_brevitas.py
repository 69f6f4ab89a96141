"""Networks made with Brevitas: their files give what Brevitas' own forward gives, in every number."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import ftbnn

brevitas = pytest.importorskip("brevitas")
pytest.importorskip("onnxoptimizer")
pytest.importorskip("qonnx")
pytestmark = pytest.mark.filterwarnings("ignore")

from brevitas.core.bit_width import BitWidthImplType  # noqa: E402
from brevitas.core.restrict_val import RestrictValueType  # noqa: E402
from brevitas.core.scaling import ScalingImplType  # noqa: E402
from brevitas.core.zero_point import ZeroZeroPoint  # noqa: E402
from brevitas.inject import ExtendedInjector  # noqa: E402
from brevitas.inject.enum import FloatToIntImplType, QuantType  # noqa: E402
from brevitas.nn import QuantConv2d, QuantIdentity, QuantLinear, QuantReLU  # noqa: E402
from brevitas.quant.solver import ActQuantSolver, WeightQuantSolver  # noqa: E402

from ftbnn.exchange.brevitas import from_brevitas  # noqa: E402


class Common(ExtendedInjector):
    bit_width_impl_type = BitWidthImplType.CONST
    scaling_impl_type = ScalingImplType.CONST
    restrict_scaling_type = RestrictValueType.FP
    zero_point_impl = ZeroZeroPoint
    float_to_int_impl_type = FloatToIntImplType.ROUND
    scaling_per_output_channel = False
    narrow_range = True
    signed = True
    scaling_const = 1.0  # of weights
    min_val, max_val = -1.0, 1.0  # of activations


class Weight1(Common, WeightQuantSolver):
    quant_type, bit_width = QuantType.BINARY, 1


class Weight2(Common, WeightQuantSolver):
    quant_type, bit_width = QuantType.INT, 2


class Act1(Common, ActQuantSolver):
    quant_type, bit_width = QuantType.BINARY, 1


class Act2(Common, ActQuantSolver):
    quant_type, bit_width = QuantType.INT, 2


class Pixels(Common, ActQuantSolver):
    """Eight bits, as FINN's CNV takes its images."""

    quant_type, bit_width, narrow_range = QuantType.INT, 8, False
    restrict_scaling_type = RestrictValueType.POWER_OF_TWO
    max_val = 1.0 - 2.0**-7


class Residual(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, x):
        return self.inside(x) + x


ACTS = {
    "1": lambda: QuantIdentity(act_quant=Act1),
    "2": lambda: QuantIdentity(act_quant=Act2),
    "relu 2": lambda: QuantReLU(bit_width=2, scaling_impl_type="const", max_val=3.0, restrict_scaling_type="fp"),
}


@st.composite
def networks(draw):
    """(module, image shape): odd channels, groups, strides, 1x1 and 3x3, max-pools, residual sums, dense ends."""
    weight, act = draw(st.sampled_from([Weight1, Weight2])), ACTS[draw(st.sampled_from(sorted(ACTS)))]
    channels, side = draw(st.integers(1, 5)), draw(st.integers(6, 9))
    layers: list[nn.Module] = [draw(st.sampled_from([ACTS["1"], lambda: QuantIdentity(act_quant=Pixels)]))()]
    shape, width = (channels, side, side), channels
    for _ in range(draw(st.integers(1, 3))):
        groups = draw(st.sampled_from([1, 1, 2]))
        out = draw(st.integers(1, 9))
        kernel, stride = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 1, 2]))
        if width % 2 or out % 2:
            groups = 1
        padding = kernel // 2 if side < 5 else draw(st.integers(0, kernel // 2))
        conv = QuantConv2d(width, out, kernel, stride, padding, groups=groups, bias=False, weight_quant=weight)
        layers += [conv, nn.BatchNorm2d(out)]
        width, side = out, (side + 2 * padding - kernel) // stride + 1
        if draw(st.booleans()):
            inner = QuantConv2d(width, width, 3, padding=1, bias=False, weight_quant=weight)
            layers.append(Residual(nn.Sequential(act(), inner, nn.BatchNorm2d(width))))
        layers.append(act())
        if side >= 4 and draw(st.booleans()):
            layers.append(nn.MaxPool2d(2))
            side //= 2
    layers += [nn.Flatten(), QuantLinear(width * side * side, draw(st.integers(2, 6)), bias=False, weight_quant=weight)]
    return nn.Sequential(*layers), shape


def randomise(net, seed):
    """Numbers that floats add and multiply exactly: powers of two, and a deviation that makes sqrt(var + eps) one."""
    random = torch.Generator().manual_seed(seed)

    def choose(options, like):
        return torch.tensor(options)[torch.randint(len(options), like.shape, generator=random)].to(like)

    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
            layer.eps = 0.0
            layer.weight.data = choose([-1.0, -0.5, 0.25, 0.5, 1.0], layer.weight)
            layer.bias.data = choose([-1.0, -0.25, 0.0, 0.5], layer.bias)
            layer.running_mean = choose([-2.0, -1.0, 0.0, 0.5, 3.0], layer.running_mean)
            layer.running_var = choose([0.25, 1.0, 4.0], layer.running_var)
        if isinstance(layer, QuantConv2d | QuantLinear):
            layer.weight.data = torch.rand(layer.weight.shape, generator=random) * 2 - 1


def outputs(net, images):
    with torch.no_grad():
        made = net.eval()(images)
    return (made.value if hasattr(made, "value") else made).numpy()


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(networks(), st.integers(0, 2**31))
def test_random_networks(tmp_path_factory, network, seed):
    net, shape = network
    randomise(net, seed)
    images = torch.randint(-16, 17, (16, *shape), generator=torch.Generator().manual_seed(seed)) / 8
    path = tmp_path_factory.mktemp("brevitas") / "net.ftbnn"
    from_brevitas(net, images, path, samples=images.numpy())
    assert np.array_equal(outputs(net, images), ftbnn.load(path)(images.numpy()))


@pytest.mark.parametrize(("weight", "act"), [(Weight1, Act1), (Weight1, Act2), (Weight2, Act2)])
def test_a_network_like_finns_cnv(weight, act, tmp_path):
    """Eight-bit images, convolutions without padding, pools, dense layers, trained statistics: same classes, too."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [QuantIdentity(act_quant=Pixels)]
    before = 3
    for outs, pools in ((8, False), (8, True), (12, False), (12, True)):
        layers += [QuantConv2d(before, outs, 3, bias=False, weight_quant=weight), nn.BatchNorm2d(outs, eps=1e-4)]
        layers += [QuantIdentity(act_quant=act), *([nn.MaxPool2d(2)] if pools else [])]
        before = outs
    layers += [nn.Flatten(), QuantLinear(before * 9, 16, bias=False, weight_quant=weight), nn.BatchNorm1d(16)]
    layers += [QuantIdentity(act_quant=act), QuantLinear(16, 10, bias=False, weight_quant=weight)]
    net = nn.Sequential(*layers)
    images = torch.rand(64, 3, 24, 24) * 2 - 1
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, QuantConv2d | QuantLinear):
                layer.weight.uniform_(-1, 1)
            if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
                layer.weight.normal_()
        for _ in range(10):
            net.train()(images)
    made = from_brevitas(net, images, tmp_path / "cnv.ftbnn", mean=0.5, std=0.5)
    assert made.same_class == 1
    assert np.array_equal(outputs(net, images), ftbnn.load(tmp_path / "cnv.ftbnn")(images.numpy()))


@pytest.mark.parametrize("name", ["tfc_1w1a", "tfc_1w2a", "tfc_2w2a", "cnv_1w1a", "cnv_1w2a"])
def test_finns_own_networks(name, tmp_path):
    """As Brevitas ships them, with random weights: every output the same but for rounding."""
    models = pytest.importorskip("brevitas_examples.bnn_pynq.models")
    torch.manual_seed(0)
    net, config = models.model_with_cfg(name, False)
    channels = config.getint("MODEL", "IN_CHANNELS")
    images = torch.rand(32, channels, *[32 if channels == 3 else 28] * 2)
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
                layer.weight.normal_()
                layer.bias.normal_()
        for _ in range(3):
            net.train()(images)
    made = from_brevitas(net, images, tmp_path / "net.ftbnn", samples=images[:4].numpy())
    assert made.same_class == made.same_outputs == 1
    expected, found = outputs(net, images), ftbnn.load(tmp_path / "net.ftbnn")(images.numpy())
    assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()


def test_what_cannot_be_held_is_one_line(tmp_path):
    net = nn.Sequential(QuantConv2d(3, 4, 3, weight_quant=Weight1, bias=False), nn.GELU())
    with pytest.raises(ftbnn.UserError, match=r"cannot import (Gelu|Erf)"):
        from_brevitas(net, torch.zeros(1, 3, 5, 5), tmp_path / "net.ftbnn")
