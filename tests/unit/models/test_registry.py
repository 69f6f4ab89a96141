import pytest
import torch
from torch import nn

from ftbnn.errors import UserError
from ftbnn.models import REGISTRY, build, find
from ftbnn.models.skeleton import skeleton
from ftbnn.nn import BConv, FPReLU, Sign


@pytest.mark.parametrize("name", REGISTRY)
def test_every_network_builds_for_any_classes_and_channels_and_runs(name):
    with skeleton():
        module = build(name, classes=7, in_channels=2)
        out = module(torch.empty(2, 2, 64, 64))
    assert out.shape == (2, 7)


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if entry.has_stems])
def test_small_stem_keeps_the_resolution(name):
    sizes = []
    with skeleton():
        module = build(name, stem="small", classes=10)
        first = module.stem if hasattr(module, "stem") else module.maxpool
        first.register_forward_hook(lambda *args: sizes.append(tuple(args[2].shape[2:])))
        module(torch.empty(1, 3, 32, 32))
    assert sizes == [(32, 32)]


def acts_of(name):
    with skeleton():
        module = build(name)
    acts = [m for path, m in module.named_modules() if path.startswith("stage") and path.endswith(".act")]
    return [type(act) for act in acts]


@pytest.mark.parametrize(
    ("name", "inside", "end"),
    [
        ("ftbnn18", FPReLU, nn.ReLU),
        ("ftbnn34", FPReLU, nn.ReLU),
        ("ftbnn18-none", nn.Identity, nn.Identity),
        ("ftbnn18-prelu", nn.PReLU, nn.PReLU),
        ("ftbnn18-fprelu", FPReLU, FPReLU),
        ("ftbnn18-relu", nn.ReLU, nn.ReLU),
        ("ftbnn18-stage-relu", nn.Identity, nn.ReLU),
        ("ftbnn18-stage-relu-prelu", nn.PReLU, nn.ReLU),
        ("bireal18", nn.Identity, nn.Identity),
        ("ftbnn-d44-g5-135m", FPReLU, nn.ReLU),
    ],
)
def test_non_linearities_stand_where_the_paper_puts_them(name, inside, end):
    depth = {"34": (6, 8, 12, 6), "44": (8, 10, 14, 10)}.get(name[5:7] if "-d" not in name else name[7:9], (4,) * 4)
    expected = [kind for blocks in depth for kind in [inside] * (blocks - 1) + [end]]
    assert acts_of(name) == expected


BINARY = [name for name, entry in REGISTRY.items() if entry.has_width and not name.startswith("resnet")]


@pytest.mark.parametrize("name", [*BINARY, "ftbnn-d18-g3-v9"])
def test_zero_one_codes_follow_relus_and_nothing_else(name):
    """Where an input is coded {0, 1} no value may be negative, and everywhere else some value is."""
    module = build(name, classes=3, width=8 if name in BINARY else None)
    seen = {}
    for path, layer in module.named_modules():
        if isinstance(layer, Sign):
            layer.register_forward_hook(lambda m, args, _, path=path: seen.update({path: (m.zero_one, args[0].min())}))
    module(torch.randn(4, find(name).in_channels, 64, 64))
    assert seen
    for path, (zero_one, lowest) in seen.items():
        assert zero_one == bool(lowest >= 0), path


def test_derived_zero_one_codes():
    module = build("ftbnn-d18-g3-v9", classes=3)
    zero_one = [path for path, m in module.named_modules() if isinstance(m, Sign) and m.zero_one]
    assert zero_one == ["stage2.0.conv.input", "stage3.0.conv.input", "stage4.0.conv.input"]


def test_derived_by_parameters_is_the_derived_by_name():
    with skeleton():
        by_name, by_parameters = build("ftbnn-d34-g5-135m"), build("ftbnn-d34-g5-v88")
    shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (by_name, by_parameters)]
    assert shapes[0] == shapes[1]


def test_width_scales_the_baseline():
    module = build("ftbnn18", width=16, stem="small", classes=10)
    assert [m.out_channels for m in module.modules() if isinstance(m, BConv)] == [16] * 4 + [32] * 4 + [64] * 4 + [
        128
    ] * 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("ftbn18"), "ftbnn18"),
        (lambda: build("ftbnn18", classes=0), "classes=0"),
        (lambda: build("ftbnn18", width=-1), "width=-1"),
        (lambda: build("ftbnn-d19-g1-v8"), "depth"),
        (lambda: build("ftbnn-d18-g9-v4"), "groups"),
        (lambda: build("ftbnn-d18-g1-90m", width=8), "ftbnn-dDEPTH-gGROUPS-v8"),
        (lambda: build("toy-relu", stem="small"), "one stem"),
        (lambda: build("resnet18", stem="smal"), "small"),
    ],
)
def test_mistakes_say_what_to_do(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_fresh_networks_differ_and_a_seed_repeats_them():
    first = build("toy-relu")
    torch.manual_seed(0)
    second = build("toy-relu")
    torch.manual_seed(0)
    third = build("toy-relu")
    assert not torch.equal(first.block1.conv.weight, build("toy-relu").block1.conv.weight)
    assert torch.equal(second.block1.conv.weight, third.block1.conv.weight)
