"""Networks that controls are made from."""

from pathlib import Path

import pytest
import torch

from mechint_arith.models.checkpoint import Checkpoint, read
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)


@pytest.fixture(scope="session")
def random_model():
    """A function from seed and options to a network with random weights and logits of a few units."""

    def build(*, seed: int = 0, **options) -> Checkpoint:
        config = ModelConfig(
            d_vocab=len(TASK.vocab),
            d_vocab_out=TASK.p,
            n_ctx=TASK.length,
            **{"d_model": 16, "d_head": 16, "d_mlp": (0, 24), **options},
        )
        weights = {name: 1.5 * w for name, w in initial_weights(config, seed).items()}
        generator = torch.Generator().manual_seed(seed)
        for name, w in weights.items():
            if ".b_" in name:
                w.normal_(0, 0.3, generator=generator)
        return Checkpoint(config, weights, TASK, 5, seed, {"recipe": "random"})

    return build


@pytest.fixture(scope="session")
def trained() -> Checkpoint:
    """A shipped network that solves every route on seen pairs."""
    return read(Path(__file__).parents[3] / "checkpoints" / "bases" / "seed_1.safetensors")
