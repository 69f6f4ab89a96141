import random
import threading

import numpy as np
import pytest
import torch

from ftbnn.data.batches import Batches, ahead, plan_steps
from ftbnn.data.source import ArraySplit, CorruptImage, Spec
from ftbnn.data.transforms import augment, cut, draw_views, normalise, prepare
from ftbnn.errors import UserError

SPEC = Spec("made", 4, 1, 8, (0.5,), (0.25,), tuple("abcd"), augment="crop-flip")


def in_memory(size=37):
    images = torch.randint(0, 256, (size, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return ArraySplit(images, torch.arange(size))  # the label is the index


class Files:
    """A FileSplit whose images show the seed they were asked with."""

    def __init__(self, size=37, bad=()):
        self.size, self.bad = size, bad

    def __len__(self):
        return self.size

    def image(self, index, seed):
        if index in self.bad:
            raise CorruptImage(f"{index}.jpg: broken")
        generator = torch.Generator().manual_seed(seed or 0)
        return torch.randint(0, 256, (1, 8, 8), dtype=torch.uint8, generator=generator)

    def label(self, index):
        return index

    def path(self, index):
        return f"{index}.jpg"

    def part(self, _):
        raise AssertionError("nothing here is split")


class Mine:
    """A user's data set that draws from every global generator."""

    def __len__(self):
        return 11

    def __getitem__(self, index):
        noise = [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002
        return torch.tensor([float(index), *noise]), index


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 5, 8, 9, 16, 17, 100])
def test_steps_cover_every_place_once_and_leave_no_process_with_one_image(size, world):
    steps = plan_steps(size, 8, world)
    assert [k for first, last in steps for k in range(first, last)] == list(range(size))
    if len(steps) > 1:
        assert all(last - first >= min(8, 2 * world) for first, last in steps)


@pytest.mark.parametrize("split", [in_memory(), Files()], ids=["memory", "files"])
def test_the_processes_of_a_world_see_each_image_once(split):
    seen = []
    for rank in range(2):
        batches = Batches(split, SPEC, batch_size=8, shuffle=True, augmentation="none", rank=rank, world=2)
        seen += [label for batch in batches.epoch(3) for label in batch.labels.tolist()]
    assert sorted(seen) == list(range(37))


def test_shares_make_the_mean_over_the_whole_step():
    parts = [Batches(in_memory(13), SPEC, batch_size=8, shuffle=False, rank=r, world=2) for r in range(2)]
    for mine, theirs in zip(parts[0].epoch(0), parts[1].epoch(0), strict=True):
        total = len(mine) + len(theirs)
        assert mine.share / 2 == pytest.approx(len(mine) / total)
        assert mine.share + theirs.share == pytest.approx(2)


@pytest.mark.parametrize("split", [in_memory(), Files(), Mine()], ids=["memory", "files", "user"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_epoch_is_the_rest_of_the_whole_one_with_any_number_of_workers(split, workers):
    spec = None if isinstance(split, Mine) else SPEC
    name = "crop-flip" if isinstance(split, ArraySplit) else "imagenet"
    common = {"batch_size": 4, "shuffle": True, "augmentation": name, "seed": 5}
    whole = list(Batches(split, spec, **common).epoch(2))
    torch.rand(7)
    rest = list(Batches(split, spec, workers=workers, **common).epoch(2, start=2))
    assert len(rest) == len(whole) - 2
    for a, b in zip(whole[2:], rest, strict=True):
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.labels, b.labels)


def test_epochs_and_seeds_differ():
    orders = {
        (seed, epoch): [
            x
            for b in Batches(in_memory(), SPEC, batch_size=8, shuffle=True, seed=seed).epoch(epoch)
            for x in b.labels.tolist()
        ]
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len({tuple(order) for order in orders.values()}) == 4


def test_a_users_data_set_leaves_the_global_generators_alone():
    torch.manual_seed(3)
    random.seed(3)
    expected = torch.rand(2).tolist(), random.random()
    torch.manual_seed(3)
    random.seed(3)
    batches = iter(Batches(Mine(), batch_size=4, shuffle=True).epoch(0))
    next(batches)
    assert (torch.rand(2).tolist(), random.random()) == expected


def test_corrupt_images_are_left_out_and_named():
    batches = list(Batches(Files(8, bad=(1, 4, 5, 6, 7)), SPEC, batch_size=4, shuffle=False).epoch(0))
    assert batches[0].labels.tolist() == [0, 2, 3]
    assert batches[0].corrupt == ("1.jpg: broken",)
    assert len(batches[1]) == 0
    assert len(batches[1].corrupt) == 4


def test_a_batch_smaller_than_the_world_is_refused():
    with pytest.raises(UserError, match="processes"):
        Batches(in_memory(), SPEC, batch_size=2, shuffle=True, world=4)


def test_normalise_is_the_written_formula():
    images = torch.tensor([[[[0, 255]], [[51, 102]]]], dtype=torch.uint8)
    expected = torch.tensor([[[[-2.0, 2.0]], [[0.0, 2.0]]]])
    torch.testing.assert_close(normalise(images, (0.5, 0.2), (0.25, 0.1)), expected)


def test_crops_are_windows_of_the_padded_image_and_flips_happen():
    images = torch.arange(1, 65, dtype=torch.uint8).view(1, 1, 8, 8).repeat(200, 1, 1, 1)
    generator = torch.Generator().manual_seed(0)
    out = augment(images, "crop-flip", generator)
    assert out.dtype == torch.uint8
    padded = torch.nn.functional.pad(images[0, 0], (1, 1, 1, 1))
    windows = [padded[r : r + 8, c : c + 8] for r in range(3) for c in range(3)]
    legal = {tuple(view.flatten().tolist()) for w in windows for view in (w, w.flip(1))}
    seen = {tuple(view.flatten().tolist()) for view in out}
    assert seen == legal  # 18 views, all of them met in 200 draws
    assert augment(images, "none", generator) is images


@pytest.mark.parametrize("name", ["none", "crop", "crop-flip"])
@pytest.mark.parametrize("shape", [(30, 3, 9, 17), (30, 1, 8, 8), (5, 2, 3, 4)])
def test_one_native_pass_gives_the_bits_of_pytorch(name, shape, monkeypatch):
    torch.manual_seed(0)
    images, which = torch.randint(0, 256, shape, dtype=torch.uint8), torch.randint(0, shape[0], (40,))
    views = draw_views(name, (40, *shape[1:]), torch.Generator().manual_seed(1))
    look = (0.5, 0.4, 0.3)[: shape[1]], (0.2, 0.3, 0.1)[: shape[1]]
    wanted = normalise(cut(images[which], views), *look)
    assert torch.equal(prepare(images, which, views, *look), wanted)
    monkeypatch.setattr("ftbnn.data.transforms._native", None)
    assert torch.equal(prepare(images, which, views, *look), wanted)


def test_views_that_do_not_fit_are_refused():
    images, views = torch.zeros(2, 1, 4, 4, dtype=torch.uint8), draw_views("none", (1, 1, 4, 4), torch.Generator())
    with pytest.raises(ValueError, match="no such image"):
        prepare(images, torch.tensor([2]), views, (0.5,), (0.5,))
    with pytest.raises(ValueError, match="do not fit"):
        prepare(images, torch.tensor([0, 1]), views, (0.5,), (0.5,))


def test_the_next_batch_is_made_while_the_last_is_in_use():
    made, threads = [], set()
    is_made = threading.Event()

    def source():
        for number in range(3):
            made.append(number)
            threads.add(threading.get_ident())
            if number == 1:
                is_made.set()
            yield number

    before, batches = torch.get_num_threads(), ahead(source())
    assert next(batches) == 0
    assert is_made.wait(30)  # nobody has asked for it yet
    assert list(batches) == [1, 2]
    assert threading.get_ident() not in threads
    assert torch.get_num_threads() == before


def test_what_goes_wrong_in_the_thread_is_raised_where_batches_are_used():
    def source():
        yield 0
        raise UserError("the second is missing")

    batches = ahead(source())
    assert next(batches) == 0
    with pytest.raises(UserError, match="the second"):
        next(batches)


@pytest.mark.parametrize(
    ("split", "name", "message"),
    [(in_memory(), "imagenet", "none or crop"), (in_memory(), "flip", "crop-flip"), (Files(), "crop", "imagenet")],
)
def test_wrong_augmentations_are_refused(split, name, message):
    with pytest.raises(UserError, match=message):
        Batches(split, SPEC, batch_size=8, shuffle=True, augmentation=name)


def test_two_epochs_show_every_image_both_ways():
    images = torch.zeros(37, 1, 8, 8, dtype=torch.uint8)
    images[..., 3:5, 1] = 255  # left of the middle, wherever it is cut
    split = ArraySplit(images, torch.arange(37))

    def leftward(epoch, start=0):
        batches = Batches(split, SPEC, batch_size=8, shuffle=True, augmentation="crop-alternate")
        halves = {}
        for batch in batches.epoch(epoch, start):
            marks = batch.images > 0
            halves |= dict(zip(batch.labels.tolist(), marks[..., :4].flatten(1).any(1).tolist(), strict=True))
        return halves

    first, second, third = (leftward(epoch) for epoch in range(3))
    assert 8 < sum(first.values()) < 29
    assert all(first[image] != second[image] and first[image] == third[image] for image in first)
    resumed = leftward(1, start=2)
    assert all(second[image] == way for image, way in resumed.items())
