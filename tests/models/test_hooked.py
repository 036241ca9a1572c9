"""The hooked model against released logits, against TransformerLens' own model, and in what it refuses."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.bridge import state_dict
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import fold
from mechint_arith.models.init import initial_weights
from mechint_arith.models.layouts import from_transformer_lens
from mechint_arith.models.load import load_checkpoint

CONFIG = ModelConfig(
    d_vocab=13, d_vocab_out=7, n_ctx=6, d_model=16, d_head=4, n_heads=2, d_mlp=(0, 24)
)


@pytest.fixture(scope="module")
def hooked():
    from mechint_arith.models.hooked import HookedTransformer

    return HookedTransformer(CONFIG, initial_weights(CONFIG, 0)).eval()


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 13, (5, 6)))


@pytest.mark.parametrize("step", [501, 5401, 14001, 20001])
def test_golden_logits(reference, step):
    from mechint_arith.models.hooked import HookedTransformer

    golden = np.load(reference / "assign_and_add" / "golden.npz")
    tokens = torch.from_numpy(golden["tokens"].astype(np.int64))
    expected = torch.from_numpy(golden[f"logits_{step}"])
    c = load_checkpoint(reference / "assign_and_add" / f"checkpoint_step_{step}.pth")
    with torch.no_grad():
        torch.testing.assert_close(
            fold(c.config, c.weights)(tokens).logits, expected, rtol=0, atol=1e-3
        )
        hooked = HookedTransformer(c.config, c.weights)(tokens)[:, -1]
    torch.testing.assert_close(hooked, expected, rtol=0, atol=1e-3)


def test_initial_weights_are_the_released_runs(reference):
    released = load_checkpoint(reference / "assign_and_add" / "checkpoint_step_1.pth")
    ours = initial_weights(released.config, 42)
    for name, w in released.weights.items():
        # One AdamW step moves a weight by the learning rate, and decays it by 2e-5 of itself.
        assert (w - ours[name]).abs().max() < 1.01e-3, name


def test_initial_weights_leave_the_global_generator_alone():
    state = torch.random.get_rng_state()
    initial_weights(CONFIG, 0)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bridge_computes_the_same(hooked, tokens, dtype):
    model = hooked.to(dtype)
    with torch.no_grad():
        bridge = model.to_bridge()(tokens)
        expected = model(tokens)
    hooked.to(torch.float32)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(bridge[..., :7], expected, rtol=0, atol=tolerance)
    assert not bridge[..., 7:].any()


def test_exported_state_dict_reads_back_the_same(hooked):
    exported = state_dict(CONFIG, hooked.state_dict())
    assert not exported["blocks.0.mlp.W_in"].any()
    loaded = from_transformer_lens(exported, "export")
    assert loaded.config == CONFIG
    assert loaded.dropped == (
        "blocks.0.mlp",
        "zero attn biases",
        "zero mlp biases",
        "zero unembed biases",
    )
    for name, w in hooked.state_dict().items():
        assert torch.equal(loaded.weights[name], w)


def test_cache_has_every_hook_and_decomposes(hooked, tokens):
    logits, cache = hooked.run_with_cache(tokens)
    for layer in (0, 1):
        assert cache["pattern", layer].shape == (5, 2, 6, 6)
        assert cache["z", layer].shape == (5, 6, 2, 4)
    assert not cache["mlp_out", 0].any()
    parts, names = cache.decompose_resid(return_labels=True)
    assert names == ["embed", "pos_embed", "0_attn_out", "0_mlp_out", "1_attn_out", "1_mlp_out"]
    torch.testing.assert_close(parts.sum(0) @ hooked.W_U, logits, rtol=0, atol=1e-5)
    alone, single = hooked.run_with_cache(tokens[:1], remove_batch_dim=True)
    assert single["pattern", 1].shape == (2, 6, 6)
    torch.testing.assert_close(alone[0], logits[0])


def test_split_inputs_and_head_results_do_not_change_the_function(hooked, tokens):
    expected = hooked(tokens)
    hooked.set_use_split_qkv_input(True)
    hooked.set_use_attn_result(True)
    logits, cache = hooked.run_with_cache(tokens)
    hooked.set_use_split_qkv_input(False)
    hooked.set_use_attn_result(False)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    assert cache["result", 0].shape == (5, 6, 2, 16)
    torch.testing.assert_close(cache["result", 0].sum(2), cache["attn_out", 0], rtol=0, atol=1e-6)


def test_starting_and_stopping_at_a_layer(hooked, tokens):
    resid = hooked(tokens, stop_at_layer=1)
    torch.testing.assert_close(hooked(resid, start_at_layer=1), hooked(tokens))
    assert hooked(tokens, stop_at_layer=2).shape == (5, 6, 16)


def test_hooks_that_would_do_nothing_or_break_shapes_raise_and_leave_nothing_behind(hooked, tokens):
    expected = hooked(tokens)
    with pytest.raises(InputError, match="no hook point"):
        hooked.run_with_hooks(tokens, fwd_hooks=[("blocks.9.hook_resid_pre", lambda x, hook: x)])
    with pytest.raises(InputError, match="matches no hook point"):
        hooked.run_with_hooks(tokens, fwd_hooks=[(lambda name: False, lambda x, hook: x)])
    with pytest.raises(InputError, match="returned shape"):
        hooked.run_with_hooks(
            tokens, fwd_hooks=[("blocks.0.hook_resid_pre", lambda x, hook: x[:, :-1])]
        )
    assert torch.equal(hooked(tokens), expected)
    assert not any(point.has_hooks() for point in hooked.hook_dict.values())


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        (torch.full((1, 6), 13), "go from 0 to 12; got 13 to 13"),
        (torch.full((1, 6), -1), "got -1 to -1"),
        (torch.zeros(1, 7, dtype=torch.long), r"at most 6 positions; got \[1, 7\]"),
        (torch.zeros(6, dtype=torch.long), r"should be \[batch pos\].* got \[6\]"),
    ],
)
def test_tokens_that_the_model_does_not_have_are_refused(hooked, ids, complaint):
    for call in (hooked, hooked.run_with_hooks, hooked.run_with_cache):
        with pytest.raises(InputError, match=complaint):
            call(ids)


def always(x, hook):
    return x * 0


@pytest.mark.parametrize(
    ("point", "switch", "advice"),
    [
        ("blocks.0.attn.hook_result", "set_use_attn_result", "set_use_attn_result"),
        ("blocks.1.hook_q_input", "set_use_split_qkv_input", "set_use_split_qkv_input"),
        ("blocks.1.hook_k_input", "set_use_split_qkv_input", "set_use_split_qkv_input"),
        ("blocks.0.hook_v_input", "set_use_split_qkv_input", "set_use_split_qkv_input"),
        ("blocks.0.hook_mlp_in", None, "layer 0 has no MLP"),
    ],
)
def test_hooks_where_nothing_passes_raise_until_the_switch_is_set(
    hooked, tokens, point, switch, advice
):
    for name in (point, lambda name: name == point):
        with pytest.raises(InputError, match=advice):
            hooked.run_with_hooks(tokens, fwd_hooks=[(name, always)])
        with pytest.raises(InputError, match=advice):
            hooked.run_with_hooks(tokens, bwd_hooks=[(name, always)], reset_hooks_end=False)
        with pytest.raises(InputError, match=advice):
            hooked.add_hook(name, always)
        with pytest.raises(InputError, match=advice):
            hooked.add_perma_hook(name, always)
    cache, forward, _ = hooked.get_caching_hooks()
    hooked.run_with_hooks(tokens, fwd_hooks=forward)
    assert set(cache) == set(hooked.run_with_cache(tokens, return_cache_object=False)[1])
    assert point not in cache
    if switch is not None:
        expected = hooked(tokens)
        getattr(hooked, switch)(True)
        changed = hooked.run_with_hooks(tokens, fwd_hooks=[(point, always)])
        cached = hooked.run_with_cache(tokens, names_filter=point)[1]
        getattr(hooked, switch)(False)
        assert not torch.allclose(changed, expected)
        assert point in cached
    assert not any(p.has_hooks(including_permanent=True) for p in hooked.hook_dict.values())


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        ("resid_pre", "no hook point 'resid_pre'"),
        (["blocks.0.attn.hook_z", "blocks.0.hook_zz"], "no hook point 'blocks.0.hook_zz'"),
        ([], "matches no hook point"),
        (lambda name: name.endswith("resid"), "matches no hook point"),
        ("blocks.0.attn.hook_result", "set_use_attn_result"),
        (lambda name: "hook_result" in name, "set_use_attn_result"),
        (["blocks.1.hook_q_input"], "set_use_split_qkv_input"),
    ],
)
def test_a_cache_that_would_be_empty_is_refused(hooked, tokens, chosen, complaint):
    with pytest.raises(InputError, match=complaint):
        hooked.run_with_cache(tokens, names_filter=chosen)
    assert not any(point.has_hooks() for point in hooked.hook_dict.values())


def test_a_cache_holds_what_was_asked_for(hooked, tokens):
    names = {"blocks.0.attn.hook_z", "blocks.1.hook_resid_pre"}
    for chosen in (sorted(names), tuple(sorted(names)), lambda name: name in names):
        assert set(hooked.run_with_cache(tokens, names_filter=chosen)[1]) == names
    split = hooked.run_with_cache(tokens, names_filter=lambda name: "blocks.1" in name)[1]
    assert "blocks.1.attn.hook_result" not in split


def test_a_filter_that_also_matches_idle_points_is_fine(hooked, tokens):
    seen = []
    hooked.run_with_hooks(
        tokens, fwd_hooks=[(lambda name: True, lambda x, hook: seen.append(hook.name))]
    )
    assert "blocks.0.attn.hook_z" in seen
    assert "blocks.0.attn.hook_result" not in seen


def test_added_hooks_are_checked_like_those_of_one_run(hooked, tokens):
    with pytest.raises(InputError, match="no hook point"):
        hooked.add_hook("blocks.9.hook_resid_pre", always)
    with pytest.raises(InputError, match="matches no hook point"):
        hooked.add_hook(lambda name: False, always)
    hooked.add_hook("blocks.0.hook_resid_pre", lambda x, hook: x[:, :-1])
    with pytest.raises(InputError, match="returned shape"):
        hooked(tokens)
    hooked.reset_hooks()


def test_a_users_own_hook_survives_other_runs(hooked, tokens):
    seen = []
    hooked.add_hook("hook_embed", lambda x, hook: seen.append(1))
    hooked.run_with_hooks(tokens, fwd_hooks=[("hook_embed", lambda x, hook: x * 0)])
    hooked.run_with_cache(tokens)
    hooked(tokens)
    hooked.reset_hooks()
    assert len(seen) == 3


def test_an_in_place_hook_does_not_reach_the_parameters(hooked, tokens):
    before = {name: w.clone() for name, w in hooked.state_dict().items()}
    with torch.no_grad():
        for name in ("hook_embed", "hook_pos_embed"):
            hooked.run_with_hooks(tokens, fwd_hooks=[(name, lambda x, hook: x.mul_(2))])
    for name, w in hooked.state_dict().items():
        assert torch.equal(w, before[name])


def test_relative_rotary_norm_and_sink_options_run_and_are_refused_by_the_bridge():
    from mechint_arith.models.hooked import HookedTransformer

    options = {"positions": "relative", "norm": "rms", "attn_sink": True, "attn_content": False}
    config = ModelConfig(
        d_vocab=5, d_vocab_out=5, n_ctx=8, d_model=8, d_head=4, d_mlp=(8, 8), **options
    )
    model = HookedTransformer(config, initial_weights(config, 0))
    assert model(torch.zeros(2, 8, dtype=torch.long)).shape == (2, 8, 5)
    with pytest.raises(InputError, match="cannot express"):
        model.to_bridge()
