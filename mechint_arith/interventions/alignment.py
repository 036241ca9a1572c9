"""Distributed alignment search: learn the subspace whose interchange makes a causal model's prediction come true.

The search is TransformerLens' (`tools.analysis.interchange.fit_das`); here it gets our sites, a split by number
pair, and every control, each searched with the same pairs, rank and budget. A learned subspace that does not
clearly beat the arbitrary-label and untrained searches shows the method's freedom, not the model's variables.
Importing this module is cheap; using it imports TransformerLens.
Sources: Geiger et al., arXiv 2303.02536; controls: Arora et al. 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.counterfactual import Rule, addition, predicted
from mechint_arith.interventions.effects import clusters_of
from mechint_arith.interventions.interchange import Interchange, interchange, outputs_of
from mechint_arith.interventions.located import locate
from mechint_arith.interventions.recording import undisturbed
from mechint_arith.interventions.site import BY_HEAD, ENTRIES, Site
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks.batch import Batch


@dataclass(frozen=True)
class Search:
    """How a subspace is searched for."""

    rank: int = 8
    """Dimension of the subspace."""
    epochs: int = 20
    """Passes over the training pairs."""
    batch_size: int = 128
    """Pairs per step."""
    rate: float = 1e-2
    """Adam's learning rate."""
    seed: int = 0
    """Seed of the first basis, the order of pairs and the controls."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """A learned subspace, judged on pairs that the search did not see."""

    basis: Float[Tensor, "width rank"]
    """Orthonormal columns."""
    losses: tuple[float, ...]
    """Mean training loss per epoch, in nats."""
    held: Interchange
    """Interchange of the subspace on held-out pairs, with a random basis and a norm-matched placebo."""
    controls: dict[str, Estimate]
    """All four controls on held-out pairs; `untrained model` and `arbitrary labels` are searched like the real one."""


def align(
    model: Transformer,
    base: Batch,
    source: Batch,
    site: Site,
    variable: str = "sum",
    search: Search | None = None,
    *,
    rule: Rule | None = None,
    held_share: float = 0.3,
) -> Alignment:
    """Learn the subspace of a site that holds a variable, and test it on pairs held out by base number pair.

    model: a `HookedTransformer`. site: one position of a residual stage or of pre, post; no subspace of its own.
    Raises `InputError` for a site the search cannot learn at, or too few pairs to hold some out.
    """
    search = search or Search()
    if site.hook in BY_HEAD + ENTRIES or not isinstance(site.position, str | int):
        raise InputError(f"{site}: the search needs one position of an activation without heads")
    if site.subspace is not None or site.neurons is not None:
        raise InputError(f"{site}: the search learns the subspace of a whole activation")
    if not hasattr(model, "hook_dict"):
        raise InputError("the search runs hooks; give it a HookedTransformer")
    from transformer_lens.tools.analysis.interchange import arbitrary_targets

    rule = rule or addition(model.config.d_vocab_out)
    answers = predicted(base, source, variable, rule)
    if answers.ndim != 1:
        raise InputError("the search learns one-token answers")
    held = _held_out(base, held_share, search.seed)
    parts = [(base[rows], source[rows]) for rows in (~held, held)]
    (train, donors), (test, test_donors) = parts
    targets = torch.from_numpy(answers[~held])

    basis, losses = learn(model, train, donors, site, targets, search)
    real = interchange(
        model,
        test,
        test_donors,
        replace(site, subspace=basis),
        variable,
        rule=rule,
        controls=("random basis", "placebo"),
        seed=search.seed,
    )

    def searched(
        which: Transformer, to: Tensor, want: Callable[[Batch, Batch], np.ndarray]
    ) -> Estimate:
        found, _ = learn(which, train, donors, site, to, search)
        return _hits(which, test, test_donors, replace(site, subspace=found), want)

    def arbitrary(_: Batch, sources: Batch) -> np.ndarray:
        keys = [(int(a), int(b)) for a, b in zip(*_operands(sources), strict=True)]
        return arbitrary_targets(keys, model.config.d_vocab_out, search.seed).numpy()

    def right(bases: Batch, sources: Batch) -> np.ndarray:
        return predicted(bases, sources, variable, rule)

    weights = initial_weights(model.config, search.seed + 1, dtype=model.unembed.W_U.dtype)
    untrained = type(model)(model.config, weights)
    random_labels = torch.from_numpy(arbitrary(train, donors))
    controls = {
        **real.controls,
        "untrained model": searched(untrained, targets, right),
        "arbitrary labels": searched(model, random_labels, arbitrary),
    }
    return Alignment(basis, losses, real, controls)


def learn(
    model: Transformer,
    base: Batch,
    source: Batch,
    site: Site,
    targets: Tensor,
    search: Search,
) -> tuple[Float[Tensor, "width rank"], tuple[float, ...]]:
    """Return the subspace whose interchange makes the model answer `targets` int [batch], and the losses."""
    from transformer_lens.tools.analysis.interchange import fit_das

    at, there = (_places(site, model, batch) for batch in (base, source))
    with undisturbed(model, grad=True):
        found = fit_das(
            model,
            site.hook_name,
            torch.from_numpy(base.tokens),
            torch.from_numpy(source.tokens),
            targets,
            lambda tokens: model(tokens)[:, base.read],
            rank=search.rank,
            base_positions=at,
            source_positions=there,
            epochs=search.epochs,
            batch_size=search.batch_size,
            lr=search.rate,
            seed=search.seed,
        )
    return found.basis.clone(), found.losses


def _places(site: Site, model: Transformer, batch: Batch) -> Tensor:
    at = locate(site, model.config, batch).at(torch.arange(len(batch)))
    assert at is not None
    return at[:, 0].contiguous()


def _operands(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    return batch.factors["a"], batch.factors["b"]


def _held_out(base: Batch, held_share: float, seed: int) -> np.ndarray:
    """Return which rows are held out, bool [batch]: a share of the unordered number pairs, at least one of each."""
    clusters = clusters_of(base)
    ids = np.unique(clusters)
    n = round(held_share * len(ids))
    if not 0 < n < len(ids):
        raise InputError(f"{len(ids)} number pairs cannot be split with {held_share} held out")
    chosen = np.random.default_rng(seed).permutation(ids)[:n]
    return np.isin(clusters, chosen)


def _hits(
    model: Transformer,
    base: Batch,
    source: Batch,
    site: Site,
    want: Callable[[Batch, Batch], np.ndarray],
) -> Estimate:
    """Return how often the swap gives the wanted answer, over all pairs whose wanted answer is not the base's."""
    answers = want(base, source)
    kept = answers != base.labels
    codes = outputs_of(model, base[kept], source[kept], (site,))
    return share(int((codes == answers[kept]).sum()), int(kept.sum()))
