"""digits: the 1797 handwritten digits of 8 x 8 pixels that scikit-learn carries, so nothing is downloaded."""

from importlib.util import find_spec

import numpy as np
import torch

from ftbnn.data.source import ArraySplit, Source, Spec
from ftbnn.errors import UserError

IMAGES = 1797
TEST_IMAGES = 297
SPEC = Spec(
    name="digits",
    classes=10,
    channels=1,
    image_size=8,
    mean=(0.3057,),
    std=(0.3761,),
    class_names=tuple("0123456789"),
)


def digits() -> Source:
    """Sorted by class, image j is a test image where floor(297 (j + 1) / 1797) > floor(297 j / 1797).

    That is every sixth image or so of each class: 29 or 30 of them, whatever the version of scikit-learn.
    """
    if find_spec("sklearn") is None:
        raise UserError("the digits come with scikit-learn: pip install scikit-learn")
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    assert values.shape == (IMAGES, 64)
    images = torch.from_numpy(np.rint(values * (255 / 16)).astype(np.uint8)).reshape(IMAGES, 1, 8, 8)
    position = np.empty(IMAGES, np.int64)
    position[np.argsort(labels, kind="stable")] = np.arange(IMAGES)
    is_test = torch.from_numpy(TEST_IMAGES * (position + 1) // IMAGES > TEST_IMAGES * position // IMAGES)
    targets = torch.from_numpy(labels.astype(np.int64))
    return Source(
        SPEC,
        train=ArraySplit(images[~is_test], targets[~is_test]),
        test=ArraySplit(images[is_test], targets[is_test]),
    )
