"""What a modular model's addition is made of: frequencies, neuron clusters, clock or pizza, progress measures.

Takes a model that was run on all pairs, in the order of numbers in which its task is addition
(`tasks.additive`). Whether a circuit may be claimed at all is decided in `modular_findings`.

Sources: Nanda et al. 2023, arXiv 2301.05217; Zhong et al. 2023, arXiv 2306.17844.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mechint_arith.interventions.frequencies import Recorded
from mechint_arith.models.transformer import Transformer
from mechint_arith.probes.clock_pizza import (
    Circularity,
    DistanceIrrelevance,
    Symmetricity,
    circularity,
    correct_logits,
    distance_irrelevance,
    gradient_symmetricity,
)
from mechint_arith.probes.fourier import Spectrum, spectrum
from mechint_arith.probes.frequencies import NeuronFrequencies, neuron_frequencies
from mechint_arith.probes.key_frequencies import (
    KeyFrequencies,
    Null,
    PairKeyFrequencies,
    key_frequencies,
    pair_key_frequencies,
)
from mechint_arith.probes.progress import (
    ExcludedLoss,
    LogitForm,
    RestrictedLoss,
    component_norms,
    excluded_loss,
    gini,
    logit_form,
    restricted_loss,
    squared_weights,
    trig_fraction,
)
from mechint_arith.tasks.additive import AdditiveView

STRONGEST = 5
"""How many frequencies of the embeddings are listed whether or not they stand out."""
CLUSTERED = 0.85
"""Least share of a neuron's energy in one frequency for it to belong to that frequency's cluster."""
CLASSES = 16
"""Answers whose gradients are taken, evenly spread; all where there are fewer than four times as many."""
CLOCK, PIZZA = (0.6, 0.6), (0.9, 0.4)
"""Declared rule. Clock: symmetricity at most, distance irrelevance at least; pizza: at least, at most."""


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Which frequencies a model uses, in its embeddings and in its logits."""

    embedding: Spectrum
    """Energy of the number embeddings; both operands' where they have their own."""
    embedding_key: KeyFrequencies
    logits: PairKeyFrequencies
    """Of the logits without their mean over classes."""

    @property
    def strongest(self) -> tuple[int, ...]:
        """The strongest frequencies of the embeddings, key or not."""
        return self.embedding.strongest(STRONGEST)

    @property
    def key(self) -> tuple[int, ...]:
        """Frequencies key in the embeddings or in the logits, each against its own null; those of the logits first."""
        return tuple(dict.fromkeys((*self.logits.frequencies, *self.embedding_key.frequencies)))


@dataclass(frozen=True, eq=False)
class Progress:
    """Nanda et al.'s progress measures at given frequencies."""

    frequencies: tuple[int, ...]
    restricted: RestrictedLoss
    excluded: ExcludedLoss | None
    """None where the training pairs are not known."""
    trig_neurons: float | None
    """Share of the neurons' energy in functions of the sum; None without an MLP or with constant neurons."""
    trig_logits: float
    gini_embedding: float
    gini_neuron_logit: float | None
    """Of W_out W_U over classes; None without an MLP."""
    squared_weights: float
    logit_form: LogitForm


@dataclass(frozen=True, eq=False)
class Circuit:
    """Clock or pizza, by a declared rule."""

    symmetricity: Symmetricity
    distance_irrelevance: DistanceIrrelevance
    circularity: Circularity

    @property
    def kind(self) -> str:
        """`clock`, `pizza` or `neither clearly`."""
        alike, spread = self.symmetricity.mean.value, self.distance_irrelevance.mean.value
        if alike <= CLOCK[0] and spread >= CLOCK[1]:
            return "clock"
        if alike >= PIZZA[0] and spread <= PIZZA[1]:
            return "pizza"
        return "neither clearly"


def embeddings(recorded: Recorded) -> Tensor:
    """Return the number embeddings in order, [value d_model]; both operands' side by side where they differ."""
    w_e = recorded.weights["embed.W_E"]
    return torch.cat([w_e[rows] for rows in recorded.table.numbers], 1)


def logits_over_pairs(recorded: Recorded, view: AdditiveView) -> np.ndarray:
    """Return the logits of the answers in order, float64 [i j class]."""
    return recorded.table.square(recorded.run.logits[:, view.classes])


def frequencies(
    recorded: Recorded, view: AdditiveView, *, rng: np.random.Generator, n_permutations: int = 199
) -> Frequencies:
    """Return the frequencies of embeddings and logits, each against a permutation null."""
    logits = logits_over_pairs(recorded, view)
    centred = logits - logits.mean(-1, keepdims=True)
    rows = embeddings(recorded)
    return Frequencies(
        spectrum(rows),
        key_frequencies(rows, rng=rng),
        pair_key_frequencies(centred, null=Null(n_permutations=n_permutations), rng=rng),
    )


def neuron_clusters(recorded: Recorded) -> NeuronFrequencies | None:
    """Return the dominant frequency of each neuron; None without an MLP."""
    if not recorded.run.post.shape[1]:
        return None
    return neuron_frequencies(recorded.table.square(recorded.run.post))


def progress(
    recorded: Recorded,
    view: AdditiveView,
    chosen: tuple[int, ...],
    *,
    train: np.ndarray | None = None,
) -> Progress:
    """Return the progress measures at the frequencies given.

    train: bool [i j], the training pairs, where they are known. Raises `InputError` for frequency 0.
    """
    logits = logits_over_pairs(recorded, view)
    weights, post = recorded.weights, recorded.run.post
    has_neurons = bool(post.shape[1])
    over_logits = None
    if has_neurons:
        layer = recorded.config.last_mlp
        outward = weights[f"blocks.{layer}.mlp.W_out"] @ weights["unembed.W_U"][:, view.classes]
        over_logits = gini(component_norms(outward, axis=1))
    alive = has_neurons and bool((post.std(0) > 0).any())
    centred = logits - logits.mean(-1, keepdims=True)
    return Progress(
        chosen,
        restricted_loss(logits, view.labels, chosen, train=train),
        None if train is None else excluded_loss(logits, view.labels, chosen, train=train),
        trig_fraction(recorded.table.square(post), chosen).total if alive else None,
        trig_fraction(centred, chosen).total,
        gini(component_norms(embeddings(recorded))),
        over_logits,
        sum(squared_weights(weights).values()),
        logit_form(logits, view.labels),
    )


def circuit(recorded: Recorded, view: AdditiveView, *, rng: np.random.Generator) -> Circuit:
    """Return the measures that tell clocks from pizzas."""
    table, weights = recorded.table, recorded.weights
    network = Transformer(recorded.config, weights).requires_grad_(False)
    places = weights["pos_embed.W_pos"]
    tail = table.tokens[0, 2:]
    closing = weights["embed.W_E"][tail] + places[2 : 2 + len(tail)]

    def logits(lhs: Tensor, rhs: Tensor) -> Tensor:
        rows = [lhs + places[0], rhs + places[1], *(row.expand_as(lhs) for row in closing)]
        return network(torch.stack(rows, 1), last=1)[:, 0]

    w_e = weights["embed.W_E"]
    a = table.tokens[:: table.n, 0]
    b = table.tokens[: table.n, 1]
    n_classes = len(view.classes)
    step = n_classes // CLASSES if n_classes >= 4 * CLASSES else 1
    correct = correct_logits(logits_over_pairs(recorded, view), view.labels)
    return Circuit(
        gradient_symmetricity(logits, w_e[a], w_e[b], classes=view.classes[::step], rng=rng),
        distance_irrelevance(correct, rng=rng),
        circularity(embeddings(recorded), n=min(4, table.n - 1)),
    )


def progress_dict(found: Progress) -> dict[str, Any]:
    """Plain JSON values."""
    form = found.logit_form
    excluded = None
    if found.excluded is not None:
        each: Mapping[int, float] = found.excluded.each
        excluded = {
            "train_full": found.excluded.full,
            "train": found.excluded.together,
            "each": {str(k): value for k, value in each.items()},
        }
    return {
        "frequencies": list(found.frequencies),
        "restricted_loss": {"all": found.restricted.all, "held": found.restricted.held},
        "excluded_loss": excluded,
        "trig_fraction": {"neurons": found.trig_neurons, "logits": found.trig_logits},
        "gini": {"W_E": found.gini_embedding, "W_out W_U": found.gini_neuron_logit},
        "sum_of_squared_weights": found.squared_weights,
        "logit_form": {
            "alpha": {str(k): float(form.alpha[k]) for k in found.frequencies},
            "variance_explained": form.variance_explained(found.frequencies),
        },
    }
