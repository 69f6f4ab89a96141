import numpy as np
import pytest
import torch
from arrays import dense_weight
from export_networks import export_and_read
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ftbnn.nn import BConv, MeanScaledSigns, Sign
from ftbnn.packing.write import pack


def test_bits_run_over_inputs_then_taps_then_outputs_from_the_lowest_bit():
    weight = np.zeros((2, 3, 1, 2), dtype=bool)
    weight[0, 0, 0, 0] = True  # bit 0
    weight[0, 2, 0, 0] = True  # bit 2
    weight[0, 1, 0, 1] = True  # bit 4
    weight[1, 2, 0, 1] = True  # bit 11
    assert pack([weight]) == bytes([0b00010101, 0b00001000])


def test_the_last_byte_is_filled_with_zeros():
    assert pack([np.ones((1, 3, 3, 1), dtype=bool)]) == bytes([0xFF, 0x01])


def test_parts_follow_each_other_without_a_gap():
    head, tail = np.ones((2, 1, 1, 1), dtype=bool), np.array([0, 1, 1], dtype=bool).reshape(1, 3, 1, 1)
    assert pack([head, tail]) == bytes([0b00011011])


def dense(operator, shape):
    """The weights of the file as dense_weight gives the layer's."""
    result, row, column = torch.zeros(shape, dtype=torch.float64), 0, 0
    for block in operator.weights:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return result


@given(
    inputs=st.integers(1, 20),
    outputs=st.integers(1, 20),
    groups=st.integers(1, 20),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    real=st.booleans(),
)
def test_any_groups_survive_the_file(inputs, outputs, groups, kernel, real):
    groups = min(groups, inputs, outputs)
    conv = BConv(inputs, outputs, kernel_size=kernel, groups=groups)
    module = nn.Sequential(conv) if real else nn.Sequential(Sign(), conv)
    (operator,) = export_and_read(module, torch.zeros(1, inputs, 5, 5)).operators
    assert operator.kind == ("rounded conv" if real else "bconv")
    assert torch.equal(dense(operator, dense_weight(conv).shape), dense_weight(conv).double())


@pytest.mark.parametrize("groups", [1, 3])
def test_scaling_factors_go_into_the_scale(groups):
    conv = BConv(8, 7, groups=groups, signs=MeanScaledSigns())
    (operator,) = export_and_read(nn.Sequential(Sign(zero_one=True), conv), torch.zeros(1, 8, 4, 4)).operators
    assert operator.zero_one
    found = dense(operator, dense_weight(conv).shape) * operator.scale.reshape(-1, 1, 1, 1)
    assert torch.equal(found, dense_weight(conv).double())
