"""The paper's formulation written plainly in PyTorch (its appendix D): what training costs without care.

Straight-through by detaching, one autograd node per arithmetic step, a float copy kept for each.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftbnn.nn import BConv, FPReLU, ScaledBConv, Sign


def _straight_through(x: Tensor, bound: float) -> Tensor:
    clipped = x.clamp(-bound, bound)
    return clipped + (torch.sign(x) - clipped).detach()


class PlainSign(nn.Module):
    def __init__(self, layer: Sign) -> None:
        super().__init__()
        self.bound = layer.bound

    def forward(self, x: Tensor) -> Tensor:
        return _straight_through(x, self.bound)


class PlainBConv(nn.Module):
    def __init__(self, layer: BConv) -> None:
        super().__init__()
        self.parts, self.bound, self.stride, self.padding = layer.parts, layer.bound, layer.stride, layer.padding
        self.weights = nn.ParameterList([nn.Parameter(layer.proxies(part).detach().clone()) for part in layer.parts])

    def forward(self, x: Tensor) -> Tensor:
        outputs = [
            F.conv2d(
                x[:, part.inputs],
                _straight_through(weight, self.bound),
                stride=self.stride,
                padding=self.padding,
                groups=part.groups,
            )
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)


class PlainScaledBConv(PlainBConv):
    def forward(self, x: Tensor) -> Tensor:
        scales = [weight.detach().abs().mean(dim=(1, 2, 3)) for weight in self.weights]
        return super().forward(x) * torch.cat(scales).view(1, -1, 1, 1)


class PlainFPReLU(nn.Module):
    def __init__(self, layer: FPReLU) -> None:
        super().__init__()
        self.left = nn.Parameter(layer.left.detach().clone().view(1, -1, 1, 1))
        self.right = nn.Parameter(layer.right.detach().clone().view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x * self.right, x * self.left)


PLAIN: dict[type[nn.Module], type[nn.Module]] = {
    Sign: PlainSign,
    BConv: PlainBConv,
    ScaledBConv: PlainScaledBConv,
    FPReLU: PlainFPReLU,
}


def plain(network: nn.Module) -> nn.Module:
    """A copy of the network, same weights, with our three layers in their plain form."""
    twin = copy.deepcopy(network)
    for path, module in list(twin.named_modules()):
        if (form := PLAIN.get(type(module))) is not None:
            parent, _, name = path.rpartition(".")
            setattr(twin.get_submodule(parent), name, form(module))
    return twin
