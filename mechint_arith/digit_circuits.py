"""Why a digits model does what it does at other lengths: where it looks, what it ignores, which neurons carry.

* `attention`: where each answer digit looks, trained and upward; `offset_overlap` says whether a head keeps
  its offsets.
* `patch_digits`: one digit of a is replaced; how often does each answer digit change, and how often would it
  under the truth and under the truncated function? `lone_digits`: the same for one digit in a slot that training
  always leaves empty.
* `carry_sharing`: are carries made by the same neurons at every position? The question of `sharing`, with answer
  positions in place of routes and its indices OVERLAP and SIGMA.

Nothing is judged here; accuracies are `length`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from mechint_arith import indices
from mechint_arith.answers import decode
from mechint_arith.errors import InputError
from mechint_arith.models.transformer import MLP, Attention, Block, Transformer
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks import digits
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.digits import DigitsTask

Array = np.ndarray


@dataclass(frozen=True)
class AttentionMap:
    """Mean attention of every answer digit."""

    pattern: Float[Array, "layer head answer pos"]
    """Mean probability, from the place that gives answer digit i to every place."""
    n: int
    """Sequences averaged over."""


@dataclass(frozen=True)
class DigitPatches:
    """What replacing digit j of one operand by another does to answer digit i; shares of n pairs."""

    changed: Float[Array, "operand answer"]
    """The model's greedy answer digit changes."""
    truth: Float[Array, "operand answer"]
    """The right answer digit changes."""
    truncated: Float[Array, "operand answer"]
    """The answer digit of the truncated function changes."""
    any_changed: tuple[Estimate, ...]
    """Per operand digit j: the greedy answer changes anywhere, share with its interval."""
    n: int

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        tables = {k: getattr(self, k).round(4).tolist() for k in ("changed", "truth", "truncated")}
        return {**tables, "any_changed": [e.as_dict() for e in self.any_changed], "n": self.n}


@dataclass(frozen=True)
class CarrySharing:
    """Whether two answer positions use the same neurons of the last MLP for the carry they receive."""

    overlap: Estimate
    """OVERLAP of the carry effects at the two positions."""
    sigma: Estimate
    """SIGMA(.95), smaller direction."""
    null: float
    """Mean OVERLAP with the neurons of one position relabelled at random."""
    within: float
    """OVERLAP of two random halves of the pairs at the first position: what sameness looks like at this n."""


def attention(model: Transformer, task: DigitsTask, batch: Batch) -> AttentionMap:
    """Return the mean attention of every answer digit over a batch, with its own answers written."""
    blocks = [block for block in model.modules() if isinstance(block, Attention)]
    patterns = _recorded(model, batch, [block.hook_pattern for block in blocks])
    rows = task.layout.read_places.tolist()
    means = torch.stack([pattern.mean(0) for pattern in patterns])
    return AttentionMap(means[:, :, rows].numpy(), len(batch))


@torch.no_grad()
def _recorded(model: Transformer, batch: Batch, places: Sequence[nn.Module]) -> list[torch.Tensor]:
    """Run the model on a batch, all but its last token, and return what passes each hook point."""
    kept: dict[int, torch.Tensor] = {}

    def keeping(i: int) -> Callable[..., None]:
        def keep(_module: nn.Module, _inputs: Any, output: torch.Tensor) -> None:
            kept[i] = output

        return keep

    handles = [place.register_forward_hook(keeping(i)) for i, place in enumerate(places)]
    try:
        model(torch.from_numpy(batch.tokens[:, :-1]))
    finally:
        for handle in handles:
            handle.remove()
    return [kept[i] for i in range(len(places))]


def offset_overlap(found: AttentionMap, one: int, two: int) -> Float[Array, "layer head"]:
    """Return how much of two answer digits' attention lies on the same offsets: 1 - total variation.

    Offsets that leave the sequence, and the share taken by a sink, count as one more place each.
    """
    profiles = [_by_offset(found.pattern, i, found.pattern.shape[2]) for i in (one, two)]
    return np.minimum(*profiles).sum(-1)


def _by_offset(
    pattern: Float[Array, "layer head answer pos"], i: int, n_answers: int
) -> Float[Array, "layer head offset"]:
    """Return the attention of answer digit i by distance, nearest first, with what the sink took last."""
    n_pos = pattern.shape[3]
    read = n_pos - n_answers + i
    rows = pattern[:, :, i, read::-1]
    rest = np.zeros((*rows.shape[:2], n_pos - read - 1))
    sink = 1 - rows.sum(-1, keepdims=True)
    return np.concatenate([rows, rest, sink.clip(min=0)], -1)


def attention_by_digit(
    found: AttentionMap, task: DigitsTask
) -> dict[str, Float[Array, "layer head answer digit"]]:
    """Return the attention of every answer digit to the digits of a, b and the answer, by digit."""
    layout = task.layout
    places = {"a": layout.a_places, "b": layout.b_places, "answer": layout.answer_places[:-1]}
    return {name: found.pattern[..., at] for name, at in places.items()}


def patch_digits(
    model: Transformer,
    task: DigitsTask,
    length: int,
    rng: np.random.Generator,
    *,
    operand: str = "a",
    n: int = 1000,
) -> DigitPatches:
    """Replace each digit of one operand by another one, on n pairs of exactly `length` digits.

    The top digit stays above 0, so the length stays. Answers are written greedily in both runs, so the effect
    includes what earlier answer digits pass on. Raises `InputError` for an operand other than a and b, and for
    b where it has one digit only.
    """
    batch = digits.test_batch(task, length, n, rng)
    numbers = _numbers(task, batch, operand)
    digit = numbers[operand]
    base = decode(model, task, batch)
    truth, truncated = batch.labels, digits.truncated_labels(task, batch)
    changed: dict[str, list[Array]] = {name: [] for name in ("changed", "truth", "truncated")}
    anywhere = []
    for j in range(length):
        lowest = 1 if j == length - 1 else 0
        other, high = digit.copy(), task.base - lowest
        steps = rng.integers(1, high, size=len(digit)) if high > 1 else 0
        other[:, j] = (digit[:, j] - lowest + steps) % high + lowest
        patched = digits.build(task, *{**numbers, operand: other}.values())
        answer = decode(model, task, patched)
        changed["changed"].append((answer != base).mean(0))
        changed["truth"].append((patched.labels != truth).mean(0))
        changed["truncated"].append((digits.truncated_labels(task, patched) != truncated).mean(0))
        anywhere.append(share(int((answer != base).any(1).sum()), len(digit)))
    tables = {name: np.stack(rows) for name, rows in changed.items()}
    return DigitPatches(**tables, any_changed=tuple(anywhere), n=len(digit))


def _numbers(task: DigitsTask, batch: Batch, operand: str) -> dict[str, Array]:
    """Return the digits of a and b, of which `operand` is going to be changed."""
    if operand not in ("a", "b") or (operand == "b" and task.single_b):
        raise InputError(f"digits of a, or of a longer b, can be changed; got {operand!r}")
    return dict(zip(("a", "b"), digits.operands(task, batch), strict=True))


def lone_digits(
    model: Transformer,
    task: DigitsTask,
    rng: np.random.Generator,
    *,
    operand: str = "a",
    n: int = 1000,
) -> dict[int, Estimate]:
    """Return, for each digit beyond the training length, how often the answer changes when it alone is no longer 0.

    Pairs of exactly the training length. It tells which empty slots a model takes as a sign of where it is, which
    replacing one digit by another cannot. Raises `InputError` as `patch_digits` does.
    """
    batch = digits.test_batch(task, task.digits, n, rng)
    numbers = _numbers(task, batch, operand)
    base = decode(model, task, batch)
    found = {}
    for j in range(task.digits, task.longest):
        other = numbers[operand].copy()
        other[:, j] = rng.integers(1, task.base, size=len(other))
        answer = decode(model, task, digits.build(task, *{**numbers, operand: other}.values()))
        found[j] = share(int((answer != base).any(1).sum()), len(other))
    return found


def leak(
    model: Transformer, task: DigitsTask, length: int, *, n: int = 1000, seed: int = 0
) -> Estimate:
    """Return how often the answer changes when all digits beyond the training length are drawn anew.

    Pairs of exactly `length` digits; low digits stay. 0 for a model that computes the truncated function.
    Raises `InputError` for a length within the training length.
    """
    if length <= task.digits:
        raise InputError(f"digits beyond {task.digits} need a longer length; got {length}")
    one, two = (
        digits.operands(task, digits.test_batch(task, length, n, np.random.default_rng((seed, k))))
        for k in (0, 1)
    )
    rows = min(len(one[0]), len(two[0]))
    high = np.arange(task.slots) >= task.digits
    mixed = [
        np.where(high[: x.shape[1]], y[:rows], x[:rows]) for x, y in zip(one, two, strict=True)
    ]
    before = decode(model, task, digits.build(task, one[0][:rows], one[1][:rows]))
    after = decode(model, task, digits.build(task, *mixed))
    return share(int((before != after).any(1).sum()), rows)


def carry_effects(
    model: Transformer, task: DigitsTask, position: int, rng: np.random.Generator, *, n: int = 2000
) -> Float[Array, "batch neuron"]:
    """Return each neuron's part in the carry into answer digit `position`: addition only.

    Pairs differ in digit position - 1 of a alone, so that one has a carry into `position` and the other
    none. A neuron's part is what its change of activation adds to z[right with carry] - z[right without], in
    logits, along W_out W_U at the scale of the final norm in the run with the carry. With one layer the parts
    of all neurons and of the attention sum to the whole change up to that norm.
    Raises `InputError` for another task, position 0, or a model whose last layer has no MLP.
    """
    if task.op != "add" or task.modulus is not None or not 1 <= position < task.longest:
        raise InputError("carries are compared for plain addition, at positions 1 … longest - 1")
    carries, stays, b = _carry_pairs(task, position, rng, n)
    activations, scales, answers = [], [], []
    for numbers in (carries, stays):
        batch = digits.build(task, numbers, b)
        post, scale = _neurons(model, task, batch, position)
        activations.append(post)
        scales.append(scale)
        answers.append(batch.labels[:, position])
    direction = (_last_mlp(model).W_out @ model.unembed.W_U).detach()
    difference = direction[:, answers[0]] - direction[:, answers[1]]
    parts = (activations[0] - activations[1]) * difference.T * scales[0][:, None]
    return parts.numpy()


def _carry_pairs(
    task: DigitsTask, position: int, rng: np.random.Generator, n: int
) -> tuple[Array, Array, Array]:
    """Return digits of a with a carry into `position`, of a without, and of b: int64 [n width] each.

    Below the digit that makes the carry and above `position` all digits are 0.
    """
    width, base, low = task.slots, task.base, position - 1
    a, b = (rng.integers(base, size=(n, width)) for _ in range(2))
    for number in (a, b):
        number[:, position + 1 :] = number[:, :low] = 0
    b[:, low] = rng.integers(1, base, size=n)
    carries, stays = a.copy(), a.copy()
    carries[:, low] = base - b[:, low] + (rng.random(n) * b[:, low]).astype(int)
    stays[:, low] = (rng.random(n) * (base - b[:, low])).astype(int)
    return carries, stays, b


def _last_mlp(model: Transformer) -> MLP:
    block = model.blocks[-1]
    if not isinstance(block, Block) or block.mlp is None:
        raise InputError("the last layer of this model has no MLP")
    return block.mlp


def _neurons(
    model: Transformer, task: DigitsTask, batch: Batch, position: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the last MLP's activations [batch neuron] where an answer digit is read, and 1 / RMS there."""
    place = int(task.layout.read_places[position])
    block = model.blocks[-1]
    assert isinstance(block, Block)
    post, end = _recorded(model, batch, [_last_mlp(model).hook_post, block.hook_resid_post])
    if model.config.norm == "none":
        return post[:, place], torch.ones(len(post))
    return post[:, place], (end[:, place].square().mean(-1) + 1e-5).rsqrt()


def carry_sharing(
    model: Transformer,
    task: DigitsTask,
    one: int,
    two: int,
    *,
    n: int = 2000,
    seed: int = 0,
    n_resamples: int = 300,
) -> CarrySharing:
    """Compare the neurons that use the carry at two answer positions. Errors are those of `carry_effects`."""
    rng = np.random.default_rng((seed, one, two))
    effects = [torch.from_numpy(carry_effects(model, task, at, rng, n=n)) for at in (one, two)]
    sampler = indices.Resampler.draw(np.arange(n), n_resamples, rng)
    halves = [sampler.halves(effect) for effect in effects]
    sets = [indices.covering(half) for half in halves]
    whole = [sampler.whole(half) for half in halves]
    sigmas = [
        indices.sigma(sets[0], sets[1], halves[1]),
        indices.sigma(sets[1], sets[0], halves[0]),
    ]
    return CarrySharing(
        overlap=sampler.estimate(indices.overlap(*whole)),
        sigma=sampler.estimate(torch.minimum(*sigmas)),
        null=indices.overlap_null(whole[0], whole[1], rng),
        within=float(indices.overlap(halves[0][:1, 0], halves[0][1:, 0])[0]),
    )
