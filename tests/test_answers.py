"""One forward pass tells whether a greedy answer is right; decoding says what it is."""

import numpy as np
import pytest
import torch

from mechint_arith.answers import answer_logits, decode, matches, with_answers
from mechint_arith.cells import digits_config
from mechint_arith.models.config import parameter_shapes
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import digits
from mechint_arith.tasks.digits import DigitsTask

TASK = DigitsTask(digits=1, longest=2, base=2)


def network(task, seed=0, **options):
    config = digits_config(task, n_heads=2, d_model=8, **options)
    generator = torch.Generator().manual_seed(seed)
    shapes = parameter_shapes(config)
    return Transformer(config, {k: torch.randn(s, generator=generator) for k, s in shapes.items()})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("positions", ["absolute", "relative"])
def test_exact_match_in_one_pass_is_the_match_of_greedy_decoding(seed, positions):
    """An untrained model in base 2 hits some answers by chance, so both outcomes occur."""
    model = network(TASK, seed, positions=positions)
    batch = digits.test_batch(TASK, 2, 100, np.random.default_rng(0))
    answers = decode(model, TASK, batch)
    assert (matches(model, TASK, batch) == (answers == batch.labels).all(1)).all()
    wanted = np.random.default_rng(seed).integers(2, size=batch.labels.shape)
    wanted[::2] = answers[::2]
    found = matches(model, TASK, batch, wanted)
    assert (found == (answers == wanted).all(1)).all()
    assert found[::2].all()


def test_logits_are_those_of_the_whole_sequence_at_the_read_places():
    task = DigitsTask(digits=2, longest=3, separators=True)
    model = network(task)
    batch = digits.training_batch(task, 5, np.random.default_rng(0))
    tokens = torch.from_numpy(batch.tokens)
    with torch.no_grad():
        found = answer_logits(model, tokens, task.answer_slots)
        whole = model(tokens)[:, task.layout.read_places.tolist()]
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-3)


def test_other_answers_are_written_where_answers_stand():
    batch = digits.test_batch(TASK, 2, 100, np.random.default_rng(0))
    written = with_answers(TASK, batch, 1 - batch.labels)
    assert (written[:, -3:] == 1 - batch.labels).all()
    assert (written[:, :-3] == batch.tokens[:, :-3]).all()
    assert (batch.tokens[:, -3:] == batch.labels).all()
