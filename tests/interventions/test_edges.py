"""Attention knock-outs: zeroed entries against a hook, renormalised rows against scores of minus infinity."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.edges import VARIANTS, knock_out
from mechint_arith.interventions.site import Site
from mechint_arith.metrics import mean_margin
from mechint_arith.models.config import ModelConfig


def hooked(model, batch, name, change):
    with torch.no_grad():
        z = model.run_with_hooks(torch.from_numpy(batch.tokens), fwd_hooks=[(name, change)])
    return mean_margin(z[:, -1], torch.from_numpy(batch.labels)).numpy()


@pytest.mark.parametrize("head", [None, 1])
@pytest.mark.parametrize("layer", [0, 1])
def test_both_variants_equal_their_hooks(model, pair, layer, head):
    batch = pair[0]
    lhs, rhs, equals = (int(batch.positions[name][0]) for name in ("lhs", "rhs", "equals"))
    edge = Site("pattern", layer, "equals", key=("lhs", "rhs"), head=head)
    found = knock_out(model, batch, edge, "mean margin")
    heads = slice(None) if head is None else slice(head, head + 1)

    def filled(with_value):
        def change(x, hook):
            x = x.clone()
            x[:, heads, equals, [lhs, rhs]] = with_value
            return x

        return change

    want = [
        hooked(model, batch, f"blocks.{layer}.attn.hook_pattern", filled(0.0)),
        hooked(model, batch, f"blocks.{layer}.attn.hook_attn_scores", filled(-torch.inf)),
    ]
    np.testing.assert_allclose(found.patched[:, 0], want, atol=1e-10)
    assert found.axis("rest of the row").labels == VARIANTS


def test_edges_cut_together_and_places_that_move(model, routes):
    batch = routes[0]["both"]
    parts = tuple(Site("pattern", 1, "equals", key=f"value of {x}") for x in ("lhs", "rhs"))
    joint = Site("pattern", 1, "equals", key=("value of lhs", "value of rhs"))
    found = knock_out(model, batch, [parts, joint])
    np.testing.assert_allclose(found.patched[:, 0], found.patched[:, 1], atol=1e-12)
    layers = tuple(Site("pattern", layer, "equals", key="lhs") for layer in (0, 1))
    assert np.isfinite(knock_out(model, batch, [layers]).patched).all()


def test_a_row_cut_whole_stays_empty(model, pair):
    every = tuple(range(12))
    found = knock_out(model, pair[0], Site("pattern", 1, "equals", key=every), "mean margin")
    np.testing.assert_allclose(found.patched[0], found.patched[1], atol=1e-12)


def test_with_a_mixed_pattern_the_row_keeps_its_own_sum(make_model, task, pair):
    config = ModelConfig(
        len(task.vocab), task.p, task.length, d_model=8, d_head=8, d_mlp=(0, 6), attn_mix=0.5
    )
    model = make_model(config)
    found = knock_out(model, pair[0], Site("pattern", 1, "equals", key="lhs"), "mean margin")

    def refill(x, hook):
        cut = x.clone()
        cut[:, :, -1, 9] = 0
        cut[:, :, -1] *= x[:, :, -1].sum(-1, keepdim=True) / cut[:, :, -1].sum(-1, keepdim=True)
        return cut

    want = hooked(model, pair[0], "blocks.1.attn.hook_pattern", refill)
    np.testing.assert_allclose(found.patched[1, 0], want, atol=1e-10)


def test_what_is_no_edge_is_refused(model, pair):
    for site in (Site("z", 1), Site("pattern", 1, "equals"), Site("pattern", 1, key="lhs")):
        with pytest.raises(InputError, match="is no edge"):
            knock_out(model, pair[0], site)
    with pytest.raises(InputError, match="cannot change"):
        knock_out(model, pair[0], Site("pattern", 1, "lhs", key="plus"))
