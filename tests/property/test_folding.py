"""Folding keeps the function, whatever graph it is given."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plans import Draft

from ftbnn.packing.fold import fold
from ftbnn.packing.graph import Epilogue, Graph, Pointwise, Value
from ftbnn.packing.graph_module import GraphModule

ROUNDING = 1e-5  # of sums in another order


class Steps(Draft):
    """As converters make them: an operator and what follows it, one step after the other."""

    def epilogue(self, output: Value) -> Epilogue:
        rng, channels = self.rng, output.channels
        same = [v for v in self.values if (v.channels, v.height, v.width) == (channels, output.height, output.width)]
        lot = rng.choice(
            ["scale", "shift", "shortcut", "relu", "prelu", "fprelu", "clamp"], p=[0.2, 0.1, 0.3, *[0.1] * 4]
        )
        if lot == "shortcut":
            return Epilogue(shortcut=same[int(rng.integers(len(same)))] if same else None)
        if lot in ("scale", "shift"):
            return Epilogue(**{str(lot): rng.choice([-1.0, 0.5, 1.0, 2.0], channels)})
        ends = {"low": -8.0, "high": 8.0} if lot == "clamp" else {}
        slopes = {"left": rng.choice([-1.0, 0.0, 0.5], channels)} if lot in ("prelu", "fprelu") else {}
        if lot == "fprelu":
            slopes["right"] = rng.choice([-1.0, 0.5, 1.0], channels)
        return Epilogue(act=lot, **slopes, **ends)

    def grow(self) -> None:
        first = len(self.operators)
        super().grow()
        made = self.operators[first:]
        if made and hasattr(made[0], "epilogue") and not isinstance(made[0], Pointwise):
            made[0].epilogue = Epilogue()
        for _ in range(int(self.rng.integers(0, 4))):
            value = self.values[-1]
            output = Value(value.channels, value.height, value.width)
            self.add(Pointwise, (value,), output, epilogue=self.epilogue(output))


class Chains(Steps):
    """As anybody may write a file: whole epilogues too, first pieces alone among them."""

    def epilogue(self, output: Value) -> Epilogue:
        lot = self.rng.random()
        if lot < 0.5:
            return super().epilogue(output)
        if lot < 0.75:
            return Draft.epilogue(self, output)
        slopes = {name: self.rng.choice([-1.0, 0.5, 1.0], output.channels) for name in ("first_left", "first_right")}
        return Epilogue(**slopes)


def outputs(graph: Graph, images: torch.Tensor) -> torch.Tensor:
    return GraphModule(graph).double()(images)


@pytest.mark.parametrize("draft_of", [Steps, Chains])
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_function_stays(draft_of, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draft = draft_of(rng, Value(int(rng.choice([1, 3, 8])), *map(int, rng.integers(2, 7, 2))))
    for _ in range(int(rng.integers(2, 8))):
        draft.grow()
    graph = draft.finish()
    entry = graph.input
    images = torch.from_numpy(rng.integers(-3, 4, (3, entry.channels, entry.height, entry.width))).double()
    wanted = outputs(graph, images)
    count = len(graph.operators)
    folded = fold(graph)
    bound = ROUNDING * float(wanted.abs().max())
    torch.testing.assert_close(outputs(folded, images), wanted, rtol=ROUNDING, atol=bound)
    assert len(folded.operators) <= count
