"""The stem's convolution in training against NumPy in double precision; without PyTorch, so `make test-arm` runs it."""

import numpy as np
import pytest
from hypothesis import given, settings
from test_conv_grad import Conv, by_tap, convs, with_border

from ftbnn import _native

TOLERANCE = 1e-5  # float32, relative to the largest number


def arrays(**named: np.ndarray) -> dict[str, tuple[int, int]]:
    return {name: (array.ctypes.data, array.size) for name, array in named.items()}


@pytest.mark.parametrize("isa", _native.capabilities()["isas"])
@given(convs())
@settings(max_examples=40, deadline=None)
def test_a_real_convolution_and_its_weight_gradient(isa: str, conv: Conv) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FTBNN_ISA", isa)
        sizes = {"n": conv.n, "h": conv.h, "w": conv.w, "inputs": conv.inputs, "outputs": conv.outputs}
        window = {"kernel": conv.kernel, "stride": conv.stride, "padding": conv.padding}
        ours = _native.training.RealConv(**sizes, **window, weight_is_last=False)
    lot = np.random.default_rng(conv.seed)
    x = lot.standard_normal((conv.n, conv.h, conv.w, conv.inputs)).astype(np.float32)
    weight = lot.standard_normal((conv.outputs, conv.inputs, *conv.kernel)).astype(np.float32)
    out = np.empty((conv.n, *conv.out_size, conv.outputs), np.float32)
    grad, weight_grad = lot.standard_normal(out.shape).astype(np.float32), np.empty_like(weight)
    ours.forward(conv.threads, arrays(x=x, weight=weight, out=out))
    ours.backward(conv.threads, arrays(x=x, grad=grad, weight_grad=weight_grad))
    wanted, wanted_grad = np.zeros(out.shape), np.zeros(weight.shape)
    for ky, kx, seen in by_tap(conv, with_border(conv, x.astype(np.float64))):
        wanted += seen @ weight[:, :, ky, kx].T
        wanted_grad[:, :, ky, kx] = np.tensordot(grad, seen, ([0, 1, 2], [0, 1, 2]))
    for got, right in ((out, wanted), (weight_grad, wanted_grad)):
        assert np.abs(got - right).max() <= TOLERANCE * max(1.0, np.abs(right).max())
