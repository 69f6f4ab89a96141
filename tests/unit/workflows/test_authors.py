"""Checkpoints of other people's code: dictionaries of their names and shapes, and what their forward computes."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from ftbnn.errors import UserError
from ftbnn.packing import pack
from ftbnn.runtime import load
from ftbnn.workflows.authors import from_authors

WIDTH, CLASSES = 4, 5
ROUNDING = 1e-4


def numbers(*shape, positive=False):
    made = torch.randn(shape) if shape else torch.randn(1)
    return made.abs() + 0.5 if positive else made


def norm(state, name, channels):
    for part in ("weight", "running_var"):
        state[f"{name}.{part}"] = numbers(channels, positive=True)
    for part in ("bias", "running_mean"):
        state[f"{name}.{part}"] = 0.3 * numbers(channels)
    state[f"{name}.num_batches_tracked"] = torch.tensor(3)


def stem_and_head(state, kernel, features, head="fc"):
    state["conv1.weight"] = 0.3 * numbers(WIDTH, 3, kernel, kernel)
    norm(state, "bn1", WIDTH)
    state[f"{head}.weight"], state[f"{head}.bias"] = numbers(CLASSES, features), numbers(CLASSES)


def one_convolution(kind):
    """Bi-Real Net's and ReActNet's: a block has one convolution."""
    state = {}
    stem_and_head(state, 7, 8 * WIDTH)
    for stage in range(1, 5):
        for block in range(4):
            out = WIDTH * 2 ** (stage - 1)
            inside = out // 2 if stage > 1 and block == 0 else out
            at = f"layer{stage}.{block}"
            if kind == "bireal":
                state[f"{at}.binary_conv.weights"] = numbers(out * inside * 9, 1)
            else:
                state[f"{at}.binary_conv.weight"] = numbers(out, inside, 3, 3)
                state[f"{at}.move0.bias"] = 0.2 * numbers(1, inside, 1, 1)
                state |= {f"{at}.move{k}.bias": 0.2 * numbers(1, out, 1, 1) for k in (1, 2)}
                state[f"{at}.prelu.weight"] = numbers(out, positive=True)
            norm(state, f"{at}.bn1", out)
            if inside != out:
                state[f"{at}.downsample.1.weight"] = 0.3 * numbers(out, inside, 1, 1)
                norm(state, f"{at}.downsample.2", out)
    return state


def two_convolutions(kind, *, stages=4, blocks=2):
    """IR-Net's and ReCU's: a block has two."""
    is_small = stages == 3
    state, last = {}, WIDTH * 2 ** (stages - 1)
    stem_and_head(state, 3 if is_small else 7, last, "linear" if is_small else "fc")
    norm(state, "bn2", last)
    for stage in range(1, stages + 1):
        for block in range(blocks):
            out = WIDTH * 2 ** (stage - 1)
            inside = out // 2 if stage > 1 and block == 0 else out
            at = f"layer{stage}.{block}"
            for k, channels in ((1, inside), (2, out)):
                state[f"{at}.conv{k}.weight"] = numbers(out, channels, 3, 3)
                if kind == "recu":
                    state[f"{at}.conv{k}.alpha"] = numbers(out, 1, 1)
                    state[f"{at}.conv{k}.tau"] = torch.tensor(0.99)
                norm(state, f"{at}.bn{k}", out)
            if inside != out and not is_small:
                state[f"{at}.downsample.0.weight"] = 0.3 * numbers(out, inside, 1, 1)
                norm(state, f"{at}.downsample.1", out)
    return state


class Reference:
    """What their code computes in evaluation, written anew from its description."""

    def __init__(self, state, kind):
        self.state, self.kind = state, kind

    def norm(self, x, name):
        s = {part: self.state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")}
        return F.batch_norm(x, s["running_mean"], s["running_var"], s["weight"], s["bias"])

    def convolve(self, x, weight, stride, name):
        codes = torch.sign(x)
        if self.kind in ("bireal", "reactnet"):
            scale = weight.abs().mean((1, 2, 3))
            return F.conv2d(codes, torch.sign(weight), stride=stride, padding=1) * scale.view(-1, 1, 1)
        centred = weight - weight.mean((1, 2, 3), keepdim=True)
        out = F.conv2d(codes, torch.sign(centred), stride=stride, padding=1)
        if self.kind == "recu":
            return out * self.state[f"{name}.alpha"]
        deviation = centred.flatten(1).std(1)
        power = 2 ** (centred.flatten(1).abs().mean(1) / deviation).log2().round()
        return out * power.view(-1, 1, 1)

    def shortcut(self, x, at, out):
        if f"{at}.downsample.1.weight" in self.state and f"{at}.downsample.0.weight" not in self.state:
            return self.norm(
                F.conv2d(F.avg_pool2d(x, 2), self.state[f"{at}.downsample.1.weight"]), f"{at}.downsample.2"
            )
        if f"{at}.downsample.0.weight" in self.state:
            return self.norm(F.conv2d(x, self.state[f"{at}.downsample.0.weight"], stride=2), f"{at}.downsample.1")
        if x.shape[1] == out:
            return x
        small = F.avg_pool2d(x, 2) if self.kind == "recu" else x[:, :, ::2, ::2]
        return F.pad(small, (0, 0, 0, 0, out // 4, out // 4))

    def __call__(self, x):
        state, is_small = self.state, "linear.weight" in self.state
        x = F.conv2d(x, state["conv1.weight"], stride=1 if is_small else 2, padding=1 if is_small else 3)
        x = self.norm(x, "bn1")
        bounded = self.kind in ("irnet", "recu")
        x = F.hardtanh(x) if bounded else x
        x = x if is_small else F.max_pool2d(x, 3, 2, 1)
        blocks = sorted({tuple(name.split(".")[:2]) for name in state if name.startswith("layer")})
        for stage, block in blocks:
            at = f"{stage}.{block}"
            halves = stage != "layer1" and block == "0"
            for k in (1, 2) if bounded else (1,):
                stride = 2 if halves and k == 1 else 1
                out = len(state[f"{at}.bn{k}.weight"])
                residual = self.shortcut(x, at, out) if k == 1 else x
                if bounded:
                    name = f"{at}.conv{k}"
                    x = F.hardtanh(
                        self.norm(self.convolve(x, state[f"{name}.weight"], stride, name), f"{at}.bn{k}") + residual
                    )
                    continue
                moved = x + state[f"{at}.move0.bias"] if self.kind == "reactnet" else x
                weight = state.get(f"{at}.binary_conv.weight")
                weight = state[f"{at}.binary_conv.weights"].view(out, x.shape[1], 3, 3) if weight is None else weight
                x = self.norm(self.convolve(moved, weight, stride, at), f"{at}.bn1") + residual
                if self.kind == "reactnet":
                    x = F.prelu(x + state[f"{at}.move1.bias"], state[f"{at}.prelu.weight"]) + state[f"{at}.move2.bias"]
        x = x.mean((2, 3))
        x = self.norm(x, "bn2") if bounded else x
        head = "linear" if is_small else "fc"
        return F.linear(x, state[f"{head}.weight"], state[f"{head}.bias"])


CASES = {
    "bireal": lambda: one_convolution("bireal"),
    "reactnet": lambda: one_convolution("reactnet"),
    "irnet": lambda: two_convolutions("irnet"),
    "irnet, resnet20": lambda: two_convolutions("irnet", stages=3, blocks=3),
    "recu": lambda: two_convolutions("recu"),
    "recu, resnet20": lambda: two_convolutions("recu", stages=3, blocks=3),
}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_computes_what_its_authors_code_does(case, tmp_path):
    torch.manual_seed(0)
    state, side = CASES[case](), 16 if "20" in case else 64
    network = from_authors({"epoch": 3, "state_dict": {f"module.{name}": tensor for name, tensor in state.items()}})
    x = torch.randn(2, 3, side, side)
    with torch.no_grad():
        found, expected = network(x), Reference(state, case.partition(",")[0])(x)
    torch.testing.assert_close(found, expected, rtol=ROUNDING, atol=ROUNDING * expected.abs().max().item())
    torch.save({"state_dict": state}, tmp_path / "theirs.pth.tar")
    again = from_authors(tmp_path / "theirs.pth.tar")
    with torch.no_grad():
        assert torch.equal(again(x), found)
    pack(again, x, tmp_path / "network.ftbnn")
    ours = torch.from_numpy(load(tmp_path / "network.ftbnn", threads=1)(x.numpy()))
    torch.testing.assert_close(ours, found, rtol=ROUNDING, atol=ROUNDING * expected.abs().max().item())


def test_the_page_goes_from_a_checkpoint_to_a_file(tmp_path, monkeypatch):
    page = Path(__file__).parents[3] / "docs/methods.md"
    lines = re.search(r"```python\n(import ftbnn\nfrom ftbnn.workflows.authors.*?)```", page.read_text(), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": one_convolution("bireal")}, "model_best.pth.tar")
    exec(lines, {})
    assert load(tmp_path / "x.ftbnn").input_shape == (3, 224, 224)


def test_weights_that_are_exactly_zero_are_said():
    state = one_convolution("reactnet")
    state["layer1.0.binary_conv.weight"][0, 0, 0, 0] = 0
    with pytest.warns(UserWarning, match="1 binary weights are exactly 0"):
        from_authors(state)


def test_what_is_no_such_checkpoint_is_said(tmp_path):
    (tmp_path / "no.pth").write_bytes(b"no")
    with pytest.raises(UserError, match="cannot be read"):
        from_authors(tmp_path / "no.pth")
    with pytest.raises(UserError, match="holds no state dict"):
        from_authors({"state_dict": {}})
    with pytest.raises(UserError, match="no checkpoint of"):
        from_authors({"features.0.weight": torch.zeros(1)})
    state = two_convolutions("recu")
    with pytest.raises(UserError, match="one shortcut around two"):
        from_authors(state | {"layer2.0.shortcut.0.weight": torch.zeros(1)})
    with pytest.raises(UserError, match=r"it has layer2.0.extra"):
        from_authors(state | {"layer2.0.extra": torch.zeros(1)})
    del state["layer3.1.bn2.weight"]
    with pytest.raises(UserError, match=r"stage3.3.norm.weight is only in this network"):
        from_authors(state)
    with pytest.raises(UserError, match=r"its stage1.0.conv.weight is \[7, 1\]"):
        from_authors(one_convolution("bireal") | {"layer1.0.binary_conv.weights": torch.zeros(7, 1)})
