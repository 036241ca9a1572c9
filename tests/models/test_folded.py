"""The folded form against the plain forward pass: values and gradients, in both precisions."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import fold, why_not_foldable
from mechint_arith.models.init import initial_weights
from mechint_arith.models.reader import Plain, reader
from mechint_arith.models.transformer import Transformer

SMALL = {"d_vocab": 13, "d_vocab_out": 7, "n_ctx": 6, "d_model": 16, "d_head": 5, "d_mlp": (0, 24)}
BIASES = {"attn_bias": True, "mlp_bias": True, "unembed_bias": True}
SHAPES = {
    "paper": {"d_vocab": 74, "d_vocab_out": 59, "n_ctx": 16},
    "heads and biases": {**SMALL, "n_heads": 3, **BIASES},
    "one layer": {**SMALL, "n_layers": 1, "n_heads": 2, "d_mlp": (24,), **BIASES},
    "attention only": {**SMALL, "d_mlp": (0, 0)},
    "gelu": {**SMALL, "act_fn": "gelu"},
    "attention mix": {**SMALL, "attn_mix": 0.3, "n_heads": 2, **BIASES},
    "not causal": {**SMALL, "causal": False, **BIASES},
    "mix, not causal": {**SMALL, "causal": False, "attn_mix": 0.0, "n_layers": 1, "d_mlp": (24,)},
}


def make(options: dict, dtype: torch.dtype) -> tuple[ModelConfig, dict, torch.Tensor]:
    config = ModelConfig(**options)
    generator = torch.Generator().manual_seed(1)
    weights = initial_weights(config, 3, dtype=torch.float64)
    weights = {
        name: w + 0.1 * torch.randn(w.shape, generator=generator, dtype=w.dtype)
        for name, w in weights.items()
    }
    tokens = torch.from_numpy(
        np.random.default_rng(0).integers(0, config.d_vocab, (40, config.n_ctx))
    )
    return config, {name: w.to(dtype) for name, w in weights.items()}, tokens


def relative(difference: torch.Tensor, scale: torch.Tensor) -> float:
    return float((difference.norm() / scale.norm().clamp(min=1e-30)).detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SHAPES)
def test_logits_and_all_gradients_equal_the_plain_forward(name, dtype):
    config, weights, tokens = make(SHAPES[name], dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    labels = torch.arange(len(tokens)) % config.d_vocab_out
    leaves = {k: w.clone().requires_grad_() for k, w in weights.items()}
    folded = fold(config, leaves)(tokens).logits
    F.cross_entropy(folded, labels).backward()
    network = Transformer(config, weights)
    plain = network(tokens)[:, -1]
    F.cross_entropy(plain, labels).backward()
    assert relative(folded - plain, plain) < tolerance
    for parameter, leaf in leaves.items():
        expected = network.get_parameter(parameter).grad
        if expected.norm() > 1e-4 * leaf.norm():
            assert relative(leaf.grad - expected, expected) < tolerance, parameter
        else:  # a key bias has no effect at all: its gradient is rounding noise
            assert (leaf.grad - expected if leaf.grad is not None else expected).norm() < 1e-6


@pytest.mark.parametrize("name", SHAPES)
def test_everything_known_at_the_read_position_equals_the_plain_reader(name):
    config, weights, tokens = make(SHAPES[name], torch.float64)
    if not config.d_mlp[-1]:
        with pytest.raises(InputError, match="last layer has an MLP"):
            Plain(Transformer(config, weights), config.n_ctx - 1)
        return
    read = config.n_ctx - 1
    with torch.no_grad():
        one, two = (
            model(tokens)
            for model in (fold(config, weights), Plain(Transformer(config, weights), read))
        )
        for field in ("logits", "resid_pre", "resid_mid", "post"):
            torch.testing.assert_close(getattr(one, field), getattr(two, field), rtol=0, atol=1e-12)
        for a, b in zip(one.patterns, two.patterns, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_an_earlier_read_position_equals_a_shorter_sequence():
    config, weights, tokens = make(SHAPES["heads and biases"], torch.float64)
    plain = Transformer(config, weights)(tokens)
    for read in range(config.n_ctx):
        folded = fold(config, weights, read=read)(tokens).logits
        torch.testing.assert_close(folded, plain[:, read], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"n_layers": 3, "d_mlp": (0, 0, 8)}, "3 layers"),
        ({"d_mlp": (8, 8)}, "MLP before the last layer"),
        ({"norm": "rms"}, "normalises"),
        ({"positions": "relative"}, "positions are relative"),
    ],
)
def test_what_cannot_be_folded_says_why_and_is_read_plainly(options, reason):
    config = ModelConfig(**{**SMALL, **options})
    assert reason in why_not_foldable(config)
    with pytest.raises(InputError, match=reason):
        fold(config, initial_weights(config, 0))
    if config.norm == "none":
        assert isinstance(reader(config, initial_weights(config, 0), read=5), Plain)
