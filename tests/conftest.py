"""Shared fixtures. Other people's checkpoints are used where the folder `../shared/reference` exists."""

from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT.parent / "shared" / "reference"


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of outside checkpoints; the test is skipped where it is absent."""
    if not REFERENCE.exists():
        pytest.skip("no reference checkpoints beside this checkout")
    return REFERENCE


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
