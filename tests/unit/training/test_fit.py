"""`fit` from Python: any data, the three splits, what a user may bring along, and runs that go on."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, IterableDataset

from ftbnn.data import load as load_data
from ftbnn.data.batches import derive_seed
from ftbnn.errors import UserError
from ftbnn.models import build
from ftbnn.nn import BasicBlock
from ftbnn.training import Options, Recipe, Steps, fit, load_run
from ftbnn.training.checkpoint import load
from ftbnn.training.record import read
from ftbnn.workflows.deploy import evaluate

RECIPE = Recipe("r", epochs=3, batch_size=8, lr=1e-2, schedule="constant")
QUIET = Options(quiet=True)
GENERATOR = torch.Generator().manual_seed(0)
ITEMS = [(torch.randn(1, 4, 4, generator=GENERATOR) + k % 2, k % 2) for k in range(40)]
TRAIN, VAL, TEST = ITEMS[:24], ITEMS[24:30], ITEMS[30:]


def linear(outputs=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs))


def binary():
    """Two blocks with BatchNorm."""
    torch.manual_seed(0)
    blocks = [BasicBlock(6, act="fprelu", follows_relu=False), BasicBlock(6, act="relu", follows_relu=False)]
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), *blocks, nn.Flatten(), nn.Linear(96, 2))


def weights(run, name="last.pt"):
    return load(run / name)["model"]


def assert_same_bytes(a, b):
    assert list(a) == list(b)
    for name in a:
        assert a[name].numpy().tobytes() == b[name].numpy().tobytes(), name


def epochs(run):
    return [row for row in read(run / "metrics.jsonl") if row["kind"] == "epoch"]


class Counted:
    """A data set that knows how often it was asked."""

    def __init__(self, items):
        self.items, self.asked = items, 0

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.asked += 1
        return self.items[index]


def test_validation_chooses_and_the_test_images_are_seen_once(tmp_path):
    train, val, test = Counted(TRAIN), Counted(VAL), Counted(TEST)
    scores = fit(binary(), (train, val, test), RECIPE, tmp_path / "run", QUIET)
    assert (train.asked, val.asked, test.asked) == (3 * 24, 3 * 6, 10)
    rows = epochs(tmp_path / "run")
    assert scores["val_top1"] == max(row["val_top1"] for row in rows)
    assert scores["epoch"] == 1 + max(range(3), key=lambda k: rows[k]["val_top1"])
    assert scores["chosen"] == "best on validation"
    assert not any(key.startswith("test_") for row in rows for key in row)
    assert (scores["val_images"], scores["test_images"]) == (6, 10)
    assert json.loads((tmp_path / "run" / "scores.json").read_text()) == scores
    assert {"train_loss", "train_top1", "val_loss", "val_top1", "test_loss", "test_top1"} <= set(scores)
    fit(binary(), (train, val, test), RECIPE, tmp_path / "run", replace(QUIET, resume=True))
    assert test.asked == 10, "a finished run has been judged"


def test_the_held_out_images_are_those_of_the_data_not_of_the_run(tmp_path):
    """Images that say who they are: whatever the seed, the same ones are never trained on."""
    items = [(torch.full((1, 4, 4), float(k)), k % 2) for k in range(40)]
    seen = [set(), set()]

    class Watching(nn.Flatten):
        def forward(self, x):
            if self.training:
                seen[seed].update(x[:, 0, 0, 0].tolist())
            return super().forward(x)

    for seed in (0, 1):
        network = nn.Sequential(Watching(), nn.Linear(16, 2))
        fit(network, items, replace(RECIPE, epochs=1), tmp_path / str(seed), Options(seed=seed, quiet=True))
        about = json.loads((tmp_path / str(seed) / "run.json").read_text())["data"]
        assert (about["train_images"], about["val_images"], about["test_images"]) == (36, 4, None)
    assert len(seen[0]) == 36
    assert seen[0] == seen[1]


def test_the_network_is_left_with_the_chosen_weights(tmp_path):
    for seed in range(8):  # at this rate the last epoch is seldom the best; which seeds are so depends on the CPU
        network, run = binary(), tmp_path / str(seed)
        scores = fit(
            network, (TRAIN, VAL, TEST), replace(RECIPE, lr=0.3, epochs=4), run, Options(seed=seed, quiet=True)
        )
        if scores["epoch"] < 4:
            break
    assert scores["epoch"] < 4
    assert_same_bytes(network.state_dict(), weights(run, "best.pt"))
    assert evaluate(network, TEST)["test_top1"] == scores["test_top1"]


def test_who_chooses_on_the_test_images_is_told(tmp_path):
    scores = fit(linear(), (TRAIN, TEST, TEST), RECIPE, tmp_path / "run", QUIET)
    assert scores["chosen"] == "best by test accuracy"


def test_without_validation_the_last_epoch_is_chosen(tmp_path):
    scores = fit(linear(), (TRAIN, TEST), replace(RECIPE, validation=0.0), tmp_path / "run", QUIET)
    assert (scores["epoch"], scores["chosen"]) == (3, "last epoch")
    assert not (tmp_path / "run" / "best.pt").exists()
    assert "val_loss" not in scores
    assert scores["test_images"] == 10
    with pytest.raises(UserError, match="patience=2 needs validation images"):
        fit(linear(), (TRAIN, TEST), replace(RECIPE, validation=0.0, patience=2), tmp_path / "other", QUIET)


class Stream(IterableDataset):
    def __len__(self):
        return len(TRAIN)

    def __iter__(self):
        return iter(TRAIN)


def loader(items, **settings):
    return DataLoader(items, batch_size=8, **settings)


@pytest.mark.parametrize(
    ("data", "splits"),
    [
        (TRAIN, {"train", "val"}),
        ((TRAIN, TEST), {"train", "val", "test"}),
        ((TRAIN, VAL, TEST), {"train", "val", "test"}),
        ((TRAIN, VAL, None), {"train", "val"}),
        ((loader(TRAIN, shuffle=True), loader(VAL), loader(TEST)), {"train", "val", "test"}),
        ((loader(TRAIN, num_workers=1), loader(VAL, num_workers=1), loader(TEST)), {"train", "val", "test"}),
        ((loader(Stream()), loader(VAL), loader(TEST)), {"train", "val", "test"}),
    ],
    ids=["one", "two", "three", "no test", "loaders", "workers", "stream"],
)
def test_any_data(data, splits, tmp_path):
    scores = fit(linear(), data, RECIPE, tmp_path / "run", QUIET)
    assert {key.partition("_")[0] for key in scores if key.endswith("_loss")} == splits
    assert epochs(tmp_path / "run")[-1]["train_loss"] < epochs(tmp_path / "run")[0]["train_loss"]


def test_a_loader_is_not_split(tmp_path):
    with pytest.warns(UserWarning, match="a DataLoader is not split"):
        scores = fit(linear(), (loader(TRAIN), loader(TEST)), RECIPE, tmp_path / "run", QUIET)
    assert scores["chosen"] == "last epoch"


def test_several_labels_an_image_with_a_loss_of_ones_own(tmp_path):
    items = [(image, torch.tensor([float(label), 1.0 - label])) for image, label in ITEMS]
    options = Options(quiet=True, loss=nn.BCEWithLogitsLoss())
    scores = fit(linear(), (items[:24], items[24:30], items[30:]), RECIPE, tmp_path / "run", options)
    rows = epochs(tmp_path / "run")
    assert scores["val_loss"] == min(row["val_loss"] for row in rows), "the best loss is chosen"
    with torch.no_grad():
        network = load_run(tmp_path / "run", linear()).network
        images, labels = (torch.stack(part) for part in zip(*items[30:], strict=True))
        expected = nn.functional.binary_cross_entropy_with_logits(network(images), labels).item()
    assert scores["test_loss"] == pytest.approx(expected)


def two_losses(outputs, labels):
    return nn.functional.cross_entropy(outputs[0], labels) + outputs[1].square().mean()


def test_a_loss_of_ones_own_gets_whatever_the_network_gives(tmp_path):
    scores = fit(TwoHeads(), (TRAIN, VAL, TEST), RECIPE, tmp_path / "run", Options(quiet=True, loss=two_losses))
    assert scores["train_top1"] > 0, "by the first output"
    named = Options(quiet=True, loss=lambda outputs, labels: two_losses(outputs["both"], labels))
    scores = fit(Named(), (TRAIN, VAL, TEST), RECIPE, tmp_path / "named", named)
    assert scores["test_loss"] > 0
    assert scores["test_top1"] == 0, "which of them are scores of classes is not known"


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, torch.tensor, "loader"])
def test_regression(kind, tmp_path):
    made = float if kind == "loader" else kind
    items = [(image, made(image.mean().item())) for image, _ in ITEMS]
    data = (items[:24], items[24:30], items[30:])
    options = Options(quiet=True, loss=lambda outputs, labels: nn.functional.mse_loss(outputs[:, 0], labels))
    scores = fit(linear(1), tuple(map(loader, data)) if kind == "loader" else data, RECIPE, tmp_path / "run", options)
    rows = epochs(tmp_path / "run")
    assert scores["val_loss"] <= rows[-1]["val_loss"] < rows[0]["val_loss"]
    with pytest.raises(UserError, match=r"of torch.float32; give a loss of your own"):
        fit(linear(), data, RECIPE, tmp_path / "other", QUIET)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": lambda out, _: out.square()}, r"gives a tensor of shape \(8, 2\); it must give one number: take the"),
        ({"loss": lambda *_: 3.0}, "the loss gives a float; it must give one number, as a tensor"),
        ({"loss": lambda *_: torch.tensor(3.0)}, "the loss does not depend on the network's parameters"),
        (
            {"optimizer": lambda _: None},
            "your function of the optimizer gives a NoneType; it must return the optimizer",
        ),
        ({"scheduler": lambda _: None}, "your function of the scheduler gives a NoneType"),
    ],
)
def test_what_a_users_function_gives_wrongly_is_one_clear_line(settings, message, tmp_path):
    with pytest.raises(UserError, match=message):
        fit(linear(), (TRAIN, TEST), RECIPE, tmp_path / "run", Options(quiet=True, **settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 1}, r"fit has no argument seed: give options=ftbnn.Options\(seed=...\)"),
        ({"epochs": 1}, r"fit has no argument epochs: give recipe=ftbnn.Recipe\(epochs=...\)"),
        ({"option": 1}, "unknown argument of fit 'option'; did you mean options"),
        ({"options": {"seed": 1}}, "options are an ftbnn.Options, not a dict"),
    ],
)
def test_an_argument_that_fit_does_not_have_is_told_of(settings, message):
    with pytest.raises(UserError, match=message):
        fit(linear(), TRAIN, **settings)


def sgd(network):
    return torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)


def test_an_optimizer_and_a_scheduler_of_ones_own(tmp_path):
    made = []
    options = Options(
        quiet=True,
        optimizer=lambda network: made.append(sgd(network)) or made[0],
        scheduler=lambda optimizer: StepLR(optimizer, 1, gamma=0.5),
    )
    fit(linear(), (TRAIN, TEST), RECIPE, tmp_path / "run", options)
    assert isinstance(made[0], torch.optim.SGD)
    assert [row["lr"] for row in epochs(tmp_path / "run")] == [0.1, 0.05, 0.025]


def test_a_scheduler_that_watches_the_validation_loss(tmp_path):
    options = Options(
        quiet=True,
        scheduler=lambda optimizer: ReduceLROnPlateau(optimizer, patience=0, threshold=1e9, threshold_mode="abs"),
    )
    fit(linear(), (TRAIN, TEST), RECIPE, tmp_path / "run", options)
    assert [row["lr"] for row in epochs(tmp_path / "run")] == pytest.approx([1e-2, 1e-2, 1e-3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": sgd(linear())}, "optimizer is a function of the network that makes it, not a SGD"),
        (
            {"scheduler": StepLR(sgd(linear()), 1)},
            "scheduler is a function of the optimizer that makes it, not a StepLR",
        ),
        ({"loss": "bce"}, "loss is a function of outputs and labels, not a str"),
        ({"callbacks": print}, "callbacks are a list of functions"),
        ({"callbacks": [3]}, "callbacks are a list of functions"),
        ({"workers": -1}, "workers must be 0 or more, not -1"),
        ({"max_corrupt": 3}, "max_corrupt is a share of the images, 0 to 1, not 3"),
        ({"seed": "a"}, "seed must be 0 or more, not 'a'"),
        ({"sed": 1}, "unknown option 'sed'; did you mean seed"),
    ],
)
def test_wrong_options_are_one_clear_line(settings, message):
    with pytest.raises(UserError, match=message):
        Options(**settings)


def test_callbacks_see_every_epoch_and_may_end_the_run(tmp_path):
    seen = []

    def watch(row, network):
        seen.append((row["epoch"], isinstance(network, nn.Module), "val_loss" in row))

    def stop(row, _):
        return row["epoch"] == 2

    scores = fit(
        linear(),
        (TRAIN, TEST),
        replace(RECIPE, epochs=9),
        tmp_path / "run",
        Options(quiet=True, callbacks=[stop, watch]),
    )
    assert seen == [(1, True, True), (2, True, True)], "as scores count epochs"
    assert scores["epochs"] == 2


def test_lost_patience_ends_the_run(tmp_path):
    """A rate of almost nothing: no epoch is better than the first."""
    recipe = replace(RECIPE, epochs=9, lr=1e-12, patience=2)
    scores = fit(linear(), (TRAIN, TEST), recipe, tmp_path / "run", QUIET)
    assert (scores["epoch"], scores["epochs"]) == (1, 3)
    before = (tmp_path / "run" / "last.pt").read_bytes()
    assert fit(linear(), (TRAIN, TEST), recipe, tmp_path / "run", replace(QUIET, resume=True)) == scores
    assert (tmp_path / "run" / "last.pt").read_bytes() == before


def test_a_run_that_ended_early_is_extended(tmp_path):
    data, more = (TRAIN, TEST), replace(QUIET, resume=True)
    recipe = replace(RECIPE, epochs=4, lr=1e-12, patience=2)
    fit(linear(), data, recipe, tmp_path / "run", QUIET)
    scores = fit(linear(), data, replace(recipe, epochs=9), tmp_path / "run", more)
    assert scores["epochs"] == 4, "one more, and patience is lost again"


@pytest.mark.parametrize("make", [linear, binary])
def test_an_extended_run_is_the_longer_run(make, tmp_path):
    data = (TRAIN, VAL, TEST)
    whole = fit(make(), data, replace(RECIPE, epochs=5), tmp_path / "whole", QUIET)
    fit(make(), data, replace(RECIPE, epochs=2), tmp_path / "run", QUIET)
    scores = fit(make(), data, replace(RECIPE, epochs=5), tmp_path / "run", replace(QUIET, resume=True))
    for name in ("last.pt", "best.pt"):
        assert_same_bytes(weights(tmp_path / "run", name), weights(tmp_path / "whole", name))
    timed = {"images_per_s"}
    assert {k: v for k, v in scores.items() if k not in timed} == {k: v for k, v in whole.items() if k not in timed}
    with pytest.raises(UserError, match="epochs: 5 -> 2"):
        fit(make(), data, replace(RECIPE, epochs=2), tmp_path / "run", replace(QUIET, resume=True))


def test_extending_a_schedule_of_all_epochs_says_what_becomes_of_it(tmp_path):
    cosine = replace(RECIPE, epochs=2, schedule="cosine")
    fit(linear(), (TRAIN, TEST), cosine, tmp_path / "run", QUIET)
    with pytest.warns(
        UserWarning, match=r"from 2 to 4 epochs: from here on its rate is that of 4 epochs \(schedule=cosine"
    ):
        fit(linear(), (TRAIN, TEST), replace(cosine, epochs=4), tmp_path / "run", replace(QUIET, resume=True))
    rates = [row["lr"] for row in epochs(tmp_path / "run")]
    assert rates[2] > rates[1], "it rises to where the longer schedule is"
    own = Options(quiet=True, resume=True, scheduler=lambda optimizer: StepLR(optimizer, 1))
    fit(linear(), (TRAIN, TEST), cosine, tmp_path / "own", replace(own, resume=False))
    fit(linear(), (TRAIN, TEST), replace(cosine, epochs=3), tmp_path / "own", own)  # whose rate is nobody else's affair


def test_only_the_last_step_of_several_is_extended(tmp_path):
    steps = Steps("s", (replace(RECIPE, epochs=1, weights="real"), replace(RECIPE, epochs=1)))
    fit(binary(), (TRAIN, TEST), steps, tmp_path / "run", QUIET)
    longer = replace(steps, steps=(steps.steps[0], replace(RECIPE, epochs=2)))
    assert fit(binary(), (TRAIN, TEST), longer, tmp_path / "run", replace(QUIET, resume=True))["epochs"] == 2
    longer = replace(longer, steps=tuple(replace(step, epochs=3) for step in longer.steps))
    with pytest.raises(UserError, match=r"step0 of .* cannot be extended"):
        fit(binary(), (TRAIN, TEST), longer, tmp_path / "run", replace(QUIET, resume=True))


class Breaks(Counted):
    """The items, and a power cut after so many of them."""

    def __init__(self, items, after):
        super().__init__(items)
        self.after = after

    def __getitem__(self, index):
        if self.asked == self.after:
            raise KeyboardInterrupt
        return super().__getitem__(index)


@pytest.mark.parametrize("after", [5, 24, 40, 47, 60])
def test_resumed_with_validation_patience_loaders_and_a_scheduler_it_ends_with_the_same_bytes(after, tmp_path):
    recipe = replace(RECIPE, epochs=4, patience=2)
    options = Options(
        quiet=True, save_every=1, optimizer=sgd, scheduler=lambda optimizer: StepLR(optimizer, 1, gamma=0.7)
    )

    def data(train):
        return loader(train, shuffle=True), loader(VAL), loader(TEST)

    whole = fit(binary(), data(TRAIN), recipe, tmp_path / "whole", options)
    with pytest.raises(KeyboardInterrupt):
        fit(binary(), data(Breaks(TRAIN, after)), recipe, tmp_path / "run", options)
    is_begun = (tmp_path / "run" / "last.pt").exists()
    scores = fit(binary(), data(TRAIN), recipe, tmp_path / "run", replace(options, resume=True))
    assert is_begun == (after > 8)
    for name in ("last.pt", "best.pt"):
        assert_same_bytes(weights(tmp_path / "run", name), weights(tmp_path / "whole", name))
    assert scores["epoch"] == whole["epoch"]
    assert [row["lr"] for row in epochs(tmp_path / "run")] == [row["lr"] for row in epochs(tmp_path / "whole")]


def test_a_start_that_failed_leaves_its_directory_free(tmp_path):
    """... for a run of any form; what came to a checkpoint, or to the end of an epoch, is never overwritten."""
    run, one, broken = tmp_path / "run", replace(RECIPE, epochs=1), [(torch.zeros(1, 4, 4), 7)] * 8
    steps = Steps("two", (one, one))
    for recipe in (one, steps, one):
        with pytest.raises(UserError, match="labels go from"):
            fit(linear(), broken, recipe, run, QUIET)
        (run / "notes.txt").write_text("the user's own")
    fit(linear(), (TRAIN, TEST), steps, run, QUIET)
    fit(linear(), (TRAIN, TEST), steps, run, replace(QUIET, resume=True))
    assert (run / "notes.txt").read_text() == "the user's own"
    for path in run.rglob("*"):
        if path.suffix == ".pt" or path.name == "scores.json":
            path.unlink()
    with pytest.raises(UserError, match="holds a run already"):
        fit(linear(), (TRAIN, TEST), one, run, QUIET)


def test_frozen_layers_and_their_norms_stay_as_they_are(tmp_path):
    for backend in ("torch", "native"):
        network = binary()
        network[1].requires_grad_(False)
        before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        fit(network, (TRAIN, TEST), replace(RECIPE, backend=backend), tmp_path / backend, QUIET)
        after = weights(tmp_path / backend)
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        assert not any(name.startswith("1.") for name in changed)
        assert {"0.weight", "2.conv.weight", "2.norm.running_mean", "2.norm.num_batches_tracked"} <= changed


def test_a_norm_without_numbers_is_frozen_with_the_part_it_is_in(tmp_path):
    body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3, affine=False)).requires_grad_(False)
    network = nn.Sequential(body, nn.Flatten(), nn.Linear(12, 2))
    fit(network, (TRAIN, TEST), RECIPE, tmp_path / "run", QUIET)
    assert torch.equal(body[1].running_mean, torch.zeros(3))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc(x.flatten(1)), x


class Named(TwoHeads):
    def forward(self, x):
        return {"both": super().forward(x)}


@pytest.mark.parametrize(
    ("network", "data", "recipe", "message"),
    [
        (linear().requires_grad_(False), (TRAIN, TEST), RECIPE, "every parameter of the network is frozen"),
        (TwoHeads(), (TRAIN, TEST), RECIPE, "the network gives a tuple; it must give one tensor of scores"),
        (linear(), (TRAIN, TEST), "naiv", "naive"),
        (linear(), (TRAIN, TEST), 3, "a recipe is a name, a Recipe or Steps, not an int"),
        (linear(), "digist", RECIPE, "digits"),
        ("ftbnn18", (TRAIN, TEST), RECIPE, "fit takes a torch.nn.Module, not a str; ftbnn.build makes one by its name"),
        (lambda: 3, (TRAIN, TEST), RECIPE, "fit takes a torch.nn.Module, not an int"),
        (linear(), (TRAIN, TEST), replace(RECIPE, augment="crop"), "bring their own augmentation"),
        (linear(1), (TRAIN, TEST), RECIPE, "labels go from 0 to 1, but the network has 1 output"),
    ],
)
def test_mistakes_are_one_clear_line(network, data, recipe, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        fit(network, data, recipe, tmp_path / "run", QUIET)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_two_heads_are_not_evaluated_either():
    with pytest.raises(UserError, match="the network gives a tuple"):
        evaluate(TwoHeads(), TEST)


def test_more_outputs_than_classes_are_told_of_and_exported(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 12))
    with pytest.warns(UserWarning, match="the network has 12 outputs, digits has 10 classes"):
        fit(network, "digits", replace(RECIPE, epochs=1, batch_size=64), tmp_path / "run", QUIET)
    about = json.loads((tmp_path / "run" / "run.json").read_text())["export"]
    assert about["top1_agreement"] == 1


def test_what_is_refused_leaves_the_network_as_it_was(tmp_path):
    network = build("ftbnn18", width=4, classes=2, in_channels=1, stem="small")
    tanh = replace(RECIPE, epochs=1, activations="tanh", weights="real", attention=1.0)
    data = ([(torch.randn(1, 8, 8), k % 2) for k in range(12)],) * 2
    with pytest.raises(UserError, match="a teacher with children"):
        fit(network, data, tanh, tmp_path / "run", replace(QUIET, teacher=linear()))
    fit(network, data, replace(RECIPE, epochs=1), tmp_path / "run", QUIET)
    other = build("resnet18", width=4, classes=2, in_channels=1, stem="small")
    with pytest.raises(UserError, match="differs in"):
        fit(network, data, tanh, tmp_path / "run", replace(QUIET, teacher=other, resume=True))
    for module in (*network.modules(), *other.modules()):
        assert not module._forward_hooks
    assert network.stage1[0].conv.signs.is_binary
    assert network.stage1[0].conv.input.is_binary


def test_the_seeds_of_processes_are_not_those_of_epochs(tmp_path):
    seeds = []
    fit(
        linear(),
        (TRAIN, TEST),
        RECIPE,
        tmp_path / "run",
        Options(quiet=True, callbacks=[lambda *_: seeds.append(torch.initial_seed())]),
    )
    assert set(seeds) == {derive_seed(0, "rank", 0)}
    assert seeds[0] not in {derive_seed(0, epoch) for epoch in range(1000)}


class Odd(torch.optim.SGD):
    """Its state holds an object."""

    def step(self, closure=None):
        self.state[self.param_groups[0]["params"][0]]["odd"] = Counted([])
        return super().step(closure)


def test_a_state_that_could_not_be_read_back_is_refused_at_once(tmp_path):
    options = Options(quiet=True, optimizer=lambda network: Odd(network.parameters(), lr=0.1))
    with pytest.raises(UserError, match=r"last.pt was not written: .* holds more than data"):
        fit(linear(), (TRAIN, TEST), RECIPE, tmp_path / "run", options)


class Unexportable(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(torch.fft.fft2(x).abs().flatten(1))


def test_a_network_that_cannot_be_exported_is_trained_all_the_same(tmp_path):
    scores = fit(Unexportable(), "digits", replace(RECIPE, epochs=1, batch_size=64), tmp_path / "run", QUIET)
    assert scores["test_top1"] > 0
    assert "error" in json.loads((tmp_path / "run" / "run.json").read_text())["export"]


def test_load_run_gives_network_scores_and_spec(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    scores = fit(network, "digits", replace(RECIPE, batch_size=64), tmp_path / "run", QUIET)
    run = load_run(tmp_path / "run", nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    assert run.scores == scores
    assert run.spec == load_data("digits").spec
    assert run.recipe.epochs == 3
    assert not run.network.training
    assert_same_bytes(run.network.state_dict(), network.state_dict())
    assert evaluate(run)["test_top1"] == scores["test_top1"]
    last = load_run(tmp_path / "run" / "last.pt", nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    assert last.state["epoch"] == 3
    assert ("test_top1" in last.scores) == (scores["epoch"] == 3), "those of other weights are not claimed"
    with pytest.raises(UserError, match=r"made in Python: hand it over, load_run\(path, network\)"):
        load_run(tmp_path / "run")
    with pytest.raises(UserError, match=r"do not fit this network: 1.weight is only there$"):
        load_run(tmp_path / "run", nn.Linear(3, 3))
    with pytest.raises(UserError, match=r"its 1.weight is \[10, 64\], here it is \[9, 64\]$"):
        load_run(tmp_path / "run", nn.Sequential(nn.Flatten(), nn.Linear(64, 9)))
    with pytest.raises(UserError, match="no checkpoint at"):
        load_run(tmp_path / "none")


def test_load_run_builds_networks_by_name(tmp_path):
    from ftbnn.workflows.train import plan, train

    job = plan("ftbnn18", "digits", settings={"epochs": "1"}, width=4, out=tmp_path / "run")
    scores = train(job, QUIET)
    run = load_run(tmp_path / "run")
    assert run.scores == scores
    assert run.name == "ftbnn18"
    assert evaluate(run)["test_top1"] == pytest.approx(scores["test_top1"])
