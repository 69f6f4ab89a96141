import os
from importlib.util import find_spec

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

HAS_TORCH = find_spec("torch") is not None  # not where `make test-arm` runs tests
if HAS_TORCH:
    import torch

settings.register_profile("ftbnn", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("ftbnn")


@pytest.fixture(autouse=True)
def _seed() -> None:
    if HAS_TORCH:
        torch.manual_seed(0)
