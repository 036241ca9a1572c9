"""Every edge against an intervention made by hooks on the hooked model, and the ends: no edge cut, all cut."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mechint_arith.circuits.measured import Measurement
from mechint_arith.errors import InputError
from mechint_arith.interventions.path import path_patch
from mechint_arith.interventions.site import Site
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.hooked import HookedTransformer
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd, matched
from mechint_arith.tasks.counterparts import counterparts

TASK = AssignAdd(p=7, n_vars=5, length=12, never_left=1, never_right=1)
PLAIN = ModelConfig(
    len(TASK.vocab), TASK.p, TASK.length, n_heads=2, d_model=16, d_head=8, d_mlp=(0, 12)
)
CONFIGS = {
    "as in the paper": PLAIN,
    "MLP in layer 0": replace(PLAIN, d_mlp=(10, 12)),
    "biases": replace(PLAIN, attn_bias=True, mlp_bias=True, unembed_bias=True),
    "norm": replace(PLAIN, norm="rms", d_mlp=(10, 12)),
    "rotary": replace(PLAIN, positions="rotary"),
    "relative, sink": replace(PLAIN, positions="relative", attn_sink=True),
    "one layer": replace(PLAIN, n_layers=1, d_mlp=(12,)),
    "three layers": replace(PLAIN, n_layers=3, d_mlp=(0, 10, 12)),
}
CLUSTERS = {"first": list(range(5)), "rest": list(range(5, 12))}


def model_of(config):
    weights = initial_weights(config, 3, dtype=torch.float64)
    rng = torch.Generator().manual_seed(5)
    weights = {
        name: w if w.any() else torch.randn(w.shape, generator=rng, dtype=w.dtype)
        for name, w in weights.items()
    }
    return HookedTransformer(config, weights, task=TASK).eval().requires_grad_(False)


def measured(config, *, route="both", n=6, **options):
    rng = np.random.default_rng(1)
    clean = matched(TASK, rng.integers(0, TASK.p**2, n), rng)
    corrupted = counterparts(TASK, clean, rng)
    model = model_of(config)
    ends = (clean[route], corrupted[route])
    return Measurement(model, *ends, route=route, competent=0.0, **options), model, ends


def by_hooks(model, measurement, base, other, sender, receiver):
    """Logits with one edge cut, by hooks alone: write of the sender from caches, forked inputs of the receiver."""
    wiring = measurement.wiring
    model.set_use_attn_result(True)
    model.set_use_split_qkv_input(True)
    caches = [model.run_with_cache(batch, return_cache_object=False)[1] for batch in (base, other)]
    here, there = (write_in(model, wiring, cache, sender) for cache in caches)
    difference = (there - here) * wiring.at[sender.position][..., None]
    if receiver.kind == "logits":
        last = f"blocks.{model.config.n_layers - 1}.hook_resid_post"
        return model.run_with_hooks(base, fwd_hooks=[(last, lambda x, hook: x + difference)])[:, -1]
    block = f"blocks.{receiver.layer}."
    if receiver.kind == "head":
        names = [f"{block}hook_{which}_input" for which in "qkv"]

        def fork(x, hook):
            x = x.clone()
            x[:, :, receiver.head] += difference
            return x

        changed, place = fork, f"{block}attn.hook_result"
    else:
        names, changed = [f"{block}hook_mlp_in"], lambda x, hook: x + difference
        place = f"{block}mlp.hook_post"
    kept = {}
    hooks = [(name, changed) for name in names]
    hooks.append((place, lambda x, hook: kept.__setitem__("new", x.clone())))
    model.run_with_hooks(base, fwd_hooks=hooks)
    where = wiring.at[receiver.position]

    def put(x, hook):
        x = x.clone()
        if receiver.kind == "head":
            x[:, :, receiver.head][where] = kept["new"][:, :, receiver.head][where]
        else:
            chosen = torch.zeros(x.shape[-1], dtype=torch.bool)
            chosen[wiring.neurons.get(receiver.id, slice(None))] = True
            inside = where[..., None] & chosen
            x[inside] = kept["new"][inside]
        return x

    return model.run_with_hooks(base, fwd_hooks=[(place, put)])[:, -1]


def write_in(model, wiring, cache, node):
    if node.kind == "embedding":
        return cache["blocks.0.hook_resid_pre"]
    block = f"blocks.{node.layer}."
    if node.kind == "head":
        return cache[f"{block}attn.hook_result"][:, :, node.head]
    chosen = wiring.neurons.get(node.id, slice(None))
    w_out = model.blocks[node.layer].mlp.W_out
    return cache[f"{block}mlp.hook_post"][..., chosen] @ w_out[chosen]


@pytest.mark.parametrize("name", CONFIGS)
def test_each_edge_is_the_effect_of_intervening_on_it_through_hooks(name):
    options = {"neurons": CLUSTERS} if name in ("as in the paper", "biases") else {}
    measurement, model, (clean, corrupted) = measured(CONFIGS[name], **options)
    wiring, tokens = measurement.wiring, [torch.from_numpy(b.tokens) for b in (clean, corrupted)]
    rng = np.random.default_rng(2)
    some = rng.permutation(len(wiring.edges))[:25]
    effects = {edge.ends: edge.effect for edge in measurement.circuit.edges}
    changed = 0
    for ends in [wiring.edges[i] for i in some] + list(wiring.edges[-3:]):
        sender, receiver = (wiring.nodes[end] for end in ends)
        expected = by_hooks(model, measurement, *tokens, sender, receiver)
        found = wiring.run(measurement.clean, measurement.corrupted, [ends])
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        m, base, other = (
            measurement._metric_of(x)
            for x in (expected, measurement.clean.logits, measurement.corrupted.logits)
        )
        assert effects[ends] == pytest.approx((m - base).mean() / (other - base).mean(), abs=1e-9)
        changed += not torch.allclose(expected, measurement.clean.logits)
    assert changed >= 5


@pytest.mark.parametrize(
    ("name", "route"),
    [*((name, "both") for name in CONFIGS), *(("biases", r) for r in ("direct", "left", "right"))],
)
def test_no_edge_cut_is_one_run_and_all_cut_is_the_other(name, route):
    measurement, model, (clean, corrupted) = measured(CONFIGS[name], route=route)
    runs = measurement.clean, measurement.corrupted
    wiring = measurement.wiring
    for flow, batch in zip(runs, (clean, corrupted), strict=True):
        plain = model(torch.from_numpy(batch.tokens))[:, -1]
        torch.testing.assert_close(flow.logits, plain, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(wiring.run(*runs, []), runs[0].logits, rtol=1e-9, atol=1e-9)
    whole = wiring.run(*runs, wiring.edges)
    torch.testing.assert_close(whole, runs[1].logits, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("direction", ["noising", "denoising"])
def test_edges_into_the_mlp_and_the_logits_are_path_patches(direction):
    measurement, model, ends = measured(PLAIN, direction=direction, n=12)
    sites = {"mlp 1": Site("mlp_in", 1, "equals"), "logits": Site("resid_post", 1, "equals")}
    senders = {
        "head 0.0 equals": Site("z", 0, "equals", head=0),
        "head 0.1 equals": Site("z", 0, "equals", head=1),
        "head 1.0": Site("z", 1, "equals", head=0),
        "head 1.1": Site("z", 1, "equals", head=1),
    }
    paths = path_patch(
        model,
        *ends,
        list(senders.values()),
        list(sites.values()),
        "mean margin",
        direction=direction,
    )
    effects = {edge.ends: edge for edge in measurement.circuit.edges}
    for i, sender in enumerate(senders):
        for j, receiver in enumerate(sites):
            one = paths.summary("ratio of means")
            edge = effects[sender, receiver]
            assert edge.effect == pytest.approx(float(one.value[0, i, j]), abs=1e-9)
            assert (edge.low, edge.high) == pytest.approx(
                (float(one.low[0, i, j]), float(one.high[0, i, j])), abs=1e-9
            )
            assert edge.n == int(one.n[0, i, j])


def test_memory_changes_nothing():
    measurement, _, _ = measured(CONFIGS["MLP in layer 0"])
    runs = measurement.clean, measurement.corrupted
    edges, rng = measurement.wiring.edges, np.random.default_rng(0)
    memory = {}
    for _ in range(6):
        cut = [edges[i] for i in np.flatnonzero(rng.random(len(edges)) < 0.4)]
        with_memory = measurement.wiring.run(*runs, cut, memory=memory)
        without = measurement.wiring.run(*runs, cut)
        torch.testing.assert_close(with_memory, without, rtol=1e-12, atol=1e-12)
    assert memory


def test_edges_that_are_not_there_are_refused():
    measurement, _, _ = measured(PLAIN)
    with pytest.raises(InputError, match="no edge logits -> mlp 1 in this model"):
        measurement.wiring.run(measurement.clean, measurement.corrupted, [("logits", "mlp 1")])


def test_clusters_of_neurons_sum_to_the_mlp_at_the_logits():
    whole, _, _ = measured(PLAIN)
    parts, _, _ = measured(PLAIN, neurons=CLUSTERS)
    whole, parts = ({e.ends: e.effect for e in m.circuit.edges} for m in (whole, parts))
    summed = sum(parts[name, "logits"] for name in CLUSTERS)
    assert summed == pytest.approx(whole["mlp 1", "logits"], abs=1e-9)
