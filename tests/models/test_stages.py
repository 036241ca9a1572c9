"""The forward pass by stages against the hooked model: every stage, every edit, every kind of model."""

import pytest
import torch

from mechint_arith.models.config import ModelConfig
from mechint_arith.models.hooked import HookedTransformer
from mechint_arith.models.init import initial_weights
from mechint_arith.models.staged import Staged
from mechint_arith.models.stages import KEY_SIDE

SMALL = {
    "d_vocab": 20,
    "d_vocab_out": 11,
    "n_ctx": 8,
    "n_layers": 2,
    "n_heads": 3,
    "d_model": 12,
    "d_head": 5,
    "d_mlp": (7, 10),
}
KINDS = {
    "plain": {},
    "no first MLP": {"d_mlp": (0, 6), "embed_norm": True},
    "biases": {"attn_bias": True, "mlp_bias": True, "unembed_bias": True},
    "norm": {"norm": "rms"},
    "relative": {"positions": "relative"},
    "rotary": {"positions": "rotary", "d_head": 4},
    "no positions": {"positions": "none"},
    "not causal": {"causal": False},
    "mix": {"attn_mix": 0.3, "attn_bias": True},
    "sink": {"attn_sink": True, "attn_bias": True},
    "offsets alone": {"attn_content": False, "positions": "relative", "attn_sink": True},
    "one layer": {"n_layers": 1, "d_mlp": (4,)},
    "three layers": {"n_layers": 3, "d_mlp": (4, 0, 5), "act_fn": "gelu"},
}


def model_of(kind):
    config = ModelConfig(**{**SMALL, **KINDS[kind]})
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: torch.randn(w.shape, generator=generator, dtype=torch.float64) * 0.5
        for name, w in initial_weights(config, 0).items()
    }
    return HookedTransformer(config, weights).eval()


def full_name(layer, stage):
    part = "attn." if stage in ("q", "k", "v", "z", "attn_scores", "pattern") else ""
    part = "mlp." if stage in ("pre", "post") else part
    return f"blocks.{layer}.{part}hook_{stage}"


@pytest.mark.parametrize("reads", [(7,), (4, 5, 6)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_and_every_edited_rerun_equal_the_hooked_model(kind, reads):
    model = model_of(kind)
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, 20, (4, 8), generator=generator)
    rows = torch.tensor([0, 1, 1, 3])
    staged = Staged(model, reads)
    n_pos = reads[-1] + 1 if model.config.causal else 8
    with torch.no_grad():
        record = staged.record(tokens)
        logits, cache = model.run_with_cache(tokens)
        torch.testing.assert_close(record.logits, logits[:, list(reads)], rtol=1e-10, atol=1e-10)
        for (layer, stage), value in record.values.items():
            columns = staged.columns((layer, stage))
            at = torch.arange(n_pos) if columns is None else columns
            square = stage in ("attn_scores", "pattern")

            def inside(x, at=at, square=square):
                return x[:, :, at, :n_pos] if square else x[:, at]

            whole = cache[full_name(layer, stage)]
            torch.testing.assert_close(value, inside(whole), rtol=1e-10, atol=1e-10)
            noise = torch.randn(value[rows].shape, generator=generator, dtype=value.dtype)

            def hook(x, hook, at=at, square=square, noise=noise):
                x = x.clone()
                if square:
                    x[:, :, at, :n_pos] += noise
                else:
                    x[:, at] += noise
                return x

            hooked = model.run_with_hooks(tokens[rows], fwd_hooks=[(full_name(layer, stage), hook)])
            edits = {(layer, stage): lambda x, noise=noise: x + noise}
            rerun = staged.rerun(record, rows, edits)
            torch.testing.assert_close(rerun, hooked[:, list(reads)], rtol=1e-9, atol=1e-9)


def test_moved_positions_give_what_a_full_rerun_gives():
    model = model_of("three layers")
    tokens = torch.randint(0, 20, (4, 8), generator=torch.Generator().manual_seed(3))
    staged = Staged(model, (7,))
    rows, moved = torch.tensor([3, 0]), torch.tensor([[2], [5]])

    def edit(x):
        x[torch.arange(2)[:, None], moved] += 1
        return x

    with torch.no_grad():
        record = staged.record(tokens)
        for layer in range(3):
            some = staged.rerun(record, rows, {(layer, "resid_pre"): edit}, moved=moved)
            every = staged.rerun(record, rows, {(layer, "resid_pre"): edit})
            torch.testing.assert_close(some, every, rtol=1e-12, atol=1e-12)


def test_an_edit_never_reaches_the_record():
    model = model_of("no first MLP")
    tokens = torch.randint(0, 20, (4, 8), generator=torch.Generator().manual_seed(3))
    staged = Staged(model, (7,))
    with torch.no_grad():
        record = staged.record(tokens)
        before = {place: value.clone() for place, value in record.values.items()}
        for place in before:
            staged.rerun(record, torch.arange(4), {place: lambda x: x.mul_(2)})
    for place, value in before.items():
        torch.testing.assert_close(record.values[place], value, rtol=0, atol=0, equal_nan=True)


def test_edits_of_the_mlp_input_leave_the_skip_alone():
    model = model_of("plain")
    tokens = torch.randint(0, 20, (4, 8), generator=torch.Generator().manual_seed(3))
    staged = Staged(model, (7,))
    rows = torch.arange(4)
    with torch.no_grad():
        record = staged.record(tokens)
        both = {(1, "resid_mid"): lambda x: x + 1, (1, "mlp_in"): lambda x: x.sub_(1)}
        out = staged.rerun(record, rows, both)
        mid = record.values[1, "resid_mid"] + 1 + record.values[1, "mlp_out"]
        torch.testing.assert_close(out, model.unembed(mid), rtol=1e-12, atol=1e-12)


def test_places_at_every_position_are_those_that_later_queries_read():
    staged = Staged(model_of("plain"), (4, 5))
    for stage in KEY_SIDE:
        assert staged.columns((1, stage)) is None
    assert staged.columns((1, "z")).tolist() == [4, 5]
    assert staged.columns((0, "z")) is None
