"""Attribution patching: exact where the model is linear, finite differences elsewhere."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.gradients import attribution_patching
from mechint_arith.models.config import ModelConfig


@pytest.mark.parametrize("hook", ["mlp_out", "resid_post"])
def test_above_the_last_mlp_the_estimate_is_exact(model, pair, hook):
    found = attribution_patching(model, *pair, hook, layers=[1])
    np.testing.assert_allclose(found.error, 0, atol=1e-10)
    assert found.correlation == pytest.approx(1)


def test_the_estimate_is_the_slope_of_small_patches(model, pair):
    """Clean embeddings that are close to corrupted ones: the error falls with the square of the distance."""
    clean, corrupted = pair
    errors = []
    for size in (1e-2, 1e-3):
        near = make_near(model, size)
        options = {"layers": [1], "positions": "absolute"}
        found = attribution_patching(near, clean, corrupted, "resid_pre", **options)
        errors.append(np.abs(found.error).max())
        assert np.abs(found.exact.change).max() > 0
    assert errors[1] < errors[0] / 50


def make_near(model, size):
    """The model with embeddings shrunk around their mean, so that all inputs are alike."""
    from mechint_arith.models.hooked import HookedTransformer

    weights = {k: w.clone() for k, w in model.state_dict().items()}
    mean = weights["embed.W_E"].mean(0)
    weights["embed.W_E"] = mean + size * (weights["embed.W_E"] - mean)
    return HookedTransformer(model.config, weights).eval()


def test_every_hook_has_a_gradient(digits):
    model, clean, corrupted = digits
    for hook in ("resid_pre", "q", "k", "v", "attn_scores", "pattern", "z", "mlp_in", "post"):
        found = attribution_patching(
            model, clean, corrupted, hook, "mean margin", positions="absolute"
        )
        assert np.isfinite(found.estimate.patched).all()
        assert np.abs(found.estimate.change).max() > 0
    table = found.to_dataframe()
    assert {"effect", "estimate", "error", "low", "high"} <= set(table.columns)
    np.testing.assert_allclose(table.error, table.estimate - table.effect)


def test_gradients_equal_backward_hooks(model, pair):
    options = {"layers": [0], "positions": "absolute", "direction": "denoising"}
    found = attribution_patching(model, *pair, "resid_pre", **options)
    rows = torch.from_numpy(found.exact.rows)
    clean, corrupted = (torch.from_numpy(b.tokens)[rows] for b in pair)
    y, other = (torch.from_numpy(b.labels)[rows] for b in pair)
    kept = {}

    def keep(x, hook):
        x.retain_grad()
        kept["x"] = x

    z = model.run_with_hooks(corrupted, fwd_hooks=[("blocks.0.hook_resid_pre", keep)])[:, -1]
    (z.gather(1, y[:, None]) - z.gather(1, other[:, None])).sum().backward()
    with torch.no_grad():
        step = model(clean, stop_at_layer=0) - kept["x"]
        want = (step * kept["x"].grad).sum(-1).T
    np.testing.assert_allclose(found.estimate.change[0, 0], want, atol=1e-10)
    model.zero_grad()


def test_parameters_get_no_gradients_and_keep_their_flags(model, pair):
    attribution_patching(model, *pair, "z")
    assert all(w.grad is None and w.requires_grad for w in model.parameters())


def test_models_with_hooks_are_refused(model, pair):
    model.add_hook("hook_embed", lambda x, hook: None)
    try:
        with pytest.raises(InputError, match="without hooks"):
            attribution_patching(model, *pair, "z")
    finally:
        model.reset_hooks()


def test_norms_and_sinks_too(make_model, pair, task):
    config = ModelConfig(
        len(task.vocab),
        task.p,
        task.length,
        d_model=8,
        d_head=8,
        d_mlp=(6, 6),
        norm="rms",
        attn_sink=True,
    )
    found = attribution_patching(make_model(config), *pair, "resid_mid")
    assert np.isfinite(found.correlation)
