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

from mechint_arith.models.folded import Run
from mechint_arith.models.reader import Reader
from mechint_arith.stats import Estimate, bootstrap_interval, cluster_counts, share, unordered_pairs
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched

COVER = 0.95
"""Share of the positive effect that a selected neuron set holds."""
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

    Where p^2 is below 1,000, pairs are repeated with fresh prefixes.
    """
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
    """The arrays that all statistics share, off the diagonal where nothing else is said."""

    def __init__(
        self,
        model: Reader,
        task: AssignAdd,
        pair: np.ndarray,
        runs: Mapping[str, Run],
        rng: np.random.Generator,
        n_resamples: int,
    ) -> None:
        self.model, self.task, self.rng = model, task, rng
        a, b = np.divmod(pair, task.p)
        labels = torch.from_numpy((a + b) % task.p)
        self.right = {name: (run.logits.argmax(-1) == labels).numpy() for name, run in runs.items()}
        self.pair_all = pair
        off = a != b
        self.off = off
        rows = torch.from_numpy(np.flatnonzero(off))
        self.labels = labels[rows]
        self.mid = {name: run.resid_mid[rows] for name, run in runs.items()}
        self.pre = {name: run.resid_pre[rows] for name, run in runs.items()}
        self.post = {name: run.post[rows].double() for name, run in runs.items()}
        p = task.p
        w = model.w_logit.detach().double()
        self.direct = (p / (p - 1) * (w - w.mean(1, keepdim=True))).T.contiguous()
        """D [vocab neuron]: what a unit of each neuron adds to the mean margin of each answer."""
        self.effects = {name: post * self.direct[self.labels] for name, post in self.post.items()}
        logits = {name: run.logits[rows].double() for name, run in runs.items()}
        self.margins = {
            name: p / (p - 1) * (z.gather(1, self.labels[:, None])[:, 0] - z.mean(1))
            for name, z in logits.items()
        }
        self.cluster = unordered_pairs(a[off], b[off])
        n_clusters = int(self.cluster.max()) + 1
        self.counts = torch.from_numpy(cluster_counts(n_clusters, n_resamples, rng)).double()
        self.counts = torch.cat([torch.ones(1, n_clusters, dtype=torch.double), self.counts])
        """Row 0 is the sample itself; the others are bootstrap weights."""
        half = rng.permutation(n_clusters) % 2
        self.halves = [torch.from_numpy(half == k).double() for k in (0, 1)]
        self.size = self._sums(torch.ones(len(self.cluster), 1, dtype=torch.double))[:, 0]
        self.source = self._other_pair()
        self.half_effect = {
            name: [self._mean(e, half) for half in self.halves] for name, e in self.effects.items()
        }
        self.half_set = {
            name: [_covering(e) for e in halves] for name, halves in self.half_effect.items()
        }
        self.effect = {name: self._mean(e) for name, e in self.effects.items()}

    def _sums(self, values: Tensor) -> Tensor:
        """Sum rows [batch column] by cluster -> [cluster column]."""
        total = torch.zeros(int(self.cluster.max()) + 1, values.shape[1], dtype=values.dtype)
        return total.index_add_(0, torch.from_numpy(self.cluster), values)

    def _mean(self, values: Tensor, half: Tensor | None = None) -> Tensor:
        """Mean over prompts, for the sample and every resample: [batch column] -> [resample column]."""
        weights = self.counts if half is None else self.counts * half
        # A resample without any cluster of a half has no mean; clusters are many, so this is for tiny p only.
        return (weights @ self._sums(values)) / (weights @ self.size)[:, None].clamp(min=1)

    def _other_pair(self) -> Tensor:
        """For each row a row of another pair with another answer, drawn at random."""
        n, labels = len(self.cluster), self.labels.numpy()
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
            self.task.p,
            len(self.cluster),
            int(self.cluster.max()) + 1,
            len(self.counts) - 1,
            seed,
        )

    def _estimate(self, replicates: Tensor) -> Estimate:
        """Turn [resample] with the sample's own value first into an estimate."""
        values = replicates.numpy()
        low, high = bootstrap_interval(values[0], values[1:])
        return Estimate(float(values[0]), low, high, int(self.cluster.max()) + 1)

    def _accuracy(self, logits: Tensor, labels: Tensor | None = None) -> Estimate:
        right = logits.argmax(-1) == (self.labels if labels is None else labels)
        return share(int(right.sum()), len(right))

    def _route(self, name: str, pooled: Tensor) -> RouteEvidence:
        seen = self.task.seen[self.pair_all]

        def over(rows: np.ndarray) -> Estimate | None:
            right = self.right[name][rows]
            return share(int(right.sum()), len(right)) if len(right) else None

        mid, post, model = self.mid[name], self.post[name].to(self.mid[name].dtype), self.model
        n = len(post)
        e = self.effect[name][0]
        chosen = _covering(e[None])[0]
        own_mean, pooled_mean = post.mean(0), pooled.to(post)
        gate = over(self.off & seen)
        assert gate is not None
        return RouteEvidence(
            accuracy=gate,
            accuracy_held=over(self.off & ~seen),
            accuracy_diagonal=over(~self.off),
            zeroed=self._accuracy(model.logits_from(mid, torch.zeros_like(post))),
            mean_own=self._accuracy(model.logits_from(mid, own_mean.expand(n, -1))),
            mean_pooled=self._accuracy(model.logits_from(mid, pooled_mean.expand(n, -1))),
            resampled=self._accuracy(model.logits_from(mid, post[self.source])),
            mlp_only=self._accuracy(post @ model.w_logit.to(post)),
            keep_set=self._accuracy(model.logits_from(mid, post * chosen)),
            margin=self._estimate(self._mean(self.margins[name][:, None])[:, 0]),
            negative_share=float((-e).clamp(min=0).sum() / e.abs().sum().clamp(min=1e-30)),
            effect=e.numpy(),
            chosen=chosen.numpy(),
            active=(post.amax(0) > 1e-4).numpy(),
        )

    def _pair(self, one: str, two: str) -> PairEvidence:
        shares = {r: _positive_shares(self.effect[r]) for r in (one, two)}
        relabelled = [
            torch.minimum(shares[one][0], shares[two][0][torch.from_numpy(order)]).sum()
            for order in (self.rng.permutation(len(shares[one][0])) for _ in range(200))
        ]
        sets = [_covering(self.effect[r][:1])[0] for r in (one, two)]
        either = int((sets[0] | sets[1]).sum())
        return PairEvidence(
            sigma=self._estimate(torch.minimum(self._sigma(one, two), self._sigma(two, one))),
            swap=self._estimate(torch.minimum(self._swap(one, two), self._swap(two, one))),
            overlap=self._estimate(torch.minimum(shares[one], shares[two]).sum(1)),
            act=self._estimate(self._act(one, two, (shares[one] + shares[two]) / 2)),
            overlap_null=float(torch.stack(relabelled).mean()),
            shared_count=int((sets[0] & sets[1]).sum()) / max(either, 1),
            spearman=self._spearman(one, two),
            interchange=self._interchange(one, two),
        )

    def _sigma(self, from_route: str, on_route: str) -> Tensor:
        """Damage on `on_route` by the set of `from_route` over the damage by its own set, cross-fitted."""
        ratios = []
        for choose, judge in ((0, 1), (1, 0)):
            effect = self.half_effect[on_route][judge]
            foreign = (effect * self.half_set[from_route][choose]).sum(1)
            own = (effect * self.half_set[on_route][choose]).sum(1)
            ratios.append(foreign / _away_from_zero(own))
        return (ratios[0] + ratios[1]) / 2

    def _swap(self, from_route: str, into_route: str) -> Tensor:
        """Gain of the source answer from swapping S(.95) of `into_route`, over the gain from all neurons.

        Rows are source prompts of `from_route`; each goes into one base prompt of `into_route` with another
        pair and another answer, drawn at random.
        """
        moved = self.post[from_route] - self.post[into_route][self.source]
        gains = moved * self.direct[self.labels]
        ratios = []
        for choose, judge in ((0, 1), (1, 0)):
            gain = self._mean(gains, self.halves[judge])
            part = (gain * self.half_set[into_route][choose]).sum(1)
            ratios.append(part / _away_from_zero(gain.sum(1)) / COVER)
        return (ratios[0] + ratios[1]) / 2

    def _act(self, one: str, two: str, weight: Tensor) -> Tensor:
        x, y = self.post[one], self.post[two]
        moments = [self._mean(v) for v in (x, y, x * x, y * y, x * y)]
        mx, my, xx, yy, xy = moments
        var_x, var_y = xx - mx**2, yy - my**2
        varies = (var_x > 1e-9 * xx.clamp(min=1e-30)) & (var_y > 1e-9 * yy.clamp(min=1e-30))
        product = torch.where(varies, var_x * var_y, 1.0)
        correlation = torch.where(varies, (xy - mx * my) / product.sqrt(), 0.0)
        return (weight * correlation).sum(1)

    def _spearman(self, one: str, two: str) -> float | None:
        from scipy.stats import spearmanr

        on = [(self.post[r].amax(0) > 1e-4).numpy() for r in (one, two)]
        both = on[0] & on[1]
        if both.sum() < 3:
            return None
        x, y = (self.effect[r][0].numpy()[both] for r in (one, two))
        return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else None

    def _interchange(self, one: str, two: str) -> dict[str, Estimate]:
        """Put a site's activation of another pair on one route into the other route: share giving its answer."""
        found: dict[str, Estimate] = {}
        for source, base in ((one, two), (two, one)):
            mid, post = self.mid[base], self.post[base].to(self.mid[base].dtype)
            mid_from, post_from = self.mid[source][self.source], self.post[source][self.source]
            attn = mid_from - self.pre[source][self.source] + self.pre[base]
            sites = {
                "mlp_in": self.model.logits_from(mid, self.model.after_mid(mid_from)[0]),
                "mlp_out": self.model.logits_from(mid, post_from.to(post)),
                "resid_mid": self.model.after_mid(mid_from)[1],
                "attn_out": self.model.after_mid(attn)[1],
            }
            for site, logits in sites.items():
                share_here = self._accuracy(logits, self.labels[self.source])
                if site not in found or share_here.value < found[site].value:
                    found[site] = share_here
        return found


def _covering(effect: Tensor, cover: float = COVER) -> Tensor:
    """The smallest sets that hold a share of the positive effect: [resample neuron] -> bool, same shape."""
    ordered, order = effect.clamp(min=0).sort(dim=1, descending=True)
    before = ordered.cumsum(1) - ordered
    needed = cover * ordered.sum(1, keepdim=True)
    inside = (before < needed) & (ordered > 0)
    return torch.zeros_like(inside).scatter_(1, order, inside)


def _positive_shares(effect: Tensor) -> Tensor:
    positive = effect.clamp(min=0)
    return positive / positive.sum(1, keepdim=True).clamp(min=1e-30)


def _away_from_zero(value: Tensor) -> Tensor:
    """Keep a denominator's sign and its distance from 0 (untrained networks have effects around it)."""
    return torch.where(value < 0, value.clamp(max=-1e-12), value.clamp(min=1e-12))
