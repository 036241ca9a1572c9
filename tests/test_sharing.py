"""Evidence: exact effects against hooks, and the released run's known verdicts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mechint_arith import metrics, sharing
from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import fold
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.models.reader import Plain, reader
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched
from mechint_arith.verdict import judge

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
CONFIG = ModelConfig(
    d_vocab=len(TASK.vocab), d_vocab_out=7, n_ctx=10, d_model=12, d_head=6, d_mlp=(0, 20)
)
WEIGHTS = {name: 3 * w for name, w in initial_weights(CONFIG, 0, dtype=torch.float64).items()}


@pytest.fixture(scope="module")
def found() -> sharing.Evidence:
    return sharing.evidence(fold(CONFIG, WEIGHTS), TASK, seed=4, n_resamples=50)


def test_neuron_effects_are_hooked_zero_ablations(found):
    from mechint_arith.models.hooked import HookedTransformer

    rng = np.random.default_rng((4, 300))
    pair = np.tile(np.arange(49), 21)
    batch = matched(TASK, pair, rng)["left"]
    off = batch.factors["a"] != batch.factors["b"]
    tokens, labels = torch.from_numpy(batch.tokens[off]), torch.from_numpy(batch.labels[off])
    model = HookedTransformer(CONFIG, WEIGHTS)
    with torch.no_grad():
        intact = metrics.mean_margin(model(tokens)[:, 9], labels).mean()
        for neuron in (0, 7, 19):

            def zero(post, hook, neuron=neuron):
                post = post.clone()
                post[..., neuron] = 0
                return post

            logits = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.mlp.hook_post", zero)])
            damage = intact - metrics.mean_margin(logits[:, 9], labels).mean()
            assert found.routes["left"].effect[neuron] == pytest.approx(float(damage), abs=1e-10)


def test_the_plain_reader_gives_the_same_evidence(found):
    plain = sharing.evidence(
        Plain(Transformer(CONFIG, WEIGHTS).eval(), 9), TASK, seed=4, n_resamples=50
    )
    for name, pair in found.pairs.items():
        for index in ("sigma", "swap", "overlap", "act"):
            one, two = getattr(pair, index), getattr(plain.pairs[name], index)
            assert (one.value, one.low) == pytest.approx((two.value, two.low), abs=1e-5)


def test_counts_and_shapes(found):
    assert set(found.routes) == set(ROUTES)
    assert len(found.pairs) == 6
    assert found.n_pairs == 21
    assert found.n_prompts == 42 * 21
    for route in found.routes.values():
        assert route.effect.shape == (20,)
        assert route.accuracy.n == int(TASK.seen[np.arange(49) % 8 != 0].sum()) * 21


def test_an_untrained_network_looks_shared_but_is_not_competent(found):
    """Trap 1: without the competence gate a random network scores high."""
    assert judge(found).name == "not competent"


def test_a_modulus_without_pairs_to_compare_is_refused():
    task = AssignAdd(p=2, n_vars=4, length=10, never_left=1, never_right=1)
    config = replace(CONFIG, d_vocab=len(task.vocab), d_vocab_out=2)
    with pytest.raises(InputError, match="too small for a sharing verdict"):
        sharing.evidence(fold(config, initial_weights(config, 0)), task)


def test_the_smallest_moduli_are_measured():
    for p in (3, 4):
        task = AssignAdd(p=p, n_vars=2, length=8, never_left=0, never_right=0)
        config = replace(CONFIG, d_vocab=len(task.vocab), d_vocab_out=p, n_ctx=8)
        model = fold(config, initial_weights(config, 0))
        assert judge(sharing.evidence(model, task, n_resamples=20)).name == "not competent"


def test_seed_makes_evidence_reproducible(found):
    again = sharing.evidence(fold(CONFIG, WEIGHTS), TASK, seed=4, n_resamples=50)
    assert again.pairs["direct-left"].sigma == found.pairs["direct-left"].sigma


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        (1, "not competent"),
        (501, "not competent"),
        (5001, "not competent"),
        (6001, "shared"),
        (10001, "shared"),
        (20001, "shared"),
        (30001, "shared"),
    ],
)
def test_released_run(reference, step, verdict):
    c = load_checkpoint(reference / "assign_and_add" / f"checkpoint_step_{step}.pth")
    found = sharing.evidence(reader(c.config, c.weights, read=15), c.task, quick=True)
    judged = judge(found)
    assert judged.name == verdict
    if verdict == "shared":
        for name in sharing.JUDGED:
            assert judged.pairs[name].name == "shared"
            assert found.pairs[name].sigma.value >= 0.95
            assert 0.92 <= found.pairs[name].overlap.value <= 1
            assert all(e.value > 0.9 for e in found.pairs[name].interchange.values())
        assert all(r.zeroed.value <= 0.06 for r in found.routes.values())
    if step == 5001:
        assert judged.pairs["direct-right"].name == "shared"
        assert judged.pairs["direct-left"].name == judged.pairs["direct-both"].name == verdict


def test_two_disjoint_neuron_sets_are_separate(reference):
    """A planted negative by hand: half the neurons answer direct prompts, their copies the others."""
    c = load_checkpoint(reference / "assign_and_add" / "checkpoint_step_30001.pth")
    model = reader(c.config, c.weights, read=15)

    class Split:
        config, w_u = model.config, model.w_u
        w_logit = torch.cat([model.w_logit, model.w_logit])

        def __call__(self, tokens):
            run = model(tokens)
            direct = (tokens[:, 13] < 59)[:, None]
            post = torch.cat([run.post * direct, run.post * ~direct], 1)
            return replace(run, post=post)

        def after_mid(self, mid):
            post, logits = model.after_mid(mid)
            return torch.cat([post, 0 * post], 1), logits

        def logits_from(self, mid, post):
            return mid @ self.w_u + post @ self.w_logit

    judged = judge(sharing.evidence(Split(), c.task, quick=True))
    assert judged.pairs["direct-left"].name == "separate"
    assert judged.pairs["direct-both"].name == "separate"
    assert judged.pairs["direct-right"].name == "shared"
    assert judged.name == "partly shared"
    assert judged.index.value < 0.01
