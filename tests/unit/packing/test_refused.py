import pytest
import torch
import torch.nn.functional as F
from export_networks import Forward
from torch import nn

from ftbnn.errors import UserError
from ftbnn.nn import BConv, FPReLU, Sign, Signs
from ftbnn.packing import ExportError, build_graph


def in_row(*layers):
    return nn.Sequential(*layers)


def branch(m, x):
    return m.conv(x) if x.sum() > 0 else x


def join_codes(m, x):
    return m.conv(torch.cat([m.a(x), m.b(x)], 1))


# (what, the text that names it), for an input of (1, 4, 6, 6).
REFUSED = [
    (in_row(nn.Conv2d(4, 4, 3, dilation=2)), "0: has dilation"),
    (in_row(nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")), "0: reflection_pad2d cannot be written"),
    (in_row(nn.Conv2d(4, 4, 1, padding=1)), "0: its padding"),
    (in_row(nn.MaxPool2d(65, 1, 32)), "0: its kernel"),
    (in_row(nn.MaxPool2d(2, dilation=2)), "0: has dilation"),
    (in_row(nn.MaxPool2d(2, return_indices=True)), "it must return one tensor"),
    (in_row(nn.ConvTranspose2d(4, 4, 2)), "0: is a transposed convolution"),
    (in_row(nn.Conv2d(4, 4, 1), in_row(nn.GELU())), "1.0: gelu cannot be written"),
    (in_row(nn.Softmax(1)), "0: softmax cannot be .* file; at the end of a network leave it out"),
    (in_row(nn.LogSoftmax(1)), "0: log_softmax cannot be .* file; at the end of a network leave it out"),
    (in_row(nn.LayerNorm([4, 6, 6])), "0: layer_norm cannot be written"),
    (Forward(lambda _, x: x.clamp(torch.zeros(4, 1, 1), torch.ones(4, 1, 1))), "clamp: clamps to tensors"),
    (Forward(lambda _, x: x.clamp(1, -1)), "clamp: clamps to between 1 and -1"),
    (Forward(lambda _, x: F.hardtanh(x, float("nan"), 1)), "clamps to between nan and 1|min_val|hardtanh"),
    (in_row(in_row(nn.Linear(6, 2))), "0.0: moves pixels|flatten: moves pixels|0.0: gives a tensor"),
    (in_row(nn.Conv2d(5, 4, 1)), "0: does not run on an input of 4x6x6"),
    (in_row(nn.BatchNorm2d(4, track_running_stats=False)), "0: normalises by the statistics"),
    (in_row(nn.AvgPool2d(3, 2, 1, ceil_mode=True)), "0: pads and has ceil_mode"),
    (in_row(nn.AvgPool2d(2, divisor_override=3)), "0: divides by 3"),
    (in_row(Sign(), nn.BatchNorm2d(4)), "1: reads the codes of a Sign"),
    (in_row(Sign(), FPReLU(4)), "1: reads the codes of a Sign"),
    (in_row(Sign()), "the output: reads the codes of a Sign"),
    (in_row(Sign(), BConv(4, 4, signs=Signs(mode="real"))), "1: has real weights and reads the codes"),
    (Forward(lambda m, x: m.sign(x) + x, sign=Sign()), "add: reads the codes of a Sign"),
    (Forward(join_codes, a=Sign(), b=Sign(zero_one=True), conv=BConv(8, 4)), "cat: joins codes of different kinds"),
    (Forward(join_codes, a=Sign(), b=nn.ReLU(), conv=BConv(8, 4)), "cat: joins codes of different kinds"),
    (Forward(branch, conv=nn.Conv2d(4, 4, 1)), "takes numbers out of a tensor"),
    (Forward(lambda _, x: x * x.mean().item()), "takes numbers out of a tensor"),
    (Forward(lambda _, x: x * float(x.mean())), "takes numbers out of a tensor"),
    (Forward(lambda _, x: F.dropout(x, 0.5)), "draws random numbers"),
    (Forward(lambda _, x: torch.sign(x)), "sign cannot be written"),
    (Forward(lambda _, x: x * x.mean((2,), keepdim=True)), "mean: takes a mean over the dimensions"),
    (Forward(lambda _, x: 1 / x), "reciprocal cannot be written"),
    (Forward(lambda _, x: F.conv2d(x, x[:1])), "conv2d: has weights that depend on the input"),
    (Forward(lambda _, x: F.conv2d(torch.ones(1, 4, 6, 6), x)), "conv2d: has weights that depend on the input"),
    (Forward(lambda _, x: x + F.avg_pool2d(x, (6, 1))), "add: spreads rows or columns"),
    (Forward(lambda _, x: x[:, :1] * torch.ones(4, 1, 1)), "mul: spreads a tensor"),
    (Forward(lambda _, x: x + torch.arange(6.0)), "add: its constant differs within a channel"),
    (Forward(lambda _, x: F.relu(x.transpose(2, 3))), "transpose: moves pixels"),
    (Forward(lambda _, x: F.relu(x[:, :, ::2])), "slice: moves pixels"),
    (Forward(lambda _, x: x.flip(0)), "flip: mixes the images"),
    (Forward(lambda _, x: F.relu(x.reshape(1, -1))), "flatten: gives a tensor of shape"),
    (Forward(lambda _, x: F.relu(x[:, None])), "gives a tensor of shape .N, 1, 4, 6, 6"),
    (Forward(lambda _, x: torch.cat([x, torch.zeros_like(x)], 1)), "zeros_like cannot be written"),
    (Forward(lambda _, x: torch.cat([x, torch.zeros(2, 1, 6, 6)], 1)), "cat: joins constants"),
    (Forward(lambda _, x: x.mean(1)), "mean: takes a mean over the dimensions .1."),
    (Forward(lambda _, x: x.to(torch.bfloat16)), "rounds to torch.bfloat16"),
    (Forward(lambda _, x: x.T), "permute: mixes the images|permute: gives"),
    (Forward(lambda _, x: (x, x)), "must return one tensor"),
    (Forward(lambda *_: torch.zeros(2, 3)), "the network: it must return one tensor that depends on"),
]


@pytest.mark.parametrize(("module", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_be_exported_is_named_in_one_line(module, message):
    with pytest.raises(ExportError, match=message) as caught:
        build_graph(module, torch.randn(1, 4, 6, 6))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("cannot export ")


ELSEWHERE = {
    "gelu": nn.GELU(),
    "softmax": nn.Softmax(1),
    "layer_norm": nn.LayerNorm([4, 6, 6]),
    "group_norm": nn.GroupNorm(2, 4),
    "transposed": nn.ConvTranspose2d(4, 4, 2),
    "dilation": BConv(4, 4, dilation=2, input=Sign()),
    "upsample": nn.Upsample(scale_factor=2),
    "pixel": in_row(nn.PixelUnshuffle(2), nn.ReLU()),
    "moves": in_row(nn.Flatten(), nn.Linear(144, 16), nn.Unflatten(1, (1, 4, 4)), nn.ReLU()),
    "divides": Forward(lambda _, x: x / torch.sigmoid(x)),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_errors_name_the_page_and_the_other_format(what):
    with pytest.raises(ExportError, match=what) as caught:
        build_graph(ELSEWHERE[what], torch.randn(1, 4, 6, 6))
    assert str(caught.value).endswith("(docs/export.md says what a .ftbnn file holds; ONNX holds more)")


@pytest.mark.parametrize("x", [torch.zeros(3, 8, 8), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)])
def test_an_example_that_is_no_batch_of_images_is_refused(x):
    with pytest.raises(UserError, match="float32 batch of images"):
        build_graph(nn.Conv2d(3, 4, 3), x)
