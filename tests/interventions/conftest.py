"""Small models whose weights are drawn, not trained: interventions on them have large, irregular effects."""

import numpy as np
import pytest
import torch

from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd, matched
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.pools import on_pairs

TASK = AssignAdd(p=7, n_vars=4, length=12, never_left=1, never_right=1)


def drawn(config, *, dtype=torch.float64, size=2.0, seed=0):
    """A hooked model with weights of the given size times the usual initial ones."""
    from mechint_arith.models.hooked import HookedTransformer

    weights = {k: w * size for k, w in initial_weights(config, seed, dtype=dtype).items()}
    generator = torch.Generator().manual_seed(seed)
    for name, w in weights.items():
        if not w.any():
            weights[name] = torch.randn(w.shape, generator=generator, dtype=dtype) * 0.3
    return HookedTransformer(config, weights, task=TASK).eval()


@pytest.fixture(scope="session")
def make_model():
    return drawn


@pytest.fixture(scope="session")
def task():
    return TASK


@pytest.fixture(scope="session")
def config():
    """Assign-and-add: two layers, no first MLP."""
    return ModelConfig(
        len(TASK.vocab), TASK.p, TASK.length, n_heads=2, d_model=16, d_head=6, d_mlp=(0, 20)
    )


@pytest.fixture(scope="session")
def model(config):
    return drawn(config)


@pytest.fixture(scope="session")
def pair():
    """Clean and corrupted prompts of two variables, unrelated but for the form: 12 rows."""
    rng = np.random.default_rng(3)
    clean = on_pairs(TASK, "both", rng.integers(0, 49, 12), rng)
    corrupted = on_pairs(TASK, "both", rng.integers(0, 49, 12), rng)
    return clean, corrupted


@pytest.fixture(scope="session")
def routes():
    """Two sets of matched prompts, route -> batch, of 20 rows."""
    rng = np.random.default_rng(4)
    return [matched(TASK, rng.integers(0, 49, 20), rng) for _ in range(2)]


@pytest.fixture(scope="session")
def digits():
    """A two-layer model and a pair of batches whose answers have three tokens each."""
    rng = np.random.default_rng(5)
    config = ModelConfig(13, 10, 9, n_heads=2, d_model=12, d_head=6, d_mlp=(8, 8), mlp_bias=True)
    tokens = rng.integers(0, 13, (2, 10, 9))
    labels = rng.integers(0, 10, (2, 10, 3))
    batches = [
        Batch(t, y, 5, {"a digit 0": np.zeros(10, int)}, {})
        for t, y in zip(tokens, labels, strict=True)
    ]
    return drawn(config), *batches


@pytest.fixture(scope="session")
def modular():
    """A one-layer model with four heads on all pairs modulo 5, clean against shuffled."""
    from mechint_arith.tasks.modular import ModularTask

    task = ModularTask(p=5, train_share=0.5)
    batch = task.batch()
    config = ModelConfig(6, 5, 3, n_layers=1, n_heads=4, d_model=16, d_head=4, d_mlp=(12,))
    return drawn(config), batch, batch[np.random.default_rng(0).permutation(25)]
