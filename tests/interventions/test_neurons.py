"""Single neurons in closed form against hooked runs."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.neurons import ablate_neurons, linear_effects, logits_without
from mechint_arith.metrics import margin, mean_margin
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import fold


def one_by_one(model, batch, metric, layer, replacement):
    """The metric with each neuron set to its replacement by a hook, [neuron batch]."""
    tokens, y = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
    reads = slice(batch.read, batch.read + (y.shape[1] if y.ndim == 2 else 1))
    y = y.reshape(len(y), -1)
    found = []
    for n in range(model.config.d_mlp[layer]):

        def put(x, hook, n=n):
            x = x.clone()
            x[..., n] = replacement[n]
            return x

        with torch.no_grad():
            z = model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.mlp.hook_post", put)])
        found.append(metric(z[:, reads], y).double().mean(-1))
    return torch.stack(found).numpy()


@pytest.mark.parametrize("name", ["mean margin", "margin", "correct"])
def test_every_neuron_equals_its_hooked_run(model, pair, name):
    metric = {
        "mean margin": mean_margin,
        "margin": margin,
        "correct": lambda z, y: z.argmax(-1) == y,
    }[name]
    replacement = torch.linspace(0, 2, 20, dtype=torch.float64)
    for r in (torch.zeros(20, dtype=torch.float64), replacement):
        want = one_by_one(model, pair[0], metric, 1, r)
        for m in (model, fold(model.config, model.state_dict())):
            found = ablate_neurons(m, pair[0], name, replacement=r)
            np.testing.assert_allclose(found.patched, want, atol=1e-10)
    assert found.axis("neuron").labels == tuple(range(20))


def test_answers_of_several_tokens_and_small_budgets(digits):
    model, batch, _ = digits
    want = one_by_one(model, batch, margin, 1, torch.zeros(8))
    for budget in (2**26, 1000):
        found = ablate_neurons(model, batch, "margin", budget=budget)
        np.testing.assert_allclose(found.patched, want, atol=1e-10)
    linear = ablate_neurons(model, batch)
    want = one_by_one(model, batch, mean_margin, 1, torch.zeros(8))
    np.testing.assert_allclose(linear.patched, want, atol=1e-10)


def test_the_pure_functions_agree():
    generator = torch.Generator().manual_seed(0)
    post, w = torch.rand(6, 4, generator=generator), torch.randn(4, 7, generator=generator)
    logits, y = torch.randn(6, 7, generator=generator), torch.arange(6)
    without = logits_without(logits, post, w, replacement=0.5)
    effects = linear_effects(post, w, y, replacement=0.5)
    change = mean_margin(without, y.expand(4, -1)) - mean_margin(logits, y)
    torch.testing.assert_close(effects, change.T, rtol=1e-4, atol=1e-5)


def test_models_without_the_closed_form_are_refused(make_model, task, pair, model):
    def shaped(**options):
        return make_model(
            ModelConfig(len(task.vocab), task.p, task.length, d_model=8, d_head=8, **options)
        )

    with pytest.raises(InputError, match="no MLP"):
        ablate_neurons(shaped(d_mlp=(4, 0)), pair[0])
    with pytest.raises(InputError, match="a norm follows"):
        ablate_neurons(shaped(d_mlp=(0, 4), norm="rms"), pair[0])
    with pytest.raises(InputError, match="one replacement per neuron"):
        ablate_neurons(model, pair[0], replacement=torch.zeros(3))
    with pytest.raises(InputError, match="reads position 4"):
        ablate_neurons(fold(model.config, model.state_dict(), read=4), pair[0])
