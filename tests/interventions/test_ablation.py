"""Ablations against hooks and against facts about means, donors and constants."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.ablation import KINDS, ablate, orthonormal
from mechint_arith.interventions.references import averages, others, routes
from mechint_arith.interventions.site import Site
from mechint_arith.metrics import mean_margin
from mechint_arith.tasks.batch import concatenate


@pytest.fixture(scope="module")
def mixed(routes):
    """Direct and two-variable prompts in one batch of 40."""
    return concatenate([routes[0]["direct"], routes[0]["both"]])


def hooked(model, batch, name, change):
    tokens, y = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
    with torch.no_grad():
        z = model.run_with_hooks(tokens, fwd_hooks=[(name, change)])[:, batch.read]
    return mean_margin(z, y).numpy()


def test_zeroing_equals_a_hook(model, mixed):
    found = ablate(model, mixed, [Site("mlp_out", 1), Site("z", 0, head=1)])
    want = hooked(model, mixed, "blocks.1.hook_mlp_out", lambda x, hook: x * 0)
    np.testing.assert_allclose(found.patched[0, 0], want, atol=1e-10)

    def one_head(z, hook):
        return torch.stack([z[:, :, 0], z[:, :, 1] * 0], 2)

    want = hooked(model, mixed, "blocks.0.attn.hook_z", one_head)
    np.testing.assert_allclose(found.patched[0, 1], want, atol=1e-10)
    np.testing.assert_allclose(found.base, hooked(model, mixed, "hook_embed", lambda x, hook: x))


def test_the_pooled_mean_leaks_the_route_that_the_mean_per_route_keeps(model, mixed):
    site = Site("resid_mid", 1, "equals")
    _, cache = model.run_with_cache(torch.from_numpy(mixed.tokens))
    value = cache["blocks.1.hook_resid_mid"][:, -1]
    pooled = averages(model, mixed, [site])[0][0]
    torch.testing.assert_close(pooled[0], value.mean(0))
    per_route = averages(model, mixed, [site], per_route=True)
    assert sorted(per_route) == [0, 3]
    torch.testing.assert_close(per_route[3][0][0], value[20:].mean(0))
    found = ablate(model, mixed, site, ("mean pooled", "mean per route"))
    model_of = [
        value.mean(0).expand(40, -1),
        torch.cat([value[:20].mean(0).expand(20, -1), value[20:].mean(0).expand(20, -1)]),
    ]
    for got, mean in zip(found.patched[:, 0], model_of, strict=True):

        def put(x, hook, mean=mean):
            x = x.clone()
            x[:, -1] = mean
            return x

        np.testing.assert_allclose(
            got, hooked(model, mixed, "blocks.1.hook_resid_mid", put), atol=1e-10
        )


def test_donors_come_from_the_same_route_with_another_answer(mixed, rng):
    drawn = others(mixed, mixed, rng)
    assert (routes(mixed)[drawn] == routes(mixed)).all()
    assert (mixed.labels[drawn] != mixed.labels).all()
    with pytest.raises(InputError, match="route 3 have no reference row"):
        others(mixed, mixed[:20], rng)


def test_resampling_equals_a_hook_with_the_donors_values(model, mixed):
    found = ablate(model, mixed, Site("mlp_out", 1, "equals"), "resample", seed=7)
    donors = mixed.tokens[others(mixed, mixed, np.random.default_rng(7))]
    _, cache = model.run_with_cache(torch.from_numpy(donors))

    def put(x, hook):
        x = x.clone()
        x[:, -1] = cache[hook.name][:, -1]
        return x

    want = hooked(model, mixed, "blocks.1.hook_mlp_out", put)
    np.testing.assert_allclose(found.patched[0, 0], want, atol=1e-10)


def test_the_optimal_constant_loses_least(model, mixed):
    for site in (Site("z", 0, head=0), Site("mlp_out", 1, "equals")):
        found = ablate(model, mixed, site, ("zero", "mean pooled", "optimal constant"), "loss")
        zero, mean, best = found.patched.mean(-1)[:, 0]
        assert best <= mean + 1e-9
        assert best < zero
    assert found.select(ablation="optimal constant").what == "ablation"


def test_a_subspace_is_removed_and_the_rest_stays(model, mixed):
    rng = torch.Generator().manual_seed(0)
    basis = orthonormal(torch.randn(16, 3, generator=rng, dtype=torch.float64))
    found = ablate(model, mixed, Site("resid_pre", 1, subspace=basis))
    project = torch.eye(16, dtype=torch.float64) - basis @ basis.T
    want = hooked(model, mixed, "blocks.1.hook_resid_pre", lambda x, hook: x @ project)
    np.testing.assert_allclose(found.patched[0, 0], want, atol=1e-10)
    one = orthonormal(torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(one.abs(), torch.tensor([[0.6], [0.8]]))
    with pytest.raises(InputError, match="linearly independent"):
        orthonormal(torch.ones(4, 2))


def test_each_kind_runs_on_each_sort_of_site_and_several_at_once(model, mixed):
    sites = [
        Site("resid_pre", 1, "value of lhs"),
        Site("v", 1, "value of rhs", head=0),
        Site("pattern", 1, "equals", key=("lhs", "rhs")),
        Site("post", 1, neurons=(1, 5)),
        (Site("z", 0, head=0), Site("post", 1, neurons=(3,))),
    ]
    for some, kinds in ((sites, KINDS[:-1]), (sites[-1:], KINDS[-1:])):
        found = ablate(model, mixed, some, kinds)
        assert found.patched.shape == (len(kinds), len(some), 40)
        assert np.isfinite(found.patched).all()
        assert (np.abs(found.change).max(-1) > 0).all()
        assert found.axis("ablation").labels == kinds


def test_digit_models_are_ablated_at_every_read_position(digits):
    model, batch, _ = digits
    found = ablate(model, batch, Site("mlp_out", 1))
    tokens, y = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
    with torch.no_grad():
        z = model.run_with_hooks(
            tokens, fwd_hooks=[("blocks.1.hook_mlp_out", lambda x, hook: x * 0)]
        )[:, 5:8]
    np.testing.assert_allclose(found.patched[0, 0], mean_margin(z, y).mean(1), atol=1e-10)


def test_refusals(model, mixed, routes):
    with pytest.raises(InputError, match="no ablation 'noise'"):
        ablate(model, mixed, Site("mlp_out", 1), "noise")
    with pytest.raises(InputError, match="at least one site"):
        ablate(model, mixed, [])
    with pytest.raises(InputError, match="has no row of route 3"):
        ablate(model, mixed, Site("mlp_out", 1), "mean per route", reference=mixed[:20])
    with pytest.raises(InputError, match="cannot change"):
        ablate(model, mixed, Site("mlp_out", 1, "lhs"))
    model.add_hook("hook_embed", lambda x, hook: None)
    try:
        with pytest.raises(InputError, match="without hooks"):
            ablate(model, mixed, Site("mlp_out", 1), "optimal constant")
    finally:
        model.reset_hooks()
