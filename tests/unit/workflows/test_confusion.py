import numpy as np
import pytest

from ftbnn.workflows.confusion import worst_classes


def test_the_worst_classes_and_what_they_are_taken_for():
    confusion = np.array([[8, 2, 0, 0], [3, 5, 1, 0], [0, 0, 4, 0], [0, 0, 0, 0]])
    assert worst_classes(confusion, ["cat", "dog"]) == [
        {"class": "dog", "top1": pytest.approx(500 / 9), "taken_for": "cat", "share": pytest.approx(100 / 3)},
        {"class": "cat", "top1": 80.0, "taken_for": "dog", "share": 20.0},
    ], "the third makes no mistake, the fourth has no image"


def test_a_class_without_a_name_has_its_number():
    (worst,) = worst_classes(np.array([[1, 1], [0, 2]]), [])
    assert (worst["class"], worst["taken_for"]) == ("0", "1")
