"""Every neuron of the last MLP ablated alone, exactly, from one forward pass.

Nothing follows the last MLP but the unembedding, and without a norm in between the logits are linear in its
neurons: with neuron n at r_n instead of a_n they are z - (a_n - r_n) W_out[n] W_U.
The pure functions take arrays of one read position (a folded run has them); `ablate_neurons` runs a model.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.contrast import METRICS, Metric, measuring, named_metric
from mechint_arith.interventions.effects import Axis, Effects, clusters_of
from mechint_arith.interventions.recording import BUDGET, has_hooks, runs
from mechint_arith.models.folded import Folded
from mechint_arith.models.staged import Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

LINEAR = ("mean margin", "answer logit")
"""Metrics that are linear in the logits, so that a neuron's effect is one product."""


def logits_without(
    logits: Float[Tensor, "*batch vocab"],
    post: Float[Tensor, "*batch neuron"],
    w_logit: Float[Tensor, "neuron vocab"],
    *,
    replacement: Float[Tensor, " neuron"] | float = 0.0,
) -> Float[Tensor, "neuron *batch vocab"]:
    """Return the logits with each neuron alone set to its replacement: z - (a_n - r_n) W_out[n] W_U.

    w_logit: W_out W_U. Holds neuron x batch x vocab numbers: take the neurons in parts where that is too many.
    """
    removed = (post - replacement).movedim(-1, 0)
    moved = w_logit.reshape(len(w_logit), *(1,) * (removed.ndim - 1), -1)
    return logits - removed[..., None] * moved


def linear_effects(
    post: Float[Tensor, "*batch neuron"],
    w_logit: Float[Tensor, "neuron vocab"],
    answers: Int[Tensor, " *batch"],
    metric: str = "mean margin",
    *,
    replacement: Float[Tensor, " neuron"] | float = 0.0,
) -> Float[Tensor, "*batch neuron"]:
    """Return the change in a linear metric when each neuron alone is set to its replacement.

    For the mean margin: -(a_n - r_n) D_n[y], D_n[y] = p/(p-1) (W[n,y] - mean_c W[n,c]), W = W_out W_U.
    """
    vocab = torch.arange(w_logit.shape[1])
    # The metric of W's row as if it were logits, for every answer: [neuron vocab].
    rows = w_logit[:, None].expand(-1, len(vocab), -1)
    weight = METRICS[metric](rows, vocab.expand(len(w_logit), -1), vocab.expand(len(w_logit), -1))
    return -(post - replacement) * weight.T[answers]


def ablate_neurons(
    model: Transformer | Folded,
    batch: Batch,
    metric: str | Metric = "mean margin",
    *,
    replacement: Tensor | float = 0.0,
    budget: int = BUDGET,
) -> Effects:
    """Set each neuron of the last MLP alone to a replacement (0, or one number per neuron); axis `neuron`.

    Exact. metric: as in `patching.patch`, of the right answer. An answer of several tokens has the neuron ablated
    at every read position.
    Raises `InputError` where the last layer has no MLP, or a norm follows it (use `ablation.ablate` there).
    """
    config = model.config
    last = config.n_layers - 1
    if not config.d_mlp[last]:
        raise InputError("the last layer has no MLP, so there are no neurons to ablate")
    if config.norm != "none":
        raise InputError(
            "a norm follows the last MLP, so its neurons have no closed form; use ablation.ablate"
        )
    if isinstance(replacement, Tensor) and replacement.shape != (config.d_mlp[last],):
        raise InputError(
            f"expected one replacement per neuron, [{config.d_mlp[last]}], got {list(replacement.shape)}"
        )
    function, name = named_metric(metric)
    w_logit = _w_logit(model)
    answers = torch.from_numpy(batch.labels.reshape(len(batch), -1))
    measure = measuring(function, batch.labels, batch.labels)
    patched, base = [], []
    for rows, post, logits in _posts(model, batch, budget):
        every = torch.arange(len(post)) + rows.start
        base.append(measure(logits, every))
        if name in LINEAR and isinstance(metric, str):
            change = linear_effects(
                post, w_logit, answers[rows], name, replacement=replacement
            ).double()
            patched.append(base[-1] + change.mean(1).T)
            continue
        here = torch.empty(post.shape[-1], len(post), dtype=torch.float64)
        step = max(1, budget // (logits.numel() * logits.element_size()))
        for start in range(0, len(here), step):
            some = slice(start, start + step)
            r = replacement[some] if isinstance(replacement, Tensor) else replacement
            without = logits_without(logits, post[..., some], w_logit[some], replacement=r)
            here[some] = measure(without.flatten(0, 1), every.repeat(len(without))).view(
                len(without), -1
            )
        patched.append(here)
    return Effects(
        (Axis("neuron", tuple(range(config.d_mlp[last]))),),
        torch.cat(patched, 1).numpy(),
        torch.cat(base).numpy(),
        None,
        clusters_of(batch),
        np.arange(len(batch)),
        name,
        "ablation of single neurons, in closed form",
    )


def _w_logit(model: Transformer | Folded) -> Float[Tensor, "neuron vocab"]:
    if isinstance(model, Folded):
        return model.w_logit
    mlp = Staged(model, (0,)).blocks[-1].block.mlp
    assert mlp is not None
    return (mlp.W_out @ model.unembed.W_U).detach()


def _posts(
    model: Transformer | Folded, batch: Batch, budget: int
) -> list[tuple[slice, Float[Tensor, "batch read neuron"], Float[Tensor, "batch read vocab"]]]:
    """Return the last MLP's neurons and the logits at the read positions, part by part."""
    if isinstance(model, Folded):
        if reads_of(batch) != (model.read,):
            raise InputError(f"this folded model reads position {model.read}, not {batch.read}")
        with torch.no_grad():
            folded = model(torch.from_numpy(batch.tokens))
        return [(slice(0, len(batch)), folded.post[:, None], folded.logits[:, None])]
    if has_hooks(model):
        raise InputError("the closed form runs without hooks; remove those on the model first")
    place = (model.config.n_layers - 1, "post")
    staged = Staged(model, reads_of(batch))
    found = []
    for rows, run in runs(staged, batch, {place}, budget):
        post = run.values[place]
        if staged.columns(place) is None:
            post = post[:, list(staged.reads)]
        found.append((rows, post, run.logits))
    return found
