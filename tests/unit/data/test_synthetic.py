import torch

from ftbnn.data import load
from ftbnn.data.synthetic import synthetic

NEAREST_MEAN_ACCURACY = 0.9  # chance is 0.1


def test_the_same_arguments_give_the_same_images():
    one, two, other = (synthetic(train=32, test=16, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.train.images, two.train.images)
    assert torch.equal(one.test.images, two.test.images)
    assert not torch.equal(one.train.images, other.train.images)


def test_shapes_and_balance():
    source = synthetic(classes=5, channels=1, image_size=12, train=50, test=20)
    assert source.train.images.shape == (50, 1, 12, 12)
    assert source.train.images.dtype == torch.uint8
    assert source.train.labels.bincount().tolist() == [10] * 5
    assert len(source.spec.mean) == len(source.spec.std) == 1
    assert load("synthetic", None, image_size=9).spec.image_size == 9


def test_the_classes_can_be_learnt_and_no_image_is_repeated():
    source = load("synthetic", None)
    train, test = source.train.images.flatten(1).float(), source.test.images.flatten(1).float()
    means = torch.stack([train[source.train.labels == k].mean(0) for k in range(10)])
    accuracy = (torch.cdist(test, means).argmin(1) == source.test.labels).float().mean()
    assert accuracy > NEAREST_MEAN_ACCURACY
    assert len(torch.unique(train[:, :64], dim=0)) == len(train)
