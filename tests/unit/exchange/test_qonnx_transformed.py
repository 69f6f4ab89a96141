"""Brevitas networks in the forms that qonnx's and FINN's transformations give them: the same numbers from each."""

import contextlib
import io

import numpy as np
import pytest
import torch
from torch import nn

import ftbnn
from ftbnn.exchange.qonnx_import import file_images, import_qonnx
from ftbnn.exchange.qonnx_lower import lower
from ftbnn.exchange.qonnx_model import parse
from ftbnn.packing.graph import BConv, RoundedConv

onnx = pytest.importorskip("onnx")
pytest.importorskip("brevitas")
pytest.importorskip("qonnx")
pytestmark = pytest.mark.filterwarnings("ignore")

from brevitas.nn import QuantConv1d, QuantConv2d, QuantIdentity, QuantLinear  # noqa: E402
from qonnx.core.modelwrapper import ModelWrapper  # noqa: E402
from qonnx.transformation.batchnorm_to_affine import BatchNormToAffine  # noqa: E402
from qonnx.transformation.bipolar_to_xnor import ConvertBipolarMatMulToXnorPopcount  # noqa: E402
from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean  # noqa: E402
from qonnx.transformation.extract_quant_scale_zeropt import ExtractQuantScaleZeroPt  # noqa: E402
from qonnx.transformation.fold_constants import FoldConstants  # noqa: E402
from qonnx.transformation.gemm_to_matmul import GemmToMatMul  # noqa: E402
from qonnx.transformation.infer_datatypes import InferDataTypes  # noqa: E402
from qonnx.transformation.infer_shapes import InferShapes  # noqa: E402
from qonnx.transformation.insert_topk import InsertTopK  # noqa: E402
from qonnx.transformation.lower_convs_to_matmul import LowerConvsToMatMul  # noqa: E402
from qonnx.transformation.qonnx_to_qcdq import QuantToQCDQ  # noqa: E402
from qonnx.util.cleanup import cleanup_model  # noqa: E402
from test_brevitas import ACTS, Pixels, Residual, Weight1, Weight2, outputs, randomise  # noqa: E402

from ftbnn.exchange.brevitas import qonnx_of  # noqa: E402

FOLD = FoldConstants(exclude_op_types=[])
FORMS = {
    "clean": (),
    "channels last": (ConvertToChannelsLastAndClean(),),
    "channels last, images too": (ConvertToChannelsLastAndClean(make_input_channels_last=True),),
    "lowered": (FOLD, LowerConvsToMatMul(), InferShapes()),
    "lowered, affine": (FOLD, GemmToMatMul(), BatchNormToAffine(), LowerConvsToMatMul(), InferShapes()),
    "popcounts": (FOLD, InferDataTypes(), ConvertBipolarMatMulToXnorPopcount()),
    "QCDQ": (QuantToQCDQ(),),
    "scales by themselves": (ExtractQuantScaleZeroPt(),),
    "best class": (InsertTopK(),),
}


def maps(weight, act):
    """A pool, a depthwise layer, a residual sum, a stride, a dense end."""

    def conv(*sizes, **settings):
        return QuantConv2d(*sizes, bias=False, weight_quant=weight, **settings)

    inner = nn.Sequential(conv(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), act())
    layers = [QuantIdentity(act_quant=Pixels), conv(3, 8, 3, padding=1), nn.BatchNorm2d(8), act(), nn.MaxPool2d(2)]
    layers += [Residual(inner), act(), conv(8, 12, 3, stride=2), nn.BatchNorm2d(12), act(), nn.Flatten()]
    return nn.Sequential(*layers, QuantLinear(12 * 4, 5, bias=False, weight_quant=weight)), (3, 12, 12)


def series(weight, act):
    """Convolutions over time, as networks for radio signals have them."""
    first = QuantConv1d(2, 6, 3, padding=1, bias=False, weight_quant=weight)
    layers = [QuantIdentity(act_quant=Pixels), first, nn.BatchNorm1d(6), act(), nn.MaxPool1d(2), nn.Flatten()]
    return nn.Sequential(*layers, QuantLinear(6 * 8, 4, bias=False, weight_quant=weight)), (2, 16)


NETWORKS = {
    "maps, one bit": (maps, Weight1, "1"),
    "maps, two bits": (maps, Weight2, "relu 2"),
    "series, two bits": (series, Weight2, "2"),
}


def transformed(data, form):
    model = cleanup_model(ModelWrapper(onnx.load_from_string(data)))
    for step in FORMS[form]:
        model = model.transform(step)
    return model.model.SerializeToString()


@pytest.fixture(scope="module")
def made():
    """Each network, with its QONNX, once."""
    found = {}
    for name, (make, weight, act) in NETWORKS.items():
        net, shape = make(weight, ACTS[act])
        randomise(net, 3)
        images = torch.randint(-16, 17, (24, *shape), generator=torch.Generator().manual_seed(1)) / 8
        found[name] = net, images, qonnx_of(net, images)
    return found


# qonnx lowers convolutions of two sides only.
PAIRS = [(name, form) for name in NETWORKS for form in FORMS if not (name[0] == "s" and form.startswith("lowered"))]


@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_every_form_gives_the_same(name, form, made, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "IR_VERSION", 10)  # onnx may be newer than what ONNX Runtime reads
    net, images, data = made[name]
    with contextlib.redirect_stdout(io.StringIO()):
        data = transformed(data, form)
    model = parse(data)
    given = images.numpy() if model.shape[1] == images.shape[1] else np.moveaxis(images.numpy(), 1, -1)
    result = import_qonnx(data, tmp_path / "net.ftbnn", samples=given[:4])
    assert bool(result.notes) == (form == "best class")
    lowered = lower(model)
    assert np.array_equal(outputs(net, images), ftbnn.load(tmp_path / "net.ftbnn")(file_images(lowered, given)))
    if name == "maps, one bit":
        groups = [it.groups for it in lowered.graph.operators if isinstance(it, BConv | RoundedConv)]
        assert 8 in groups, "the depthwise layer is one, whatever it was written as"
