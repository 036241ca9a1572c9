"""Activation patching: exact identities, one at a time, TransformerLens, and a model that stays as it was."""

import contextlib
import hashlib
import io

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.patching import patch, sweep
from mechint_arith.interventions.site import Site
from mechint_arith.metrics import logit_difference
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

TRANSFORMER_LENS = {
    "resid_pre": "resid_pre",
    "resid_mid": "resid_mid",
    "attn_out": "attn_out",
    "mlp_out": "mlp_out",
    "z": "attn_head_out_by_pos",
    "q": "attn_head_q_by_pos",
    "k": "attn_head_k_by_pos",
    "v": "attn_head_v_by_pos",
    "pattern": "attn_head_pattern_by_pos",
}


def theirs(model, clean, corrupted, hook, read):
    """TransformerLens' sweep, [layer position … example]: clean activations into the corrupted run."""
    from transformer_lens import patching

    y, other = torch.from_numpy(clean.labels), torch.from_numpy(corrupted.labels)
    default = torch.get_default_dtype()
    torch.set_default_dtype(model.W_U.dtype)
    try:
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
            _, cache = model.run_with_cache(torch.from_numpy(clean.tokens))
            found = getattr(patching, f"get_act_patch_{TRANSFORMER_LENS[hook]}")(
                model,
                torch.from_numpy(corrupted.tokens),
                cache,
                lambda z: logit_difference(z[:, read], y, other),
                reduce="none",
            ).values
    finally:
        torch.set_default_dtype(default)
    return (found.transpose(1, 2) if hook == "pattern" else found).double().numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hook", TRANSFORMER_LENS)
def test_every_sweep_equals_transformer_lens(make_model, config, pair, hook, dtype):
    model = make_model(config, dtype=dtype)
    found = sweep(model, *pair, hook, positions="absolute", direction="denoising")
    clean, corrupted = (batch[found.rows] for batch in pair)
    oracle = theirs(model, clean, corrupted, hook, config.n_ctx - 1)
    oracle = oracle[list(found.axis("layer").labels)]
    gap = found.gap[0]
    ours = found.change[0]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    ratio = ours.mean(-1) / gap.mean(-1)
    want = (oracle - found.base[0]).mean(-1) / gap.mean(-1)
    np.testing.assert_allclose(ratio, want, atol=tolerance, rtol=0)
    np.testing.assert_allclose(ours, oracle - found.base[0], atol=30 * tolerance, rtol=0)


def test_a_one_layer_model_equals_transformer_lens(modular):
    model, clean, corrupted = modular
    for hook in ("resid_pre", "z", "mlp_out"):
        found = sweep(model, clean, corrupted, hook, positions="absolute", direction="denoising")
        kept = [batch[found.rows] for batch in (clean, corrupted)]
        np.testing.assert_allclose(found.patched[0], theirs(model, *kept, hook, 2), atol=1e-10)


def cells_alone(model, clean, corrupted, found, hook, positions):
    """Every cell run alone, with hooks on the plain model: denoising, [layer position example]."""
    y, other = (torch.from_numpy(b.labels) for b in (clean, corrupted))
    reads = [clean.read + i for i in range(y.shape[1] if y.ndim == 2 else 1)]
    y, other = (x.reshape(len(x), -1) for x in (y, other))
    _, cache = model.run_with_cache(torch.from_numpy(clean.tokens))
    result = []
    for layer in found.axis("layer").labels:
        for position in positions:
            name = f"blocks.{layer}.hook_{hook}"

            def put(x, hook, position=position):
                x = x.clone()
                x[:, position] = cache[hook.name][:, position]
                return x

            with torch.no_grad():
                z = model.run_with_hooks(
                    torch.from_numpy(corrupted.tokens), fwd_hooks=[(name, put)]
                )[:, reads]
            result.append(logit_difference(z, y, other).mean(-1).numpy())
    return np.stack(result).reshape(len(found.axis("layer").labels), len(positions), -1)


def test_answers_of_several_tokens(digits):
    model, clean, corrupted = digits
    for hook in ("resid_pre", "attn_out", "mlp_out", "resid_post"):
        found = sweep(model, clean, corrupted, hook, positions="absolute", direction="denoising")
        alone = cells_alone(model, clean, corrupted, found, hook, range(9))
        np.testing.assert_allclose(found.patched[0], alone, atol=1e-10)
    late = sweep(model, clean, corrupted, "resid_pre", positions="absolute").select(
        direction="noising"
    )
    assert late.inert[:, 8].all()
    assert not late.inert[:, 7].any()


def test_an_identity_patch_has_exactly_no_effect(model, pair):
    clean, corrupted = pair
    same = Batch(clean.tokens, corrupted.labels, clean.read, clean.positions, clean.factors)
    for hook in ("resid_pre", "q", "z", "pattern", "resid_mid", "mlp_in", "post", "resid_post"):
        assert not sweep(model, clean, same, hook).change.any()


def test_patching_everything_recovers_everything(model, pair):
    sites = [Site("resid_pre", 0), Site("resid_pre", 1), Site("resid_post", 1, "equals")]
    found = patch(model, *pair, [*sites, (Site("mlp_out", 1), Site("resid_mid", 1))])
    np.testing.assert_allclose(found.per_example, 1, atol=1e-10)
    assert found.summary("mean of ratios").value == pytest.approx(np.ones((2, 4)))


def test_the_batch_and_the_budget_do_not_matter(model, pair):
    clean, corrupted = pair
    together = sweep(model, clean, corrupted, "resid_pre")
    small = sweep(model, clean, corrupted, "resid_pre", budget=20_000)
    np.testing.assert_allclose(small.patched, together.patched, atol=1e-12)
    for i, row in enumerate(together.rows[:4]):
        alone = sweep(model, clean[row : row + 1], corrupted[row : row + 1], "resid_pre")
        np.testing.assert_allclose(alone.patched[..., 0], together.patched[..., i], atol=1e-12)


def test_noising_is_denoising_with_the_roles_exchanged(model, pair):
    there = sweep(model, *pair, "attn_out").select(direction="noising")
    back = sweep(model, *pair[::-1], "attn_out").select(direction="denoising")
    np.testing.assert_allclose(there.patched, -back.patched, atol=1e-12)


def test_neurons_and_heads_add_up_where_nothing_follows_them(model, pair):
    whole = patch(model, *pair, Site("mlp_out", 1, "equals"))
    one_by_one = sweep(model, *pair, "post", by=("layer", "neuron"))
    np.testing.assert_allclose(one_by_one.change.sum((1, 2)), whole.change[:, 0], atol=1e-10)


def test_several_sites_are_patched_together(model, pair):
    heads = tuple(Site("z", 1, "equals", head=h) for h in range(2))
    both = patch(model, *pair, [heads, Site("z", 1, "equals")])
    np.testing.assert_allclose(both.patched[:, 0], both.patched[:, 1], atol=1e-12)


def test_a_subspace_and_its_complement_make_the_whole_site(model, pair):
    drawn = torch.randn(16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bases = torch.linalg.qr(drawn)[0].split(5, 1)
    parts = tuple(Site("resid_mid", 1, "equals", subspace=basis) for basis in bases)
    found = patch(model, *pair, [parts, Site("resid_mid", 1, "equals")])
    np.testing.assert_allclose(found.patched[:, 0], found.patched[:, 1], atol=1e-10)


def test_a_named_place_may_be_elsewhere_in_the_two_runs(model, routes):
    """The value of lhs stands at lhs in a direct prompt and in the prefix in one with a variable."""
    direct, both = routes[0]["direct"], routes[1]["both"]
    found = patch(model, direct, both, Site("v", 1, "value of lhs"), direction="denoising")
    rows = torch.from_numpy(found.rows)
    _, cache = model.run_with_cache(torch.from_numpy(direct.tokens)[rows])
    from_, to = (torch.from_numpy(b.positions["value of lhs"])[rows] for b in (direct, both))
    every = torch.arange(len(rows))

    def put(v, hook):
        v = v.clone()
        v[every, to] = cache[hook.name][every, from_]
        return v

    with torch.no_grad():
        z = model.run_with_hooks(
            torch.from_numpy(both.tokens)[rows], fwd_hooks=[("blocks.1.attn.hook_v", put)]
        )[:, -1]
    y, other = (torch.from_numpy(b.labels)[rows] for b in (direct, both))
    np.testing.assert_allclose(found.patched[0, 0], logit_difference(z, y, other), atol=1e-10)


def test_pairs_with_equal_answers_are_left_out_and_counted(model, pair):
    clean, corrupted = pair
    labels = corrupted.labels.copy()
    labels[:5] = clean.labels[:5]
    other = Batch(corrupted.tokens, labels, clean.read, corrupted.positions, corrupted.factors)
    found = sweep(model, clean, other, "resid_pre")
    assert found.excluded["equal answers"] == int((labels == clean.labels).sum())
    assert found.rows.min() >= 5
    with pytest.raises(InputError, match="equal clean and corrupted answers"):
        sweep(model, clean, clean, "resid_pre")


def test_rows_without_a_place_are_missing_not_zero(model, routes):
    from mechint_arith.tasks.batch import concatenate

    clean, corrupted = (concatenate([r["direct"], r["both"]]) for r in routes)
    site = Site("resid_pre", 1, "variable of lhs")
    with pytest.raises(InputError, match="rows lack this position"):
        patch(model, clean, corrupted, site)
    found = patch(model, clean, corrupted, site, partly=True)
    gone = np.isnan(found.patched[0, 0])
    assert gone.tolist() == (found.rows < 20).tolist()
    assert (found.summary().excluded == gone.sum()).all()


def test_a_sweep_marks_what_cannot_matter_and_refuses_only_such(model, pair):
    found = sweep(model, *pair, "resid_mid", positions="absolute")
    assert found.inert[:, 1, :-1].all()
    assert not found.inert[:, 0].any()
    assert not found.change[found.inert].any()
    with pytest.raises(InputError, match="no cell can change the answer"):
        sweep(model, *pair, "resid_mid", layers=[1], positions=["lhs", "rhs"])
    with pytest.raises(InputError, match="cannot change the answer"):
        patch(model, *pair, [Site("resid_pre", 1), Site("mlp_out", 1, "lhs")])
    with pytest.raises(InputError, match="lacks an MLP"):
        sweep(model, *pair, "mlp_out", layers=[0])


def test_a_sweep_goes_by_the_places_that_the_prompts_name(model, pair, routes):
    names = ["variable of lhs", "value of lhs", "variable of rhs", "value of rhs"]
    query = ["plus", "lhs", "rhs", "equals"]
    found = sweep(model, *pair, "resid_pre")
    assert list(found.axis("position").labels) == names + query
    sites = [Site("resid_pre", 0, name) for name in names + query]
    one_by_one = patch(model, *pair, sites).patched
    np.testing.assert_allclose(found.patched[:, 0], one_by_one, atol=1e-12)
    direct = sweep(model, routes[0]["direct"], routes[1]["direct"], "resid_pre")
    assert list(direct.axis("position").labels) == query
    across = sweep(model, routes[0]["direct"], routes[1]["both"], "resid_pre")
    assert list(across.axis("position").labels) == ["value of lhs", "value of rhs", *query]


def test_absolute_positions_on_request_and_where_nothing_is_named(model, pair):
    every = sweep(model, *pair, "resid_pre", positions="absolute")
    labels = [*map(str, range(8)), "plus", "lhs", "rhs", "equals"]
    assert list(every.axis("position").labels) == labels
    unnamed = [Batch(b.tokens, b.labels, b.read, {}, b.factors) for b in pair]
    found = sweep(model, *unnamed, "resid_pre")
    assert list(found.axis("position").labels) == [str(i) for i in range(12)]
    np.testing.assert_array_equal(found.patched, every.patched)
    one = sweep(model, *pair, "resid_pre", positions="lhs")
    assert one.axis("position").labels == ("lhs",)
    np.testing.assert_allclose(one.patched[:, :, 0], every.patched[:, :, 9], atol=1e-12)


def test_what_a_sweep_goes_by(model, pair):
    found = sweep(model, *pair, "pattern", by=("layer", "head", "key"), positions=["lhs", "rhs"])
    assert [axis.name for axis in found.axes] == ["direction", "layer", "head", "key"]
    for by in (("position",), ("layer", "layer"), ("layer", "place")):
        with pytest.raises(InputError, match="a sweep goes by layer"):
            sweep(model, *pair, "pattern", by=by)
    with pytest.raises(InputError, match="direction"):
        sweep(model, *pair, "z", direction="forward")
    with pytest.raises(InputError, match="no metric"):
        sweep(model, *pair, "z", "accuracy")
    with pytest.raises(InputError, match="one number per row"):
        sweep(model, *pair, "z", lambda z, y, other: z.sum())


def test_a_plain_model_needs_no_hooks(model, pair):
    plain = Transformer(model.config, model.state_dict())
    ours, hooked = (sweep(m, *pair, "z").patched for m in (plain, model))
    np.testing.assert_allclose(ours, hooked, atol=1e-12)


def test_hooks_on_the_model_are_part_of_what_is_patched(model, pair):
    """The slow way: the same sweep with a user's hook equals the sweep of the model that the hook makes."""
    seen = []

    def halve(v, hook):
        seen.append(v.shape)
        return v * 0.5

    weights = {k: w.clone() for k, w in model.state_dict().items()}
    weights["blocks.1.attn.W_V"] *= 0.5
    other = Transformer(model.config, weights)
    model.add_hook("blocks.1.attn.hook_v", halve)
    try:
        for hook in ("resid_pre", "v", "pattern"):
            slow = sweep(model, *pair, hook)
            fast = sweep(other, *pair, hook)
            want = fast.patched
            np.testing.assert_allclose(slow.patched, want, atol=1e-10)
        handles = model.hook_dict["blocks.1.attn.hook_v"].fwd_hooks
        assert [handle.user_hook for handle in handles] == [halve]
        assert {shape[1] for shape in seen} == {12}
    finally:
        model.reset_hooks()


def test_a_value_that_does_not_fit_its_site_is_refused(model, pair):
    from mechint_arith.interventions.contrast import contrast
    from mechint_arith.interventions.located import locate
    from mechint_arith.interventions.running import Patch, run_patched

    at = locate(Site("resid_pre", 1, "lhs"), model.config, pair[0])
    wrong = Patch(at, lambda examples, old: torch.zeros(len(examples), 1, 15, dtype=torch.float64))
    measure = contrast(*pair, "margin").measure()
    with pytest.raises(InputError, match=r"resid_pre 1 at lhs: a value of shape"):
        run_patched(model, pair[0][:2], [], lambda *_: [(wrong,)], measure)
    with pytest.raises(InputError, match="no rows"):
        run_patched(model, pair[0][:0], [], lambda *_: [(wrong,)], measure)


def checksum(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("hooked", [False, True])
def test_runs_weights_and_inputs_never_change_under_a_sweep(model, pair, hooked, monkeypatch):
    from mechint_arith.interventions import running

    kept = []
    original = running.record

    def keeping(*args, **options):
        kept.append(original(*args, **options))
        sums.append(checksum(kept[-1].values.values()))
        return kept[-1]

    sums: list[str] = []
    monkeypatch.setattr(running, "record", keeping)
    before = checksum([*model.parameters(), *(torch.from_numpy(b.tokens) for b in pair)])
    if hooked:
        model.add_hook("hook_embed", lambda x, hook: None)
    try:
        for hook in ("resid_pre", "v", "pattern", "mlp_in", "post", "resid_post"):
            sweep(model, *pair, hook)
    finally:
        model.reset_hooks()
    assert sums == [checksum(record.values.values()) for record in kept]
    assert before == checksum([*model.parameters(), *(torch.from_numpy(b.tokens) for b in pair)])


def test_the_mode_and_the_hooks_are_restored_even_after_an_exception(model, pair):
    model.train()
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]

    def failing(z, y, other):
        assert not model.training
        raise RuntimeError("no metric today")

    for hooked in (False, True):
        if hooked:
            model.add_hook("hook_embed", lambda x, hook: None)
        with pytest.raises(RuntimeError, match="no metric today"):
            sweep(model, *pair, "resid_pre", failing)
        assert [module.training for module in model.modules()] == modes
        assert torch.is_grad_enabled()
        assert sum(len(h.fwd_hooks) for h in model.hook_points()) == hooked
        assert model.context_level == 0
    model.reset_hooks()
    model.eval()
