"""A model in other people's hands: layouts, `with`, and ONNX Runtime's way of calling."""

import numpy as np
import pytest
from PIL import Image

from ftbnn.errors import UserError
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


def test_a_closed_model_says_so():
    with load("zoo:digits") as model:
        assert model(np.zeros((8, 8), np.uint8)).shape == (1, 10)
    model.close()
    assert "ftbnn18" in repr(model)
    with pytest.raises(UserError, match="this model is closed"):
        model(np.zeros((8, 8), np.uint8))
