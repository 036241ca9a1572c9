"""One gradient step at M = 0: against finite differences, and on the released run before assignment."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mechint_arith import emergence
from mechint_arith.emergence import INPUTS, step_from
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import fold
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd
from mechint_arith.tasks.pools import on_pairs

TASK = AssignAdd(p=5, n_vars=4, length=8, never_left=1, never_right=1)
CONFIG = ModelConfig(len(TASK.vocab), 5, 8, d_model=12, d_head=6, d_mlp=(0, 20))


def made(seed=0):
    return Checkpoint(CONFIG, initial_weights(CONFIG, seed, dtype=torch.float64), TASK)


def batches():
    pairs = TASK.pairs(held=False)
    return [on_pairs(TASK, r, pairs, np.random.default_rng(i)) for i, r in enumerate(ROUTES)]


def test_inputs_from_tokens_are_the_residual_stream_and_its_ov_images():
    checkpoint, batch = made(), batches()[3]
    model = fold(CONFIG, checkpoint.weights, read=TASK.places["equals"])
    network = Transformer(CONFIG, checkpoint.weights)
    tokens = torch.from_numpy(batch.tokens)
    with torch.no_grad():
        resid = network(tokens, stop_at_layer=1)
    found = INPUTS["tokens"](model, TASK, batch)
    torch.testing.assert_close(found.key, resid)
    w = checkpoint.weights
    ov = w["blocks.1.attn.W_V"][0] @ w["blocks.1.attn.W_O"][0]
    torch.testing.assert_close(found.value, resid @ ov)


def test_supplied_inputs_bind_values_to_their_variables():
    model = fold(CONFIG, made().weights, read=TASK.places["equals"])
    batch = batches()[3]
    found = INPUTS["supplied"](model, TASK, batch)
    matching = (found.key @ found.query[:, :, None])[..., 0].numpy()
    for row in range(len(batch)):
        places = [batch.positions[f"value of {o}"][row] for o in ("lhs", "rhs")]
        expected = np.zeros(TASK.length)
        expected[places] = 0.5
        np.testing.assert_allclose(matching[row], expected)


@pytest.mark.parametrize("version", emergence.VERSIONS)
def test_the_gradient_is_that_of_finite_differences(version):
    model = fold(CONFIG, made().weights, read=TASK.places["equals"])
    sets = batches()
    gradient, loss = emergence._gradient(model, TASK, sets, version)

    def at(m):
        total = weight_sum = 0.0
        for weight, batch in zip((12, 10, 10, 10), sets, strict=True):
            x = INPUTS[version](model, TASK, batch)
            pattern = ((x.query @ m)[:, None] @ x.key.mT).softmax(-1)
            _, logits = model.after_mid(x.start + (pattern @ x.value)[:, 0])
            labels = torch.from_numpy(batch.labels)
            total += weight * float(F.cross_entropy(logits, labels, reduction="sum"))
            weight_sum += weight * len(batch)
        return total / weight_sum

    direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0)).double()
    step = 1e-5
    slope = (at(step * direction) - at(-step * direction)) / (2 * step)
    assert loss == pytest.approx(at(0 * direction))
    assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-4, abs=1e-7)


def test_a_diagonal_is_told_from_noise():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((12, 12))
    share, contrast, p = emergence._diagonal(noise + 5 * np.eye(12), rng)
    assert share.value > 0.9
    assert contrast.value > 3
    assert p == pytest.approx(1e-4)
    assert emergence._diagonal(noise, rng)[2] > 0.01


def test_with_binding_supplied_one_step_matches_identities_before_assignment(reference):
    checkpoint = load_checkpoint(reference / "assign_and_add" / "checkpoint_step_4001.pth")
    intact = step_from(checkpoint, version="supplied")
    scrambled = step_from(checkpoint, version="supplied", scrambled=True)
    assert intact.identity.value == 1
    assert intact.found["trained"].low > 0.95
    assert intact.found["restricted"].low > 0.95
    assert intact.contrast.value > 20
    assert intact.structure.diagonal().mean() > 4 * scrambled.structure.diagonal().mean()


def test_with_raw_tokens_it_appears_in_part_when_layer_0_is_ready(reference):
    place = reference / "assign_and_add"
    early, late = (
        step_from(load_checkpoint(place / f"checkpoint_step_{step}.pth")) for step in (2001, 4001)
    )
    assert early.contrast.value < 0 < late.contrast.value
    assert late.p_value < 0.01
    assert late.identity.value < 0.5


def test_errors():
    with pytest.raises(InputError, match="tokens, supplied"):
        step_from(made(), version="given")
    two_heads = ModelConfig(len(TASK.vocab), 5, 8, n_heads=2, d_model=12, d_head=6, d_mlp=(0, 20))
    with pytest.raises(InputError, match="two layers of one head"):
        step_from(Checkpoint(two_heads, initial_weights(two_heads, 0), TASK))
