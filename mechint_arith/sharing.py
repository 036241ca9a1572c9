"""Evidence on the question: do the same neurons of the last MLP serve direct and indirect inputs?

Everything is exact algebra on the neurons at the read position: with no LayerNorm after the last MLP the
mean margin is linear in the post-activations, so the effect of zeroing neuron i on prompt x is
post_i(x) D_i[y], with D = p/(p-1) (W_L - mean over classes of W_L) and W_L = W_out W_U. Nothing is decided
here; `verdict` does that from the `Evidence`. Source: this project's own measures; their error rates on planted
controls are in the README.

Pairs with a = b are kept apart. Intervals: basic bootstrap over unordered number pairs, both routes together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from mechint_arith import indices
from mechint_arith.errors import InputError
from mechint_arith.indices import Resampler, covering
from mechint_arith.models.folded import Run
from mechint_arith.models.reader import Reader
from mechint_arith.stats import Estimate, share, unordered_pairs
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched

JUDGED = ("direct-left", "direct-right", "direct-both")
QUICK_PAIRS = 1000


@dataclass(frozen=True)
class RouteEvidence:
    """What is known of one route by itself; accuracies are over matched prompts."""

    accuracy: Estimate
    """On seen pairs off the diagonal: the competence gate."""
    accuracy_held: Estimate | None
    """On held-out pairs off the diagonal."""
    accuracy_diagonal: Estimate | None
    """On pairs a = b."""
    zeroed: Estimate
    """Accuracy with the MLP's output set to zero (all pairs off the diagonal, as for the next ones)."""
    mean_own: Estimate
    """Accuracy with the neurons at their mean over this route."""
    mean_pooled: Estimate
    """Accuracy with the neurons at their mean over all four routes."""
    resampled: Estimate
    """Accuracy with the neurons of another pair on the same route."""
    mlp_only: Estimate
    """Accuracy with the skip connection around the MLP dropped."""
    keep_set: Estimate
    """Accuracy with only the neurons of S(.95) left on, all others zeroed."""
    margin: Estimate
    """Mean margin of the right answer, in logits."""
    negative_share: float
    """sum |e < 0| / sum |e|: effect of neurons that work against the answer."""
    effect: np.ndarray
    """float [neuron]: e(i), mean over pairs of the zero-ablation effect on the mean margin, in logits."""
    chosen: np.ndarray
    """bool [neuron]: S(.95), from all pairs."""
    active: np.ndarray
    """bool [neuron]: some post-activation is above 1e-4 on this route (shown, never decided on)."""


@dataclass(frozen=True)
class PairEvidence:
    """Agreement of two routes."""

    sigma: Estimate
    """SIGMA(.95): damage by the other route's set over damage by the own set, other half; smaller direction."""
    swap: Estimate
    """SWAP(.95): gain from swapping in S(.95) over the gain from all neurons, over .95; smaller direction."""
    overlap: Estimate
    """OVERLAP: sum over neurons of the smaller of the two shares of positive effect."""
    act: Estimate
    """ACT: effect-weighted correlation over pairs of each neuron's activation on the two routes."""
    overlap_null: float
    """Mean OVERLAP with the neurons of one route relabelled at random."""
    shared_count: float
    """Neurons in both sets over neurons in either (by count, shown only)."""
    spearman: float | None
    """Rank correlation of the effects over neurons active on both routes (shown only; hides a split)."""
    interchange: Mapping[str, Estimate]
    """Site -> share of prompts that give the source's answer after swapping the site from the first route into
    the second and back, smaller direction (shown only; it cannot see a separate module)."""


@dataclass(frozen=True)
class Evidence:
    """All that the verdict rests on."""

    routes: Mapping[str, RouteEvidence]
    """Route -> evidence."""
    pairs: Mapping[str, PairEvidence]
    """`direct-left` … -> evidence, for all pairs of routes."""
    p: int
    """Modulus."""
    n_prompts: int
    """Matched prompts per route, pairs a = b left out."""
    n_pairs: int
    """Unordered number pairs behind them: the clusters of the bootstrap."""
    n_resamples: int
    seed: int


def evidence(
    model: Reader, task: AssignAdd, *, quick: bool = False, seed: int = 0, n_resamples: int = 1000
) -> Evidence:
    """Measure a model on matched prompts of every number pair (`quick`: at most 1,000 pairs).

    Where p^2 is below 1,000, pairs are repeated with fresh prefixes. Raises `InputError` where too few pairs
    of different numbers exist to compare anything (p = 2).
    """
    off = task.seen.reshape(task.p, task.p) & ~np.eye(task.p, dtype=bool)
    if task.p < 3 or not off.any():
        raise InputError(
            f"p = {task.p} with {task.seen.sum()} seen pairs is too small for a sharing verdict: it needs p of 3"
            " or more and a seen pair of two different numbers"
        )
    rng = np.random.default_rng((seed, 300))
    pair = np.arange(task.p**2)
    if quick and len(pair) > QUICK_PAIRS:
        pair = np.sort(rng.choice(pair, QUICK_PAIRS, replace=False))
    pair = np.tile(pair, max(1, -(-QUICK_PAIRS // len(pair))))
    batches = matched(task, pair, rng)
    with torch.no_grad():
        runs = {name: model(torch.from_numpy(batch.tokens)) for name, batch in batches.items()}
        return _Measurement(model, task, pair, runs, rng, n_resamples).evidence(seed)


class _Measurement:
    """The arrays that all statistics share; off the diagonal where nothing else is said."""

    def __init__(
        self,
        model: Reader,
        task: AssignAdd,
        pair: np.ndarray,
        runs: Mapping[str, Run],
        rng: np.random.Generator,
        n_resamples: int,
    ) -> None:
        self.model, self.rng = model, rng
        a, b = np.divmod(pair, task.p)
        labels = torch.from_numpy((a + b) % task.p)
        self.seen, self.off, self.p = task.seen[pair], a != b, task.p
        self.right = {name: (run.logits.argmax(-1) == labels).numpy() for name, run in runs.items()}
        rows = torch.from_numpy(np.flatnonzero(self.off))
        self.labels = labels[rows]
        self.pre = {name: run.resid_pre[rows] for name, run in runs.items()}
        self.mid = {name: run.resid_mid[rows] for name, run in runs.items()}
        self.post = {name: run.post[rows] for name, run in runs.items()}
        self.resampler = Resampler.draw(unordered_pairs(a[self.off], b[self.off]), n_resamples, rng)
        self.source = self._other_pair()

        correct = task.p / (task.p - 1)
        w = model.w_logit.detach().double()
        per_unit = (correct * (w - w.mean(1, keepdim=True))).T.to(self.post["direct"].dtype)
        self.per_unit = per_unit[self.labels]
        """D[y] [batch neuron]: what a unit of each neuron adds to the mean margin of the right answer."""
        effects = {name: post * self.per_unit for name, post in self.post.items()}
        self.effect = {name: e.double().mean(0) for name, e in effects.items()}
        self.halves = {name: self.resampler.halves(e) for name, e in effects.items()}
        self.sets = {name: covering(e) for name, e in self.halves.items()}
        self.whole = {name: self.resampler.whole(e) for name, e in self.halves.items()}
        self.means = {name: self.resampler.mean(post) for name, post in self.post.items()}
        self.squares = {name: self.resampler.mean(post**2) for name, post in self.post.items()}
        self.margin = {
            name: correct * (z.gather(1, self.labels[:, None]) - z.mean(1, keepdim=True))
            for name, z in ((name, run.logits[rows]) for name, run in runs.items())
        }

    def _other_pair(self) -> Tensor:
        """For each row a row of another pair with another answer, drawn at random."""
        labels = self.labels.numpy()
        n = len(labels)
        other = self.rng.integers(0, n, n)
        for _ in range(200):
            same = labels[other] == labels
            if not same.any():
                break
            other[same] = self.rng.integers(0, n, same.sum())
        return torch.from_numpy(other)

    def evidence(self, seed: int) -> Evidence:
        pooled = torch.cat([self.post[name] for name in ROUTES]).mean(0)
        return Evidence(
            {name: self._route(name, pooled) for name in ROUTES},
            {f"{one}-{two}": self._pair(one, two) for one, two in combinations(ROUTES, 2)},
            self.p,
            len(self.labels),
            self.resampler.n,
            self.resampler.n_resamples,
            seed,
        )

    def _accuracy(self, logits: Tensor, labels: Tensor | None = None) -> Estimate:
        right = logits.argmax(-1) == (self.labels if labels is None else labels)
        return share(int(right.sum()), len(right))

    def _route(self, name: str, pooled: Tensor) -> RouteEvidence:
        def over(rows: np.ndarray) -> Estimate | None:
            right = self.right[name][rows]
            return share(int(right.sum()), len(right)) if len(right) else None

        mid, post, model = self.mid[name], self.post[name], self.model
        effect = self.effect[name]
        chosen = covering(effect)
        gate = over(self.off & self.seen)
        if gate is None:
            raise InputError("none of the chosen pairs was seen in training: leave --quick out")
        return RouteEvidence(
            accuracy=gate,
            accuracy_held=over(self.off & ~self.seen),
            accuracy_diagonal=over(~self.off),
            zeroed=self._accuracy(model.logits_from(mid, torch.zeros_like(post))),
            mean_own=self._accuracy(model.logits_from(mid, post.mean(0).expand_as(post))),
            mean_pooled=self._accuracy(model.logits_from(mid, pooled.expand_as(post))),
            resampled=self._accuracy(model.logits_from(mid, post[self.source])),
            mlp_only=self._accuracy(post @ model.w_logit),
            keep_set=self._accuracy(model.logits_from(mid, post * chosen)),
            margin=self.resampler.estimate(self.resampler.mean(self.margin[name])[:, 0]),
            negative_share=float(
                (-effect).clamp(min=0).sum() / effect.abs().sum().clamp(min=1e-30)
            ),
            effect=effect.numpy(),
            chosen=chosen.numpy(),
            active=(post.amax(0) > 1e-4).numpy(),
        )

    def _pair(self, one: str, two: str) -> PairEvidence:
        estimate, whole, sets = self.resampler.estimate, self.whole, self.sets
        sigmas = [
            indices.sigma(sets[x], sets[y], self.halves[y]) for x, y in ((one, two), (two, one))
        ]
        swaps = [indices.swap(sets[y], self._gain(x, y)) for x, y in ((one, two), (two, one))]
        weight = (indices.positive_shares(whole[one]) + indices.positive_shares(whole[two])) / 2
        act = indices.act(
            (self.means[one], self.means[two]),
            (self.squares[one], self.squares[two]),
            self.resampler.mean(self.post[one] * self.post[two]),
            weight,
        )
        chosen = [covering(self.effect[r]) for r in (one, two)]
        either = int((chosen[0] | chosen[1]).sum())
        return PairEvidence(
            sigma=estimate(torch.minimum(*sigmas)),
            swap=estimate(torch.minimum(*swaps)),
            overlap=estimate(indices.overlap(whole[one], whole[two])),
            act=estimate(act),
            overlap_null=indices.overlap_null(whole[one], whole[two], self.rng),
            shared_count=int((chosen[0] & chosen[1]).sum()) / max(either, 1),
            spearman=self._spearman(one, two),
            interchange=self._interchange(one, two),
        )

    def _gain(self, from_route: str, into_route: str) -> Tensor:
        """What each neuron adds to the source's answer when it is swapped in: means [half resample neuron].

        Rows are source prompts of `from_route`; each goes into one base prompt of `into_route` with another
        pair and another answer, drawn at random.
        """
        moved = self.post[from_route] - self.post[into_route][self.source]
        return self.resampler.halves(moved * self.per_unit)

    def _spearman(self, one: str, two: str) -> float | None:
        from scipy.stats import spearmanr

        both = ((self.post[one].amax(0) > 1e-4) & (self.post[two].amax(0) > 1e-4)).numpy()
        if both.sum() < 3:
            return None
        x, y = (self.effect[r].numpy()[both] for r in (one, two))
        return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else None

    def _interchange(self, one: str, two: str) -> dict[str, Estimate]:
        """Put a site's activation of another pair on one route into the other: share giving its answer."""
        found: dict[str, Estimate] = {}
        answers = self.labels[self.source]
        for source, base in ((one, two), (two, one)):
            mid = self.mid[base]
            mid_from, post_from = self.mid[source][self.source], self.post[source][self.source]
            attn = mid_from - self.pre[source][self.source] + self.pre[base]
            sites = {
                "mlp_in": self.model.logits_from(mid, self.model.after_mid(mid_from)[0]),
                "mlp_out": self.model.logits_from(mid, post_from),
                "resid_mid": self.model.after_mid(mid_from)[1],
                "attn_out": self.model.after_mid(attn)[1],
            }
            for site, logits in sites.items():
                here = self._accuracy(logits, answers)
                if site not in found or here.value < found[site].value:
                    found[site] = here
        return found
