"""About how much memory a training takes, from its sizes alone, so that one which cannot fit is refused before it begins.

Counts are of numbers alive at once in a step's forward and backward pass. Against the peak of runs between 0.2 and
2 GB they are between half and twice as much. How much memory there is is said in `memory`.
"""

from __future__ import annotations

from math import prod

from mechint_arith.errors import InputError
from mechint_arith.memory import shortage
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.folded import why_not_foldable
from mechint_arith.models.separable import why_not_separable

PARAMETER_COPIES = 10
"""Weights, gradients, two moments, the copies of a checkpoint and of a state, and those in their files."""
TOKEN_BYTES = 160
"""What drawing sequences takes per position."""


def training_bytes(config: ModelConfig, *, batch: int, n_logits: int = 1) -> int:
    """Return about how many bytes a step on `batch` sequences takes, parameters, optimiser and files included.

    n_logits: positions at which a sequence's logits are taken.
    """
    c = config
    parameters = sum(prod(shape) for shape in parameter_shapes(c).values())
    shared, sequence = 0, 4 * n_logits * c.d_vocab_out
    if why_not_separable(c) is None:
        sequence += 4 * c.n_ctx * c.n_heads * c.d_head + 4 * c.d_mlp[-1]
    elif why_not_foldable(c) is None:
        rows, images = c.d_vocab + c.n_ctx, 1 + c.n_heads
        shared = 7 * c.n_heads * rows**2 + 3 * images * rows * c.d_model * (c.n_heads + 2)
        sequence += 8 * c.n_heads * c.n_ctx**2 + 5 * c.n_heads * images * rows
        sequence += 6 * c.d_model + 4 * c.d_mlp[-1]
    else:
        attention = 8 * c.d_model + 8 * c.n_heads * c.d_head + 4 * c.n_heads * c.n_ctx
        sequence += c.n_layers * c.n_ctx * attention
        sequence += 4 * (c.n_ctx * sum(c.d_mlp[:-1]) + n_logits * c.d_mlp[-1])
    numbers = PARAMETER_COPIES * parameters + shared + batch * sequence
    return 4 * numbers + batch * TOKEN_BYTES * c.n_ctx


def require_memory(
    config: ModelConfig, *, batch: int, n_logits: int = 1, device: str = "cpu"
) -> None:
    """Raise `InputError` with the estimate where training on the CPU does not fit into the memory that is free."""
    lack = shortage(training_bytes(config, batch=batch, n_logits=n_logits))
    if lack and device.partition(":")[0] == "cpu":
        raise InputError(f"this training needs {lack}: choose a smaller batch, model or task")
