import torch
import torch.nn.functional as F
from arrays import dense_weight
from hypothesis import given
from hypothesis import strategies as st

from ftbnn.groups import split_groups
from ftbnn.nn import BConv, Signs


@st.composite
def convolutions(draw):
    inputs, outputs = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    return BConv(
        inputs,
        outputs,
        kernel_size=kernel,
        stride=draw(st.integers(1, 3)),
        padding=draw(st.tuples(st.integers(0, 2), st.integers(0, 2))),
        groups=draw(st.integers(1, min(inputs, outputs))),
        signs=Signs(mode=draw(st.sampled_from(["binary", "real"]))),
    ).double()


@given(convolutions(), st.integers(3, 8), st.integers(3, 8))
def test_any_grouping_equals_a_dense_convolution_with_zeros_forward_and_backward(conv, height, width):
    x = torch.randn(2, conv.in_channels, height, width, dtype=torch.float64, requires_grad=True)
    out = conv(x)
    dense = dense_weight(conv)
    expected = F.conv2d(x, dense, stride=conv.stride, padding=conv.padding)
    torch.testing.assert_close(out, expected)

    incoming = torch.randn_like(out)
    parameters = list(conv.parameters())
    ours = torch.autograd.grad(out, [x, *parameters], incoming)
    theirs = torch.autograd.grad(expected, [x, *parameters], incoming)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_groups_cover_all_channels_once_and_only_the_last_differs(inputs, outputs, data):
    groups = data.draw(st.integers(1, min(inputs, outputs)))
    sizes = []
    for part in split_groups(inputs, outputs, groups):
        per_in = (part.inputs.stop - part.inputs.start) / part.groups
        per_out = (part.outputs.stop - part.outputs.start) / part.groups
        sizes += [(per_in, per_out)] * part.groups
    assert len(sizes) == groups
    assert sum(size for size, _ in sizes) == inputs
    assert sum(size for _, size in sizes) == outputs
    assert all(size == (inputs // groups, outputs // groups) for size in sizes[:-1])
