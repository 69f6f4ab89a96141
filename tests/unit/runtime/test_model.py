"""A model in other people's hands: layouts, `with`, and ONNX Runtime's way of calling."""

import numpy as np
import pytest
import torch
from PIL import Image

from ftbnn.errors import UserError
from ftbnn.packing import pack
from ftbnn.runtime import load

RANDOM = np.random.default_rng(0)
FLOATS = RANDOM.normal(size=(2, 3, 32, 32)).astype(np.float32)
BYTES = RANDOM.integers(0, 256, (2, 32, 32, 3), np.uint8)


@pytest.fixture(scope="module")
def model():
    return load("zoo:cifar10", threads=1)


def test_channels_may_be_where_the_layout_says(model):
    floats, pixels = model(FLOATS), model(BYTES)
    assert np.array_equal(model(FLOATS, layout="NCHW"), floats)
    assert np.array_equal(model(FLOATS.transpose(0, 2, 3, 1), layout="NHWC"), floats)
    assert np.array_equal(model(BYTES, layout="NHWC"), pixels)
    assert np.array_equal(model(BYTES.transpose(0, 3, 1, 2), layout="NCHW"), pixels)
    assert np.array_equal(model(BYTES[0].transpose(2, 0, 1), layout="NCHW"), pixels[:1])
    assert np.array_equal(model(list(BYTES.transpose(0, 3, 1, 2)), layout="NCHW"), pixels)
    assert model.top(BYTES.transpose(0, 3, 1, 2), 2, layout="NCHW") == model.top(BYTES, 2)
    with pytest.raises(UserError, match="float images must be"):
        model(FLOATS.transpose(0, 2, 3, 1))
    with pytest.raises(UserError, match="layout is 'NCHW' or 'NHWC'"):
        model(FLOATS, layout="CHWN")


@pytest.mark.parametrize(
    ("name", "shape", "kind", "layout", "message"),
    [
        (
            "mnist",
            (50, 28, 28),
            np.uint8,
            None,
            r"\(50, 28, 28\) is no image .* a batch of grey images is images\[\.\.\., None\]",
        ),
        (
            "mnist",
            (50, 28, 28),
            np.uint8,
            "NCHW",
            r"\(50, 28, 28\) is no image .* a batch of grey images is images\[:, None\]",
        ),
        ("cifar10", (2, 3, 32, 32), np.uint8, None, r'\(3, 32, 32\) is no .* come last: say layout="NCHW"'),
        ("cifar10", (32, 32, 3), np.uint8, "NCHW", r'\(32, 32, 3\) is no .* come first: say layout="NHWC"'),
        ("cifar10", (32, 32, 3), np.float32, "NHWC", r"\(N, 32, 32, 3\), not \(32, 32, 3\): give images\[None\]"),
        ("cifar10", (3, 32, 32), np.float32, None, r"\(N, 3, 32, 32\), not \(3, 32, 32\): give images\[None\]"),
        ("cifar10", (32, 32, 3), np.float32, None, r'say layout="NHWC" and give images\[None\]'),
        ("cifar10", (2, 32, 32, 3), np.float32, None, r'not \(2, 32, 32, 3\): say layout="NHWC"$'),
        ("cifar10", (2, 3, 32, 32), np.float32, "NHWC", r'not \(2, 3, 32, 32\): say layout="NCHW"$'),
        ("cifar10", (2, 3, 9, 9), np.float32, None, r"not \(2, 3, 9, 9\)$"),
        ("mnist", (5, 28, 28), np.float32, None, r"not \(5, 28, 28\): give images\[:, None\]"),
        ("mnist", (5, 28, 28), np.float32, "NHWC", r"not \(5, 28, 28\): give images\[\.\.\., None\]"),
        ("cifar10", (2, 3, 32, 32), np.float64, None, r"not float64: give images.astype\(np.float32\)"),
        (
            "cifar10",
            (2, 32, 32, 3),
            np.int64,
            None,
            r"not int64: give images.astype\(np.uint8\) if they are from 0 to 255",
        ),
    ],
)
def test_an_array_of_another_shape_or_type_is_told_how_to_become_images(name, shape, kind, layout, message):
    with pytest.raises(UserError, match=message) as caught:
        load(f"zoo:{name}", threads=1)(np.zeros(shape, kind), layout=layout)
    assert "\n" not in str(caught.value)


def test_what_the_errors_advise_works():
    model, grey = load("zoo:mnist", threads=1), RANDOM.integers(0, 256, (3, 28, 28), np.uint8)
    assert np.array_equal(model(grey[..., None]), model(list(grey)))
    assert np.array_equal(model(grey[:, None], layout="NCHW"), model(list(grey)))
    floats = grey.astype(np.float32) / 255
    assert np.array_equal(model(floats[:, None]), model(floats[..., None], layout="NHWC"))
    with pytest.raises(UserError, match=r"float32 \(1, 28, 28\): give floats as one array, np.stack\(images\)"):
        model(list(floats[:, None]))
    assert len(model.profile(grey[0][None], rounds=1, layout="NCHW")) == len(model.operators()) + 1


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize(("name", "side"), [("imagenette", 128), ("mnist", 28)])
def test_a_picture_of_the_very_size_is_taken_as_it_is_however_it_is_given(name, side, mode):
    """Its centre would be cut out of any other size: Imagenette's network cuts 128 pixels out of 146."""
    model = load(f"zoo:{name}", threads=1)
    numbers = RANDOM.integers(0, 256, (side, side, 4), np.uint8)
    picture = Image.fromarray(numbers).convert(mode)
    as_it_is = np.asarray(picture.convert("RGB").convert("L" if model.input_shape[0] == 1 else "RGB"))
    expected = model(as_it_is.reshape(1, side, side, -1))
    for given in (picture, np.asarray(picture), [np.asarray(picture)], np.asarray(picture).reshape(1, side, side, -1)):
        assert np.array_equal(model(given), expected)


def test_run_is_as_a_session_of_onnx_runtime(model):
    (scores,) = model.run(None, {"input": FLOATS})
    assert np.array_equal(scores, model(FLOATS))
    for outputs, feeds in ((None, {}), (None, {"a": FLOATS, "b": FLOATS}), (["a", "b"], {"input": FLOATS})):
        with pytest.raises(UserError, match="one input and one output"):
            model.run(outputs, feeds)
    with pytest.raises(UserError, match=r"^feeds are images under a name, .*, not of type ndarray$"):
        model.run(None, FLOATS)


def test_scores_that_overflow_are_blamed_on_floats_too(tmp_path):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    torch.nn.init.ones_(network[1].weight)
    pack(network, torch.zeros(1, 1, 8, 8), tmp_path / "sums.ftbnn")
    with pytest.raises(UserError, match=r"its weights, or floats of up to 3e\+38, are too large"):
        load(tmp_path / "sums.ftbnn").top(np.full((1, 1, 8, 8), -3e38, np.float32))


@pytest.mark.parametrize("size", [(0, 0), (0, 5)])
def test_a_picture_without_pixels_is_refused(model, size):
    with pytest.raises(UserError, match=rf"a picture of {size[0]} x {size[1]} pixels shows nothing"):
        model.top(Image.new("RGB", size))


def test_a_closed_model_says_so():
    with load("zoo:digits") as model:
        assert model(np.zeros((8, 8), np.uint8)).shape == (1, 10)
    model.close()
    assert "ftbnn18" in repr(model)
    with pytest.raises(UserError, match="this model is closed"):
        model(np.zeros((8, 8), np.uint8))
