"""Frequencies kept and removed: exact identities, both ways round, against a hand-made adder."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.frequencies import (
    SITES,
    changed_logits,
    effects,
    intact,
    intervene,
    modular_table,
    record,
    route_tables,
)
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd
from mechint_arith.tasks.modular import ModularTask

P = 11
EVERY = range(1, P // 2 + 1)


def modular(op="add", **options):
    task = ModularTask(p=P, op=op, train_share=0.5, **options)
    config = ModelConfig(
        d_vocab=len(task.vocab),
        d_vocab_out=P,
        n_ctx=task.length,
        n_layers=1,
        n_heads=2,
        d_model=8,
        d_head=4,
        d_mlp=(12,),
    )
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in parameter_shapes(config).items()
    }
    return record(config, weights, modular_table(task))


@pytest.mark.parametrize("site", ["embeddings", "logits"])
def test_keeping_nothing_leaves_the_mean_and_removing_nothing_changes_nothing(site):
    recorded = modular()
    same = changed_logits(recorded, (), site=site, keep=False)
    torch.testing.assert_close(same, recorded.run.logits)
    mean = changed_logits(recorded, (), site=site, keep=True)
    torch.testing.assert_close(mean, mean[:1].expand_as(mean))


def test_all_frequencies_of_the_embeddings_are_the_embeddings():
    recorded = modular()
    torch.testing.assert_close(
        changed_logits(recorded, EVERY, site="embeddings", keep=True), recorded.run.logits
    )


@pytest.mark.parametrize("site", ["neurons", "logits"])
@pytest.mark.parametrize("keep", [True, False])
def test_the_mean_over_pairs_stays(site, keep):
    recorded = modular()
    changed = changed_logits(recorded, (2, 3), site=site, keep=keep)
    torch.testing.assert_close(changed.mean(0), recorded.run.logits.mean(0))


@pytest.mark.parametrize("site", ["neurons", "logits"])
def test_kept_and_removed_make_up_the_whole(site):
    recorded = modular()
    kept, removed = (
        changed_logits(recorded, (1, 4), site=site, keep=keep) for keep in (True, False)
    )
    # What bypasses the neurons is in both halves.
    nothing = changed_logits(recorded, (), site=site, keep=True)
    torch.testing.assert_close(kept + removed - nothing, recorded.run.logits)


@pytest.mark.parametrize("op", ["sub", "mul", "div"])
def test_the_table_is_in_the_order_in_which_the_answer_is_a_sum(op):
    recorded = modular(op)
    n = recorded.table.n
    labels = recorded.table.square(recorded.table.labels)
    i, j = np.ogrid[:n, :n]
    assert all(len(set(labels[(i + j) % n == s])) == 1 for s in range(n))


def test_an_adder_of_one_frequency_fails_without_it():
    """Logits cos w(a+b-c) at frequency 3, put in by hand."""
    recorded = modular()
    i, j = np.divmod(np.arange(P * P), P)
    wave = np.cos(2 * np.pi * 3 * (i + j)[:, None] / P - 2 * np.pi * 3 * np.arange(P) / P)
    recorded.run.logits.copy_(torch.from_numpy(wave))
    rng = np.random.default_rng(0)
    assert intact(recorded, rng=rng).accuracy.value == 1.0
    kept = intervene(recorded, (3,), site="logits", keep=True, n_controls=3, rng=rng)
    removed = intervene(recorded, (3,), site="logits", keep=False, n_controls=3, rng=rng)
    assert (kept.accuracy.value, removed.control) == (1.0, 1.0)
    assert max(removed.accuracy.value, kept.control) < 0.2
    assert kept.loss.value < removed.loss.value


def test_every_route_of_assign_and_add():
    task = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
    config = ModelConfig(
        d_vocab=len(task.vocab), d_vocab_out=7, n_ctx=10, d_model=8, d_head=4, d_mlp=(0, 12)
    )
    generator = torch.Generator().manual_seed(0)
    weights = {k: torch.randn(s, generator=generator) for k, s in parameter_shapes(config).items()}
    tables = route_tables(task)
    assert tuple(tables) == ROUTES
    for table in tables.values():
        found = effects(record(config, weights, table), (1, 2), rng=np.random.default_rng(0))
        assert [e.site for e in found] == ["intact", *(s for s in SITES for _ in range(2))]
        assert all(e.accuracy.n == 28 for e in found)


def test_what_cannot_be_changed_is_refused():
    recorded = modular()
    with pytest.raises(InputError, match="embeddings, mlp_in, neurons, logits"):
        changed_logits(recorded, (1,), site="heads", keep=True)
    with pytest.raises(InputError, match="constant"):
        intervene(recorded, (0,), site="logits", keep=True, rng=np.random.default_rng(0))
