"""Initial weights, reproducible to the bit and without touching any global random state.

Source of the draw order: the released run of arXiv 2605.31497 (checked against its first checkpoint).
"""

import torch
from torch import Tensor

from mechint_arith.models.config import ModelConfig, parameter_shapes


def initial_weights(
    config: ModelConfig, seed: int, *, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Return name -> weight: every matrix normal with standard deviation 0.8 / sqrt(d_model), biases zero.

    One float32 CPU generator draws in the order W_E, W_pos, per layer W_Q, W_O, W_K, W_V, W_in, W_out, then
    W_U. A layer without an MLP still draws one (of the last MLP's size), so that the draws after it do not
    depend on whether it is there.
    """
    generator = torch.Generator().manual_seed(seed)
    shapes = parameter_shapes(config)
    std = 0.8 / config.d_model**0.5
    drawn: dict[str, Tensor] = {}

    def draw(name: str, otherwise: tuple[int, ...] = ()) -> None:
        shape = shapes.get(name, otherwise)
        if shape:
            drawn[name] = torch.empty(shape).normal_(0, std, generator=generator)

    draw("embed.W_E")
    draw("pos_embed.W_pos")
    width = config.d_mlp[config.last_mlp] if config.last_mlp >= 0 else 0
    for i in range(config.n_layers):
        for name in ("W_Q", "W_O", "W_K", "W_V"):
            draw(f"blocks.{i}.attn.{name}")
        draw(f"blocks.{i}.mlp.W_in", (config.d_model, width))
        draw(f"blocks.{i}.mlp.W_out", (width, config.d_model))
    draw("unembed.W_U")
    return {name: drawn.get(name, torch.zeros(shape)).to(dtype) for name, shape in shapes.items()}
