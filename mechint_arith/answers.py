"""What a model of the digits task answers: logits at the answer positions, exact matches, greedy decoding.

A greedy answer equals a given one exactly if, with that answer written in the sequence, every largest logit
is its next digit; so one forward pass tells whether the model gives it, and `decode` is only needed for what
else it says. What the answers are held against is in `length`.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mechint_arith.metrics import finite
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.digits import DigitsTask

CHUNK = 1024
"""Sequences per forward pass."""


def answer_logits(
    model: Transformer, tokens: Int[Tensor, "batch pos"], n_answers: int
) -> Float[Tensor, "batch answer vocab"]:
    """Return the logits that give the last `n_answers` tokens; the very last token is never read."""
    return model(tokens[:, :-1], last=n_answers)


def with_answers(task: DigitsTask, batch: Batch, labels: np.ndarray) -> np.ndarray:
    """Return the tokens [batch pos] with other answers [batch answer] written in."""
    tokens = batch.tokens.copy()
    tokens[:, task.layout.answer_places] = labels
    return tokens


@torch.no_grad()
def matches(
    model: Transformer, task: DigitsTask, batch: Batch, labels: np.ndarray | None = None
) -> Bool[np.ndarray, " batch"]:
    """Return whether the greedy answer is exactly `labels` [batch answer], by default the truth."""
    wanted = batch.labels if labels is None else labels
    tokens = torch.from_numpy(with_answers(task, batch, wanted))
    labels_tensor = torch.from_numpy(wanted)
    right = [
        (finite(answer_logits(model, rows, wanted.shape[1])).argmax(-1) == answer).all(1)
        for rows, answer in zip(tokens.split(CHUNK), labels_tensor.split(CHUNK), strict=True)
    ]
    return torch.cat(right).numpy()


@torch.no_grad()
def decode(model: Transformer, task: DigitsTask, batch: Batch) -> Int[np.ndarray, "batch answer"]:
    """Return the answers written greedily, one digit after the other, least significant first."""
    places = task.layout.answer_places.tolist()
    answers = []
    for rows in torch.from_numpy(batch.tokens).split(CHUNK):
        written = rows.clone()
        written[:, places] = 0
        for place in places:
            written[:, place] = model(written[:, :place], last=1)[:, 0].argmax(-1)
        answers.append(written[:, places])
    return torch.cat(answers).numpy()
