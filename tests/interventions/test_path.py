"""Path patching against split hooks, TransformerLens, and sums over paths."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.patching import patch
from mechint_arith.interventions.path import path_patch
from mechint_arith.interventions.site import Site
from mechint_arith.metrics import logit_difference
from mechint_arith.tasks.contrasts import contrasting


class WithForksInAttention:
    """A model whose hook points have the names that TransformerLens' direct path patching asks for."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        return getattr(self.model, name)

    def run_with_hooks(self, tokens, *, fwd_hooks):
        hooks = [(name.replace("attn.hook_", "hook_"), fn) for name, fn in fwd_hooks]
        return self.model.run_with_hooks(tokens, fwd_hooks=hooks)


@pytest.mark.parametrize("part", ["q", "k", "v"])
def test_head_to_head_paths_equal_transformer_lens(model, pair, part):
    from transformer_lens.patching import get_act_patch_direct_path

    senders = [Site("z", 0, head=h) for h in range(2)]
    receivers = [Site(part, 1, head=h) for h in range(2)]
    found = path_patch(model, *pair, senders, receivers, direction="denoising")
    clean, corrupted = (batch[found.rows] for batch in pair)
    y, other = torch.from_numpy(clean.labels), torch.from_numpy(corrupted.labels)
    with torch.no_grad():
        caches = [model.run_with_cache(torch.from_numpy(b.tokens))[1] for b in (clean, corrupted)]
        for head in range(2):
            theirs = get_act_patch_direct_path(
                WithForksInAttention(model),
                torch.from_numpy(corrupted.tokens),
                *caches,
                lambda z: logit_difference(z[:, -1], y, other).mean(),
                0,
                head,
                part,
                verbose=False,
            )
            np.testing.assert_allclose(found.patched[0, head].mean(-1), theirs[1], rtol=1e-5)


def test_all_paths_of_the_last_layer_make_the_whole_patch(model, pair):
    """What attention 1 writes is read by the MLP and by the logits alone; together they are the patch."""
    found = path_patch(
        model, *pair, Site("attn_out", 1), [Site("mlp_in", 1), Site("resid_post", 1)]
    )
    straight = found.select(sender="attn_out 1", receiver="resid_post 1")
    for name, (base, donor) in {"denoising": pair[::-1], "noising": pair}.items():
        rows = torch.from_numpy(found.rows)
        tokens = [torch.from_numpy(b.tokens)[rows] for b in (base, donor)]
        with torch.no_grad():
            (_, here), (_, there) = (model.run_with_cache(t) for t in tokens)
            step = (there["attn_out", 1] - here["attn_out", 1])[:, -1] @ model.W_U
        y, other = (torch.from_numpy(b.labels)[rows] for b in pair)
        np.testing.assert_allclose(
            straight.select(direction=name).change, logit_difference(step, y, other), atol=1e-10
        )


def test_a_path_into_the_mlp_equals_a_hook_that_only_it_reads(model, pair):
    found = path_patch(model, *pair, Site("z", 0, head=1), Site("mlp_in", 1), direction="noising")
    rows = torch.from_numpy(found.rows)
    clean, corrupted = (torch.from_numpy(b.tokens)[rows] for b in pair)
    with torch.no_grad():
        (_, here), (_, there) = (model.run_with_cache(t) for t in (clean, corrupted))
        delta = (there["z", 0] - here["z", 0])[:, :, 1] @ model.blocks[0].attn.W_O[1]
        z = model.run_with_hooks(
            clean, fwd_hooks=[("blocks.1.hook_mlp_in", lambda x, hook: x + delta)]
        )[:, -1]
    y, other = (torch.from_numpy(b.labels)[rows] for b in pair)
    np.testing.assert_allclose(found.patched[0, 0, 0], logit_difference(z, y, other), atol=1e-10)


def test_the_embedding_and_named_positions_can_send(model, routes):
    clean, corrupted = (r["both"] for r in routes)
    parts = [Site("resid_pre", 0, "value of lhs"), Site("resid_pre", 0, "variable of lhs")]
    found = path_patch(model, clean, corrupted, parts, [Site(x, 1) for x in "qkv"])
    assert found.select(receiver="q 1").inert is not None
    assert found.select(receiver="q 1").inert.all()
    assert not found.select(receiver="v 1").inert.any()
    whole = path_patch(model, clean, corrupted, Site("resid_pre", 0), Site("v", 0))
    split = patch(model, clean, corrupted, Site("v", 0))
    np.testing.assert_allclose(whole.patched[:, 0, 0], split.patched[:, 0], atol=1e-10)


@pytest.mark.parametrize(("operand", "route"), [("lhs", "both"), ("rhs", "right")])
def test_queries_tell_prompts_apart_that_ask_for_other_variables(model, task, operand, route):
    asked = contrasting(task, route, 30, change=f"variable of {operand}")
    found = path_patch(model, *asked, Site("z", 0, "equals"), Site("q", 1, "equals"))
    assert np.abs(found.change).max(-1).min() > 1e-3
    query = path_patch(model, *asked, Site("resid_pre", 0, operand), Site("v", 0))
    assert np.abs(query.change).max(-1).min() > 1e-3
    whole = patch(model, *asked, Site("resid_pre", 0, operand))
    np.testing.assert_allclose(whole.per_example, 1, atol=1e-10)


def test_neurons_and_mlps_send(digits):
    model, clean, corrupted = digits
    senders = [Site("mlp_out", 0), Site("post", 0), Site("post", 0, neurons=(1, 2))]
    found = path_patch(model, clean, corrupted, senders, [Site("k", 1, head=0), Site("mlp_in", 1)])
    np.testing.assert_allclose(found.patched[:, 0], found.patched[:, 1], atol=1e-10)
    assert np.abs(found.patched[:, 1] - found.patched[:, 2]).max() > 1e-6


def test_what_has_no_path_is_inert_and_only_that_is_refused(model, pair):
    found = path_patch(
        model, *pair, [Site("z", 0, head=0), Site("mlp_out", 1)], [Site("q", 1), Site("mlp_in", 1)]
    )
    assert found.inert[0].tolist() == [[False, False], [True, True]]
    assert not found.change[found.inert].any()
    with pytest.raises(InputError, match="comes before"):
        path_patch(model, *pair, Site("mlp_out", 1), Site("v", 1))
    with pytest.raises(InputError, match="writes where"):
        path_patch(model, *pair, Site("z", 0, "lhs"), Site("q", 1))
    with pytest.raises(InputError, match="no sender"):
        path_patch(model, *pair, Site("resid_pre", 1), Site("q", 1))
    with pytest.raises(InputError, match="no receiver"):
        path_patch(model, *pair, Site("z", 0), Site("resid_post", 0))
