import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

settings.register_profile("ftbnn", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("ftbnn")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
