"""What runs beside us must be the same network: peers are checked against PyTorch and our own engine."""

import numpy as np
import pytest
import torch
from export_networks import build_small, make_dyadic, small_networks

from ftbnn.bench import pixels
from ftbnn.bench.peers.resnet18 import ResNet18
from ftbnn.bench.subject import open_subject
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import FPReLU
from ftbnn.packing import pack
from ftbnn.packing.graph_module import GraphModule
from ftbnn.packing.read import read_graph
from ftbnn.runtime import load

# Whole numbers and powers of two up to a global mean: what is left is the rounding of float32 after it.
EXACT = 1e-4
QUICK = [(name, stem) for name, stem in small_networks() if "34" not in name and "44" not in name]


def written(network, x, folder):
    """The network's file, and what PyTorch makes of x."""
    network = network.float().eval()
    pack(network, x.float(), folder / "network.ftbnn")
    with torch.no_grad():
        return folder / "network.ftbnn", network(x.float()).flatten(1).numpy()


@pytest.mark.parametrize(("name", "stem"), QUICK)
def test_a_file_as_pytorch_module_is_the_same_network(name, stem, tmp_path):
    network, x = build_small(name, stem)
    file, expected = written(make_dyadic(network), x, tmp_path)
    with torch.no_grad():
        found = GraphModule(read_graph(file))(x.float()).numpy()
    np.testing.assert_allclose(found, expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize(
    "name", ["ftbnn18-prelu", "ftbnn18", "ftbnn18-relu", "bireal18", "ftbnn-d18-g1-v24", "ftbnn-d18-g3-v24"]
)
@pytest.mark.parametrize("stem", ["small", "imagenet"])
def test_openvino_computes_the_same_binary_network(name, stem, tmp_path):
    pytest.importorskip("openvino")
    from ftbnn.bench.peers.openvino_binary import binary_model
    from ftbnn.bench.peers.openvino_cpu import compile_model

    network = make_dyadic(build(name, classes=3, stem=stem, width=None if "-d18" in name else 16).double())
    for layer in network.modules():
        if isinstance(layer, FPReLU):
            layer.right.data.fill_(1)  # a PReLU has no other slope
    side = 32 if stem == "small" else 64
    x = torch.randint(-3, 4, (2, 3, side, side)).double()
    file, expected = written(network, x, tmp_path)
    found = compile_model(binary_model(read_graph(file), batch=2), threads=1)(x.float().numpy())[0]
    np.testing.assert_allclose(found, expected, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(found, load(file, threads=1)(x.float().numpy()), rtol=EXACT, atol=EXACT)


def test_openvino_is_not_given_what_it_gets_wrong(tmp_path):
    pytest.importorskip("openvino")
    from ftbnn.bench.peers.openvino_binary import binary_model

    network, x = build_small("ftbnn18", "small")
    file, _ = written(network, x, tmp_path)
    with pytest.raises(UserError, match=r"multiple of 8; stage1.0.conv has 4"):
        binary_model(read_graph(file), batch=1)


def test_resnet18_in_onnx_is_resnet18(tmp_path):
    """fp32 to rounding; int8 to what 8 bits allow."""
    onnxruntime = pytest.importorskip("onnxruntime")
    subject = open_subject("ftbnn18", tmp_path, image_size=32, width=8)
    resnet = ResNet18(subject, tmp_path)
    images = np.random.default_rng(0).standard_normal((2, *subject.input_shape), np.float32)
    with torch.no_grad():
        expected = resnet.network(torch.from_numpy(images)).numpy()
    for path, tolerance in ((resnet.fp32, 1e-4), (resnet.int8, 0.3)):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        found = session.run(None, {"input": images})[0]
        assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_engines_normalise_pixels_alike(tmp_path):
    """Each with its own means, at the start of what it runs."""
    onnxruntime, openvino = pytest.importorskip("onnxruntime"), pytest.importorskip("openvino")
    import onnx

    from ftbnn.bench.peers import openvino_cpu
    from ftbnn.bench.peers.torch_eager import FromPixels
    from ftbnn.runtime import load

    plain = open_subject("ftbnn18", tmp_path, image_size=32, width=8)
    subject = open_subject("ftbnn18", tmp_path, image_size=32, width=8, stem_bits=8)
    assert plain.minimum_bytes - subject.minimum_bytes == 3 * 8 * 27 - 4 * 8
    assert open_subject(str(subject.file), tmp_path, image_size=None, width=None).minimum_bytes < plain.minimum_bytes
    images = pixels.random_images(2, subject.input_shape, is_pixels=True)
    scale, shift = pixels.scale_and_shift(3)
    normal = torch.from_numpy(images.transpose(0, 3, 1, 2) * scale + shift)
    resnet = ResNet18(subject, tmp_path)
    with torch.no_grad():
        expected = resnet.network(normal).numpy()
        np.testing.assert_allclose(
            FromPixels(resnet.network, 3)(torch.from_numpy(images)), expected, rtol=1e-4, atol=1e-4
        )
        np.testing.assert_allclose(load(subject.file)(images), subject.network(normal), rtol=1e-3, atol=1e-3)
    model = pixels.with_pixels(onnx.load(resnet.fp32)).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"pixels": images})[0], expected, rtol=1e-4, atol=1e-4)
    graph = openvino.Core().read_model(resnet.fp32)
    graph.reshape([2, *resnet.shape])
    request = openvino_cpu.compile_model(openvino_cpu.with_pixels(graph), 1).create_infer_request()
    np.testing.assert_allclose(request.infer(images)[0], expected, rtol=1e-3, atol=1e-3)
