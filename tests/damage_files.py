"""Small .ftbnn files for damage.cc: between them every operator kind, both codes, uneven groups, all versions."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ftbnn.models import build
from ftbnn.packing import pack
from ftbnn.packing.graph import Graph, Steps, Value
from ftbnn.packing.write import InputInfo, encode

torch.manual_seed(0)
folder = Path(sys.argv[1])
for name, options in {
    "ftbnn18": {"width": 2, "stem": "imagenet"},
    "bireal18": {"width": 2, "stem": "small", "stem_bits": 8},
    "ftbnn-d18-g1-v2": {"stem": "imagenet", "stem_bits": 16},
    "ftbnn-d18-g3-v3": {"stem": "small"},
    "toy-relu": {"width": 4},
}.items():
    network = build(name, classes=3, **options).eval()
    images = torch.zeros(1, *((1, 28, 28) if name.startswith("toy") else (3, 32, 32)))
    pack(network, images, folder / f"{name}.ftbnn", class_names=["a", "b", "c"])
for method in ("reactnet", "irnet", "xnor-k", "xnorpp", "xnorpp-4"):
    sized = {"image_size": 16} if method == "xnorpp-4" else {}
    network = build("ftbnn18", classes=3, width=2, stem="small", method=method, **sized).eval()
    pack(network, torch.zeros(1, 3, 16, 16), folder / f"{method}.ftbnn")
curves = [nn.Hardswish(), nn.Hardsigmoid(), nn.Sigmoid(), nn.SiLU(), nn.Tanh(), nn.ReLU6()]
pack(nn.Sequential(*curves), torch.zeros(1, 3, 4, 4), folder / "curves.ftbnn")
image, counts = Value(2, 3, 3), Value(2, 3, 3)
steps = Steps("steps", (image,), counts, thresholds=np.array([[-1.0, 0.0, 0.5], [0.0, 0.0, 2.0]], np.float32))
(folder / "steps.ftbnn").write_bytes(encode(Graph(image, counts, (steps,)), InputInfo("", (0, 0), (1, 1), 3, ())))
