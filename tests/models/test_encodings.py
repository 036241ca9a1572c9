"""Position encodings of untrained models, each against what defines it."""

import dataclasses

import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer, rms_normalised

BASE = {"d_vocab": 10, "d_vocab_out": 10, "n_ctx": 12, "n_heads": 2, "d_model": 16, "d_head": 8}
SIZES = {"n_layers": 1, "d_mlp": (32,)}
PLAIN = {"norm": "rms", "embed_norm": True, "attn_sink": True}


def model(seed=0, **options):
    config = ModelConfig(**{**BASE, **SIZES, **options})
    generator = torch.Generator().manual_seed(seed)
    shapes = parameter_shapes(config)
    weights = {
        k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()
    }
    return Transformer(config, weights)


def recorded(network, tokens, name="hook_attn_scores"):
    found = []
    hook = getattr(network.blocks[0].attn, name)
    handle = hook.register_forward_hook(lambda _m, _i, out: found.append(out))
    with torch.no_grad():
        network(tokens)
    handle.remove()
    return found[0]


def random_tokens(batch=3, pos=12, seed=1):
    return torch.randint(0, 10, (batch, pos), generator=torch.Generator().manual_seed(seed))


RELATIVE = [
    {"positions": "relative"},
    {"positions": "relative", "attn_content": False, "relative_scale": 3.0},
    {"positions": "rotary"},
]


@pytest.mark.parametrize("options", RELATIVE)
def test_scores_of_relative_encodings_depend_on_offsets_only(options):
    """Shifting the same tokens by two places shifts the scores."""
    network, tokens = model(**options, **PLAIN), random_tokens()
    scores = recorded(network, tokens[:, :10])
    later = recorded(network, torch.cat([random_tokens(pos=2, seed=2), tokens[:, :10]], 1))
    torch.testing.assert_close(scores, later[:, :, 2:, 2:])


@pytest.mark.parametrize("options", [{}, {"attn_content": False}])
def test_scores_of_absolute_positions_depend_on_the_place(options):
    network, tokens = model(**options), random_tokens()
    scores = recorded(network, tokens[:, :10])
    later = recorded(network, torch.cat([tokens[:, :2], tokens[:, :10]], 1))[:, :, 2:, 2:]
    seen = torch.isfinite(scores)
    assert (scores[seen] - later[seen]).abs().max() > 0.1


def test_a_relative_model_with_a_window_is_shift_equivariant():
    """With biases that shut out all but the last three places, what stands before cannot matter."""
    network = model(positions="relative", attn_content=False, **PLAIN)
    offsets = torch.arange(2 * 12 - 1) - 11
    network.blocks[0].attn.rel_bias.data[:, (offsets > 2) | (offsets < 0)] = -torch.inf
    tokens = random_tokens()
    with torch.no_grad():
        logits = network(tokens[:, :10])
        later = network(torch.cat([random_tokens(pos=2, seed=2), tokens[:, :10]], 1))
    torch.testing.assert_close(logits[:, 2:], later[:, 4:])


def test_without_positions_the_order_of_earlier_tokens_does_not_matter():
    network, tokens = model(positions="none", norm="rms"), random_tokens()
    order = torch.cat([torch.arange(10).flip(0), torch.tensor([10, 11])])
    with torch.no_grad():
        torch.testing.assert_close(network(tokens)[:, -1], network(tokens[:, order])[:, -1])


def test_rotary_scores_against_rotation_by_complex_numbers():
    network, tokens = model(positions="rotary"), random_tokens()
    query, key = (recorded(network, tokens, f"hook_{x}") for x in "qk")
    frequency = 1e-4 ** (torch.arange(4, dtype=torch.float64) / 4)
    turn = torch.exp(1j * torch.arange(12)[:, None, None] * frequency)
    rotated = [torch.complex(x[..., :4], x[..., 4:]) * turn for x in (query, key)]
    scores = torch.einsum("bqhd,bkhd->bhqk", rotated[0], rotated[1].conj()).real / 8**0.5
    found = recorded(network, tokens)
    torch.testing.assert_close(found[found > -torch.inf], scores[found > -torch.inf])


@pytest.mark.parametrize("positions", ["absolute", "relative"])
def test_scores_without_content_are_the_learned_biases(positions):
    network = model(positions=positions, attn_content=False, relative_scale=3.0, attn_sink=True)
    attn = network.blocks[0].attn
    scores, pattern = (
        recorded(network, random_tokens(), f"hook_{x}") for x in ("attn_scores", "pattern")
    )
    for query in range(12):
        for key in range(query + 1):
            if positions == "relative":
                bias = attn.rel_bias[:, query - key + 11]
            else:
                bias = attn.place_bias[:, query, key]
            torch.testing.assert_close(scores[0, :, query, key], 3 * bias.detach())
    total = scores.exp().sum(-1) + attn.sink.detach().exp()[:, None]
    torch.testing.assert_close(pattern, scores.exp() / total[..., None])


def test_content_free_attention_ignores_the_tokens():
    network = model(positions="absolute", attn_content=False)
    torch.testing.assert_close(
        recorded(network, random_tokens()), recorded(network, random_tokens(seed=5))
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"attn_content": False}, *RELATIVE, {"positions": "none"}],
)
def test_the_last_positions_alone_give_the_same_logits(options):
    network, tokens = model(n_layers=2, d_mlp=(16, 32), **{**PLAIN, **options}), None
    tokens = random_tokens()
    with torch.no_grad():
        torch.testing.assert_close(network(tokens, last=4), network(tokens)[:, -4:])
        torch.testing.assert_close(network(tokens[:, :9], last=1), network(tokens[:, :9])[:, -1:])


def test_embeddings_and_positions_have_unit_size_under_embed_norm():
    network = model(embed_norm=True)
    with torch.no_grad():
        x = network(random_tokens(), stop_at_layer=0)
        parts = rms_normalised(network.embed.W_E[random_tokens()]) + rms_normalised(
            network.pos_embed.W_pos[:12]
        )
    torch.testing.assert_close(x, parts)


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_attention_without_content_needs_learned_places(positions):
    with pytest.raises(InputError, match="needs absolute or relative positions"):
        model(positions=positions, attn_content=False)


def test_place_bias_starts_at_zero_and_has_one_number_per_pair_of_places():
    config = ModelConfig(**BASE, **SIZES, attn_content=False)
    weights = initial_weights(config, 0)
    assert weights["blocks.0.attn.place_bias"].shape == (2, 12, 12)
    assert not weights["blocks.0.attn.place_bias"].any()
    assert "blocks.0.attn.W_Q" not in weights
    relative = dataclasses.replace(config, positions="relative")
    assert "blocks.0.attn.place_bias" not in parameter_shapes(relative)
