"""Key frequencies per route: the released run late in training, and nothing claimed early or at chance."""

import json

import pytest
import torch

from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.report.fourier import report
from mechint_arith.route_frequencies import measure
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd


@pytest.fixture(scope="module")
def late(reference):
    torch.set_num_threads(1)
    path = reference / "assign_and_add" / "checkpoint_step_30001.pth"
    return measure(load_checkpoint(path), quick=True)


def test_the_released_run_uses_ten_frequencies_on_every_route(late):
    assert tuple(late.routes) == ROUTES
    for found in late.routes.values():
        assert set(found.frequencies) == {1, 2, 4, 5, 11, 15, 19, 20, 22, 27}
        assert "relabelled at random" in found.null
    assert set(late.common) == set(late.embedding_key.frequencies)


def test_its_routes_agree_in_frequency_and_phase(late):
    for found in late.agreement.values():
        assert found.frequency.low > 0.95 > found.frequency_chance
        assert found.phase.low > 0.95 > found.phase_chance
    json.dumps(late.as_dict(), allow_nan=False)
    assert "Key on every competent route" in report(late, "step 30001")


def test_nothing_is_claimed_of_an_untrained_model():
    task = AssignAdd(p=11, n_vars=4, length=10, never_left=1, never_right=1)
    config = ModelConfig(
        d_vocab=len(task.vocab), d_vocab_out=11, n_ctx=10, d_model=16, d_head=8, d_mlp=(0, 24)
    )
    found = measure(Checkpoint(config, initial_weights(config, 0), task, 0, 0))
    assert (found.routes, found.agreement, found.effects, found.common) == ({}, {}, {}, ())
    assert "no circuit is claimed" in found.no_circuit
    json.dumps(found.as_dict(), allow_nan=False)
