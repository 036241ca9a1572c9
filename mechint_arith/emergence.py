"""Does one gradient step make layer 1 match variable identities, once addition is learned and binding is not?

Layer 1's query-key product is replaced by one free matrix M [d_model d_model] set to 0 (with both factors 0 the
gradient would vanish), so that `=` attends evenly to all positions. The gradient of the training loss in M is
taken over all training pairs, forms and a few prefixes. If -gradient, seen between the variables as layer 0 moves
them, has its largest entries on the diagonal, one step of descent makes a query for variable v look at v's value.

Two versions: `tokens`, layer 0 as it is, and `supplied`, where layer 0's work is done by hand: every value token
carries its variable, and `=` carries half of both operand variables. The null exchanges the MLP's input weights
among neurons, so that the MLP no longer adds. Source: the question is this project's own; the one-step argument
follows the usual one for induction heads, Bietti et al., arXiv 2306.00802.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.measures.subject import exact
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.folded import Folded, fold
from mechint_arith.stats import Estimate, permutation_p
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.pools import on_pairs

VERSIONS = ("tokens", "supplied")
CHUNK = 512


@dataclass(frozen=True)
class Emergence:
    """What one gradient step in M does between the variables, and to restricted positions."""

    structure: np.ndarray
    """float [query variable, key variable]: -dL/dM between the variables' directions (of length 1), in nats."""
    identity: Estimate
    """Share of variables whose largest entry is on the diagonal (exact, n variables)."""
    contrast: Estimate
    """Mean of the diagonal minus mean of the rest, in standard deviations of the rest."""
    p_value: float
    """Of the mean of the diagonal under random relabelling of the key variables."""
    found: dict[str, Estimate]
    """Cell kind (`trained`, `restricted`) -> share of one-variable prompts whose queried value gets the largest
    score of all value tokens after the step."""
    loss: float
    """Training loss at M = 0, in nats."""
    n_prompts: int
    """Prompts behind the gradient."""


def step_from(
    checkpoint: Checkpoint,
    *,
    version: str = "tokens",
    scrambled: bool = False,
    n_prefixes: int = 1,
    seed: int = 0,
) -> Emergence:
    """Take the gradient in M at M = 0 and say what it does.

    version: `tokens` or `supplied`; scrambled: exchange the MLP's input weights among neurons first; n_prefixes:
    random prefixes (and variables) per training pair and form. Raises `InputError` for a model that is not
    assign-and-add with two layers and one head, or an unknown version.
    """
    task, model = _checked(checkpoint, version)
    if scrambled:
        order = torch.from_numpy(np.random.default_rng((seed, 1)).permutation(model.w_in.shape[1]))
        model = replace(model, w_in=model.w_in[:, order])
    seen = np.repeat(task.pairs(held=False), n_prefixes)
    batches = [
        on_pairs(task, route, seen, np.random.default_rng((seed, 2, i)))
        for i, route in enumerate(ROUTES)
    ]
    gradient, loss = _gradient(model, task, batches, version)
    features = _features(model, task, version)
    structure = (features @ -gradient @ features.T).double().numpy()
    identity, contrast, p_value = _diagonal(structure, np.random.default_rng((seed, 3)))
    found = {
        kind: _found(model, task, -gradient, version, restricted, seed)
        for kind, restricted in (("trained", False), ("restricted", True))
        if not restricted or task.never_left or task.never_right
    }
    return Emergence(structure, identity, contrast, p_value, found, loss, sum(map(len, batches)))


def _features(model: Folded, task: AssignAdd, version: str) -> Float[Tensor, "variable d_model"]:
    """Return the direction of each variable: its code, or its image under layer 0, centred, of length 1."""
    if version == "supplied":
        return _codes(model, task)
    moved = model.rows[1, torch.from_numpy(task.variable_ids)]
    return F.normalize(moved - moved.mean(0), dim=1)


def _checked(checkpoint: Checkpoint, version: str) -> tuple[AssignAdd, Folded]:
    task, config = checkpoint.task, checkpoint.config
    if version not in VERSIONS:
        raise InputError(f"a version is one of {', '.join(VERSIONS)}; got {version!r}")
    if not isinstance(task, AssignAdd) or config.n_layers != 2 or config.n_heads != 1:
        raise InputError("emergence is defined for assign-add models with two layers of one head")
    weights = {name: w.detach() for name, w in checkpoint.weights.items()}
    return task, fold(config, weights, read=task.places["equals"])


@dataclass(frozen=True)
class _Inputs:
    """What layer 1 gets."""

    query: Float[Tensor, "batch d_model"]
    """Residual stream at `=`, as the query sees it."""
    key: Float[Tensor, "batch pos d_model"]
    """Residual stream at every position, as the keys see it."""
    value: Float[Tensor, "batch pos d_model"]
    """OV images of every position."""
    start: Float[Tensor, "batch d_model"]
    """Residual stream at `=` that the attention output is added to."""


def _tokens(model: Folded, task: AssignAdd, batch: Batch) -> _Inputs:
    """Return layer 1's inputs as layer 0 makes them."""
    n, read = model.config.d_vocab, batch.read
    tokens = torch.from_numpy(batch.tokens)
    image = model.rows[:, :n][:, tokens] + model.rows[:, None, n : n + read + 1]
    moved = model.values[0, :, :n][:, tokens] + model.values[0, :, None, n : n + read + 1]
    with torch.no_grad():
        pattern = model(tokens).patterns[0][:, 0]
    resid = image[0] + pattern @ image[1]
    return _Inputs(resid[:, read], resid, moved[0] + pattern @ moved[1], resid[:, read])


def _codes(model: Folded, task: AssignAdd) -> Float[Tensor, "variable d_model"]:
    """Return one orthonormal direction per variable. Raises `InputError` for more variables than dimensions."""
    d_model = model.config.d_model
    if task.n_vars > d_model:
        raise InputError(
            f"{task.n_vars} variables have no orthogonal codes in {d_model} dimensions"
        )
    return torch.eye(d_model, dtype=model.rows.dtype)[: task.n_vars]


def _supplied(model: Folded, task: AssignAdd, batch: Batch) -> _Inputs:
    """Return layer 1's inputs with binding given: values carry their variable's code, `=` half of both operands'."""
    n, read = model.config.d_vocab, batch.read
    tokens, codes = torch.from_numpy(batch.tokens), _codes(model, task)
    key = torch.zeros(len(batch), read + 1, model.config.d_model, dtype=codes.dtype)
    row, at = np.nonzero(batch.tokens[:, : task.places["plus"]] < task.p)
    key[row, at] = codes[tokens[row, at - 1] - int(task.variable_ids[0])]
    query = torch.zeros_like(key[:, 0])
    for side in ("left", "right"):
        variable = batch.factors[f"{side} variable"]
        rows = np.flatnonzero(variable >= 0)
        query[rows] += codes[variable[rows]] / 2
    value = model.values[0, 0, :n][tokens] + model.values[0, 0, n : n + read + 1]
    start = model.rows[0, :n][tokens[:, read]] + model.rows[0, n + read]
    return _Inputs(query, key, value, start)


INPUTS = {"tokens": _tokens, "supplied": _supplied}


def _gradient(
    model: Folded, task: AssignAdd, batches: list[Batch], version: str
) -> tuple[Float[Tensor, "d_model d_model"], float]:
    """Return dL/dM at M = 0 and the loss there; forms weigh as in the training mixture's full set."""
    weight = {"direct": 12, "left": 10, "right": 10, "both": 10}
    total, loss_sum = 0.0, 0.0
    gradient = torch.zeros(model.config.d_model, model.config.d_model, dtype=model.rows.dtype)
    for route, batch in zip(ROUTES, batches, strict=True):
        for part in _chunks(batch):
            inputs = INPUTS[version](model, task, part)
            m = torch.zeros_like(gradient, requires_grad=True)
            scores = (inputs.query @ m)[:, None] @ inputs.key.mT
            mid = inputs.start + (scores.softmax(-1) @ inputs.value)[:, 0]
            _, logits = model.after_mid(mid)
            loss = F.cross_entropy(logits, torch.from_numpy(part.labels), reduction="sum")
            loss.backward()
            assert m.grad is not None
            gradient += weight[route] * m.grad
            loss_sum += weight[route] * loss.item()
            total += weight[route] * len(part)
    return gradient / total, loss_sum / total


def _chunks(batch: Batch) -> Iterator[Batch]:
    for start in range(0, len(batch), CHUNK):
        yield batch[start : start + CHUNK]


def _diagonal(structure: np.ndarray, rng: np.random.Generator) -> tuple[Estimate, Estimate, float]:
    """Return identity share, contrast of the diagonal, and its p-value under relabelled key variables."""
    n = len(structure)
    same = np.eye(n, dtype=bool)
    share = float((structure.argmax(1) == np.arange(n)).mean())
    rest = structure[~same]
    contrast = (structure[same].mean() - rest.mean()) / max(float(rest.std()), 1e-30)
    null = [structure[np.arange(n), rng.permutation(n)].mean() for _ in range(9999)]
    return exact(share, n), exact(contrast, n), permutation_p(structure[same].mean(), null)


def _found(
    model: Folded,
    task: AssignAdd,
    m: Float[Tensor, "d_model d_model"],
    version: str,
    restricted: bool,
    seed: int,
) -> Estimate:
    """Return how often the step makes the queried variable's value the most attended value token."""
    from mechint_arith.measures.subject import share_of
    from mechint_arith.tasks.pools import pool

    name = "1var_restricted" if restricted else "1var_seen"
    batch = pool(task, name, 1000, np.random.default_rng((seed, 4)))
    batch = batch[batch.factors["assignments"] > 1]
    side = np.where(batch.factors["form"] == ROUTES.index("left"), 0, 1)
    places = np.stack([batch.positions[f"value of {o}"] for o in ("lhs", "rhs")], 1)
    wanted = places[np.arange(len(batch)), side]
    inputs = INPUTS[version](model, task, batch)
    scores = ((inputs.query @ m)[:, None] @ inputs.key.mT)[:, 0].numpy()
    is_value = np.zeros(batch.tokens.shape, dtype=bool)
    prefix = task.places["plus"]
    is_value[:, :prefix] = batch.tokens[:, :prefix] < task.p
    best = np.where(is_value, scores, -np.inf).argmax(1)
    return share_of(best == wanted)
