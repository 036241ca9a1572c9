"""Controls that compute the same function as their base: shared, split, partly shared, cancelling.

Every one is the base's own neurons, copied, rescaled and gated; logits change by rounding only.
"""

from __future__ import annotations

import numpy as np
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.finish import Plan, finish
from mechint_arith.models.controls.flags import add_flag
from mechint_arith.models.controls.neurons import CLEAR, OPEN, SET, Neurons, joined
from mechint_arith.models.controls.truth import effects, no_share, planted_shares
from mechint_arith.models.init import initial_weights

DISGUISES = ("permuted", "scaled", "halves")
CHOICES = ("random", "important", "unimportant", "strength")


def shared(
    base: Checkpoint,
    *,
    disguise: str = "scaled",
    flag: str | None = None,
    flag_size: float = 1.0,
    seed: int,
) -> Checkpoint:
    """Plant full sharing in disguise; with `flag`, that flag is in the residual stream but no neuron reads it.

    disguise: `permuted`, each neuron once; `scaled`, each as two copies of random strengths that add up to it,
    read with W_in g and written with W_out / g; `halves`, each as two identical copies of half strength.
    Raises `InputError` for an unknown disguise or flag and for a model that cannot be rewritten.
    """
    if disguise not in DISGUISES:
        raise InputError(f"no disguise {disguise!r}: choose from {', '.join(DISGUISES)}")
    rng = np.random.default_rng((seed, 0))
    draft = Draft.of(base)
    if flag is not None:
        add_flag(draft, flag, size=flag_size)
    neurons = draft.neurons
    if disguise == "halves":
        neurons = joined(neurons.weighted(0.5), neurons.weighted(0.5))
    elif disguise == "scaled":
        part = torch.from_numpy(rng.uniform(0.1, 0.9, len(neurons)))
        copies = neurons.weighted(part), neurons.weighted(1 - part)
        neurons = joined(*(copy.rescaled(rng) for copy in copies))
    options = {"disguise": disguise, "unread flag": flag, "flag size": flag_size}
    return finish(base, draft, neurons, Plan("shared", seed, options=options), rng)


def split(base: Checkpoint, *, flag: str = "left", scaled: bool = False, seed: int) -> Checkpoint:
    """Plant two disjoint copies of the MLP, one for the routes that set the flag and one for the others."""
    return partial(base, 0.0, flag=flag, scaled=scaled, seed=seed)


def partial(
    base: Checkpoint,
    share: float,
    *,
    flag: str = "left",
    choice: str = "random",
    scaled: bool = False,
    seed: int,
) -> Checkpoint:
    """Plant sharing of part of the neurons; the others are there twice, once for each state of the flag.

    share: share of the neurons that stay ungated (by count), or with `choice="strength"` the share of every
    neuron's output that an ungated copy writes. choice: `random`; `important` or `unimportant`, the neurons of
    largest or smallest mean effect over the four routes; `strength`. scaled: each copy is read with W_in g and
    written with W_out / g, so that two copies of a neuron are active on different scales. The kind is `split`
    where nothing is shared.
    Raises `InputError` for a share outside [0, 1], an unknown choice or flag, or a model that cannot be
    rewritten.
    """
    if not 0 <= share <= 1:
        raise InputError(f"the planted share lies in [0, 1]; got {share}")
    if choice not in CHOICES:
        raise InputError(f"no choice {choice!r}: choose from {', '.join(CHOICES)}")
    rng = np.random.default_rng((seed, 0))
    draft = Draft.of(base)
    added = add_flag(draft, flag)
    neurons = draft.neurons
    if choice == "strength":
        common, apart = neurons.weighted(share), neurons.weighted(1 - share)
    else:
        keep = _chosen(draft, share, choice, rng)
        common, apart = neurons[keep], neurons[~keep]
    parts = [common.gated(OPEN), apart.gated(CLEAR), apart.gated(SET)]
    if scaled:
        parts = [part.rescaled(rng) for part in parts]
    kept = [part for part in parts if bool(part.w_out.any())]
    options = {"share": share, "choice": choice, "scaled": scaled}
    plan = Plan("partial" if share else "split", seed, flag, options)
    return finish(base, draft, joined(*kept), plan, rng, flag=added)


def _chosen(draft: Draft, share: float, choice: str, rng: np.random.Generator) -> np.ndarray:
    """Return bool [neuron]: round(share * neurons) of them."""
    n = len(draft.neurons)
    order = rng.permutation(n)
    if choice != "random":
        effect = np.stack(list(effects(draft.folded, draft.task, rng, n_pairs=1000).values()))
        weight = (effect / np.abs(effect).sum(1, keepdims=True).clip(1e-12)).mean(0)
        order = np.argsort(weight if choice == "unimportant" else -weight, kind="stable")
    keep = np.zeros(n, dtype=bool)
    keep[order[: round(share * n)]] = True
    return keep


def cancelling(
    base: Checkpoint, *, strength: float = 1.0, flag: str | None = None, seed: int
) -> Checkpoint:
    """Plant neurons whose outputs cancel, so that no share of effect can be told.

    Beside every neuron stand two copies that write +strength and -strength times as much, read on different
    scales: negative mass strength / (1 + 2 strength). With `flag`, the neuron itself is split by that flag while
    the cancelling copies serve all routes: most effect looks shared and none of the function is.
    Raises `InputError` for a strength that is not positive, an unknown flag, or a model that cannot be rewritten.
    """
    if not strength > 0:
        raise InputError(f"cancelling copies need a positive strength; got {strength}")
    rng = np.random.default_rng((seed, 0))
    draft = Draft.of(base)
    added = None if flag is None else add_flag(draft, flag)
    neurons = draft.neurons
    parts: list[Neurons] = [neurons]
    if flag is not None:
        parts = [neurons.gated(CLEAR), neurons.gated(SET)]
    parts += [neurons.weighted(sign * strength).rescaled(rng) for sign in (1, -1)]
    unknown = no_share("neurons cancel: sharing is not identifiable")
    plan = Plan("cancelling", seed, flag, {"strength": strength}, unknown)
    return finish(base, draft, joined(*parts), plan, rng, flag=added)


def untrained(base: Checkpoint, *, seed: int) -> Checkpoint:
    """Return a network of the base's shape with fresh random weights: not competent on any route."""
    weights = initial_weights(base.config, seed)
    why = "the network was never trained"
    planted = {
        "kind": "untrained",
        "flag": None,
        "seed": seed,
        "options": {},
        "truth": planted_shares({}, np.zeros(0), None, unknown=no_share(why)),
    }
    return Checkpoint(base.config, weights, base.task, 0, seed, {"planted": planted})
