"""Where a run goes that was given no directory."""

from pathlib import Path

import pytest

from ftbnn.workflows.train import usual_out


@pytest.mark.parametrize(
    ("said", "out"),
    [
        (("ftbnn18", "digits"), "runs/ftbnn18-digits"),
        (("ftbnn18", "digits", "irnet"), "runs/ftbnn18-irnet-digits"),
        (("resnet20", "cifar10", "abc(3,5)"), "runs/resnet20-abc-3-5-cifar10"),
        (("nets/mine.py:small", "digits", "ways/mine.py:MINE"), "runs/nets-mine.py-small-ways-mine.py-MINE-digits"),
    ],
)
def test_networks_and_methods_have_directories_of_their_own(said, out):
    assert usual_out(*said) == Path(out)
