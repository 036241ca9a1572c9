"""Logits and labels to one number per example.

Means, intervals and pools are made elsewhere. Formulas as in the field: z are the logits, y the right answer.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mechint_arith.errors import InputError


def finite(logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """Return the logits as they are. Raises `InputError` where some are NaN or infinite: no answer is the largest."""
    if not torch.isfinite(logits).all():
        raise InputError(
            "the logits are NaN or infinite: the weights are too large for their number type, or damaged"
        )
    return logits


def correct(
    logits: Float[Tensor, "*batch vocab"], labels: Int[Tensor, " *batch"]
) -> Bool[Tensor, " *batch"]:
    """Whether the largest logit is the right answer's."""
    return logits.argmax(-1) == labels


def loss(
    logits: Float[Tensor, "*batch vocab"], labels: Int[Tensor, " *batch"]
) -> Float[Tensor, " *batch"]:
    """Cross entropy in nats, by a float64 log-softmax (in float32 it is 0 from a logit gap of 30 on)."""
    return -answer_logit(logits.double().log_softmax(-1), labels)


def answer_logit(
    logits: Float[Tensor, "*batch vocab"], answer: Int[Tensor, " *batch"]
) -> Float[Tensor, " *batch"]:
    """z[y] for the given answers."""
    return logits.gather(-1, answer[..., None])[..., 0]


def logit_difference(
    logits: Float[Tensor, "*batch vocab"],
    answer: Int[Tensor, " *batch"],
    other: Int[Tensor, " *batch"],
) -> Float[Tensor, " *batch"]:
    """z[answer] - z[other], in logits."""
    return answer_logit(logits, answer) - answer_logit(logits, other)


def margin(
    logits: Float[Tensor, "*batch vocab"], labels: Int[Tensor, " *batch"]
) -> Float[Tensor, " *batch"]:
    """z[y] minus the largest other logit."""
    others = logits.scatter(-1, labels[..., None], -torch.inf)
    return answer_logit(logits, labels) - others.amax(-1)


def mean_margin(
    logits: Float[Tensor, "*batch vocab"], labels: Int[Tensor, " *batch"]
) -> Float[Tensor, " *batch"]:
    """z[y] minus the mean of the other logits: p/(p-1) (z[y] - mean z). Linear in the logits."""
    p = logits.shape[-1]
    return p / (p - 1) * (answer_logit(logits, labels) - logits.mean(-1))
