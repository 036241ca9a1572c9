"""The separable form against the plain pass and the folded form, in value and in gradient."""

import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.folded import fold
from mechint_arith.models.separable import separable_logits
from mechint_arith.models.transformer import Transformer
from mechint_arith.training import closed_forward

BASE = {"d_vocab": 8, "d_vocab_out": 7, "n_ctx": 3, "n_layers": 1, "n_heads": 2}
BASE |= {"d_model": 6, "d_head": 5, "d_mlp": (9,)}
CASES = {
    "grokking": {},
    "biases": {"attn_bias": True, "mlp_bias": True, "unembed_bias": True},
    "mix": {"attn_mix": 0.3, "causal": False, "attn_bias": True},
    "no mlp": {"d_mlp": (0,), "unembed_bias": True},
    "gelu": {"act_fn": "gelu"},
}


def weights_of(config, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for name, shape in parameter_shapes(config).items()
    }


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("constant", [True, False], ids=["same query", "own query"])
def test_it_is_the_plain_pass_in_value_and_gradient(options, constant):
    config = ModelConfig(**{**BASE, **options})
    weights = weights_of(config)
    tokens = torch.randint(0, 8, (20, 3), generator=torch.Generator().manual_seed(1))
    if constant:
        tokens[:, 2] = 7
    labels = torch.arange(20) % 7

    def loss_and_gradients(logits):
        loss = torch.nn.functional.cross_entropy(logits, labels)
        found = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
        return loss, found

    network = Transformer(config)
    plain = torch.func.functional_call(network.double(), weights, (tokens,))[:, 2]
    closed = separable_logits(config, weights, tokens, read=2)
    torch.testing.assert_close(closed, plain)
    torch.testing.assert_close(closed, fold(config, weights, read=2)(tokens).logits)
    torch.testing.assert_close(loss_and_gradients(closed), loss_and_gradients(plain))


def test_two_layers_are_refused_and_get_another_forward():
    config = ModelConfig(**{**BASE, "n_layers": 2, "d_mlp": (9, 9)})
    weights = weights_of(config)
    tokens = torch.zeros(4, 3, dtype=torch.long)
    with pytest.raises(InputError, match="2 layers"):
        separable_logits(config, weights, tokens, read=2)
    plain = torch.func.functional_call(Transformer(config).double(), weights, (tokens,))
    torch.testing.assert_close(closed_forward(config, 2)(weights, tokens, 1), plain[:, 2])
