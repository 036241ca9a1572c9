"""Logit lens and direct logit attribution: the logits as a sum of what each part of a model writes.

The residual stream is a sum of writes, and the unembedding is linear (with a final norm: for the norm that the run
itself has), so the terms of every decomposition here sum to the logits exactly, up to rounding. A term says what a
part writes, not what would happen without it: that is an intervention's question.
Sources: nostalgebraist, "interpreting GPT: the logit lens" (2020); Elhage et al. 2021; Wang et al., arXiv 2211.00593.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith import metrics
from mechint_arith.errors import InputError
from mechint_arith.models.staged import Record, Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.stats import Estimate, clustered_mean, unordered_pairs
from mechint_arith.tasks.batch import Batch

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("layer", "component", "head", "neuron")
"""How finely the writes are told apart: embeddings and whole layers; attention and MLP of each layer; its heads;
its heads and neurons. Biases, where a model has them, are terms of their own."""
METRICS = ("mean margin", "answer logit")
"""Metrics that are linear in the logits."""
EXAMPLES = 512
"""Examples run at a time."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Parts of the logits; they sum to them."""

    names: tuple[str, ...]
    values: Float[Tensor, "term batch read vocab"]
    """In logits."""

    @property
    def total(self) -> Float[Tensor, "batch read vocab"]:
        """Their sum."""
        return self.values.sum(0)

    def of(self, name: str) -> Float[Tensor, "batch read vocab"]:
        """Return one term. Raises `InputError` for an unknown name."""
        if name not in self.names:
            raise InputError(f"no term {name!r}; terms: {', '.join(self.names[:12])}")
        return self.values[self.names.index(name)]

    def by_frequency(self, bases: Mapping[str, np.ndarray]) -> dict[str, Terms]:
        """Return each term's part along groups of directions of the answer axis, which sum to the term.

        bases: name -> orthonormal rows [component vocab] of one frequency, such as `fourier.basis(p).of(k)`;
        together a basis. Raises `InputError` where they are not orthonormal, or not all.
        """
        rows = np.concatenate(list(bases.values()))
        n = self.values.shape[-1]
        if rows.shape != (n, n) or not np.allclose(rows @ rows.T, np.eye(n), atol=1e-6):
            raise InputError(
                f"frequencies need {n} orthonormal rows over the answers in all; got {list(rows.shape)}"
            )
        found = {}
        for name, part in bases.items():
            basis = torch.from_numpy(np.ascontiguousarray(part)).to(self.values)
            found[name] = Terms(self.names, self.values @ basis.mT @ basis)
        return found

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per term, example, read position and answer: logit."""
        import pandas as pd

        sizes = [range(n) for n in self.values.shape[1:]]
        names = ["term", "example", "read", "answer"]
        index = pd.MultiIndex.from_product([self.names, *sizes], names=names)
        return pd.DataFrame({"logit": self.values.numpy().ravel()}, index=index).reset_index()

    def figure(self, example: int = 0, *, read: int = 0, **options: Any) -> Any:
        """Return one example's terms as a map: a row per term, a column per answer, colours around 0.

        read: which of an answer's tokens. options go to `figures.heatmap.heat_map` (`title`, …).
        Raises `InputError` for an example or a read position that is not there.
        """
        from mechint_arith.figures.heatmap import heat_map

        _, n, reads, vocab = self.values.shape
        if not (0 <= example < n and 0 <= read < reads):
            raise InputError(
                f"no example {example} read at {read}: there are {n}, read at {reads} positions"
            )
        options = {
            "row_name": "term",
            "column_name": "answer",
            "unit": "logits",
            "signed": True,
            "title": f"What each part adds to the logits of example {example}",
            **options,
        }
        return heat_map(
            self.values[:, example, read].numpy(),
            rows=self.names,
            columns=range(vocab),
            **options,
        )


@dataclass(frozen=True, eq=False)
class Attribution:
    """A linear metric as a sum over the parts of a model, example by example."""

    metric: str
    names: tuple[str, ...]
    values: np.ndarray
    """float64 [term example], in the metric's unit; a column sums to the example's metric."""
    clusters: np.ndarray
    """int64 [example]: examples that share an unordered number pair."""

    def to_dataframe(self, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Return one row per term: mean over the examples and its clustered interval."""
        import pandas as pd

        means = self._means(range(len(self.names)), n_resamples, seed)
        rows = [
            {"term": name, self.metric: e.value, "low": e.low, "high": e.high, "n": e.n}
            for name, e in means.items()
        ]
        return pd.DataFrame(rows)

    def figure(
        self, top: int = 30, *, n_resamples: int = 1000, seed: int = 0, **options: Any
    ) -> Any:
        """Return the mean of each term with its clustered interval, bottom of the model first.

        top: how many terms at most, those with the largest means. options go to `figures.intervals.intervals`.
        """
        from mechint_arith.figures.intervals import intervals

        largest = np.argsort(-np.abs(self.values.mean(1)), kind="stable")[:top]
        means = self._means(sorted(largest.tolist()), n_resamples, seed)
        options = {"title": f"Direct attribution of the {self.metric}", "unit": "logits"} | options
        return intervals({"": means}, marks=((0, ""),), **options)

    def _means(self, terms: Iterable[int], n_resamples: int, seed: int) -> dict[str, Estimate]:
        return {
            self.names[i]: clustered_mean(
                self.values[i],
                self.clusters,
                n_resamples=n_resamples,
                rng=np.random.default_rng(seed),
            )
            for i in terms
        }


def logit_lens(model: Transformer, batch: Batch) -> Terms:
    """Return what each step up the residual stream adds to the logits read off it.

    Terms: `embedding`, then per layer `after attention 0`, `after MLP 0`, …: the unembedded stream there minus the
    one before, so that partial sums are the lens itself (`cumulative`) and the whole is the logits.
    """
    lens = logits_so_far(model, batch)
    steps = torch.cat([lens.values[:1], lens.values[1:] - lens.values[:-1]])
    return Terms(lens.names, steps)


@torch.no_grad()
def logits_so_far(model: Transformer, batch: Batch) -> Terms:
    """Return the logit lens itself: the unembedded residual stream (through the final norm) at each step.

    These do not sum to the logits: the last of them is the logits.
    """
    staged = Staged(model, reads_of(batch))
    layers = range(model.config.n_layers)
    places = [(0, "resid_pre")]
    names = ["embedding"]
    for layer in layers:
        places.append((layer, "resid_mid"))
        names.append(f"after attention {layer}")
        if model.config.d_mlp[layer]:
            places.append((layer, "resid_post"))
            names.append(f"after MLP {layer}")
    parts = []
    for _, run in _runs(staged, batch):
        streams = [_at_reads(staged, place, run) for place in places]
        parts.append(torch.stack([model.unembed(model.read(stream)) for stream in streams]))
    return Terms(tuple(names), torch.cat(parts, 1))


@torch.no_grad()
def direct_logits(model: Transformer, batch: Batch, *, by: str = "component") -> Terms:
    """Return the logits as a sum over the parts of a model; by: one of `PARTS`.

    With `neuron` this holds neurons x batch x vocab numbers; `direct_attribution` needs far less.
    """
    staged = Staged(model, reads_of(batch))
    names: tuple[str, ...] = ()
    parts = []
    for rows, run in _runs(staged, batch):
        terms = list(_writes(staged, batch[rows], run, by))
        names = tuple(name for term in terms for name in term.names)
        parts.append(torch.cat([term.logits() for term in terms]))
    return Terms(names, torch.cat(parts, 1))


@torch.no_grad()
def direct_attribution(
    model: Transformer, batch: Batch, metric: str = "mean margin", *, by: str = "component"
) -> Attribution:
    """Return a linear metric of the right answer as a sum over the parts of a model.

    metric: one of `METRICS` (mean over an answer's tokens); by: one of `PARTS`.
    Raises `InputError` for another metric or way to part a model.
    """
    staged = Staged(model, reads_of(batch))
    names: tuple[str, ...] = ()
    parts = []
    answers = torch.from_numpy(batch.labels.reshape(len(batch), -1))
    for rows, run in _runs(staged, batch):
        terms = list(_writes(staged, batch[rows], run, by))
        names = tuple(name for term in terms for name in term.names)
        reading = _reading(metric, answers[rows], run.logits) / answers.shape[1]
        parts.append(torch.cat([term.along(reading) for term in terms]))
    values = torch.cat(parts, 1).double().numpy()
    return Attribution(metric, names, values, _clusters(batch))


def _reading(
    metric: str, answers: Int[Tensor, "batch read"], logits: Float[Tensor, "batch read vocab"]
) -> Float[Tensor, "batch read vocab"]:
    """Return the vector whose product with the logits is the metric."""
    if metric not in METRICS:
        raise InputError(
            f"attribution needs a linear metric, {' or '.join(METRICS)}; not {metric!r}"
        )
    units = torch.eye(logits.shape[-1], dtype=logits.dtype).expand(*answers.shape, -1, -1)
    function = metrics.mean_margin if metric == "mean margin" else metrics.answer_logit
    return function(units, answers[..., None].expand(units.shape[:-1]))


@dataclass(frozen=True)
class _Vectors:
    """Vectors written into the residual stream, one per term, times the final norm's factor."""

    names: tuple[str, ...]
    vectors: Float[Tensor, "term batch read d_model"]
    w_u: Float[Tensor, "d_model vocab"]

    def logits(self) -> Float[Tensor, "term batch read vocab"]:
        return self.vectors @ self.w_u

    def along(self, reading: Float[Tensor, "batch read vocab"]) -> Float[Tensor, "term batch"]:
        """Return each term's share of a linear metric, summed over the read positions."""
        return (self.vectors * (reading @ self.w_u.mT)).sum((-1, -2))


@dataclass(frozen=True)
class _Amounts:
    """An amount of a fixed row of logits, one per term."""

    names: tuple[str, ...]
    amounts: Float[Tensor, "batch read term"]
    rows: Float[Tensor, "term vocab"]

    def logits(self) -> Float[Tensor, "term batch read vocab"]:
        return self.amounts.movedim(-1, 0)[..., None] * self.rows[:, None, None]

    def along(self, reading: Float[Tensor, "batch read vocab"]) -> Float[Tensor, "term batch"]:
        return (self.amounts * (reading @ self.rows.mT)).sum(1).mT


def _writes(staged: Staged, batch: Batch, run: Record, by: str) -> Iterator[_Vectors | _Amounts]:
    """Yield what every part adds to the logits, bottom to top; the unembedding's bias comes last."""
    if by not in PARTS:
        raise InputError(f"a model is parted by {', '.join(PARTS)}, not by {by!r}")
    model, config, w_u = staged.model, staged.config, staged.model.unembed.W_U
    final = _at_reads(staged, (config.n_layers - 1, "resid_post"), run)
    factor = torch.ones_like(final[..., :1])
    if config.norm == "rms":
        factor = (final.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    def one(name: str, vector: Tensor) -> _Vectors:
        return _Vectors((name,), (vector * factor)[None], w_u)

    tokens, reads = torch.from_numpy(batch.tokens), list(staged.reads)
    yield one("token embedding", model.embed(tokens)[:, reads])
    if config.positions == "absolute":
        yield one("position embedding", model.pos_embed(tokens)[:, reads])
    for layer, block in enumerate(staged.blocks):
        attn, mlp = block.block.attn, block.block.mlp
        out = _at_reads(staged, (layer, "attn_out"), run)
        mlp_out = out * 0 if mlp is None else _at_reads(staged, (layer, "mlp_out"), run)
        if by == "layer":
            yield one(f"layer {layer}", out + mlp_out)
            continue
        if by == "component":
            yield one(f"attention {layer}", out)
        else:
            z = _at_reads(staged, (layer, "z"), run)
            heads = torch.einsum("brhk,hkd->hbrd", z, attn.W_O) * factor
            yield _Vectors(tuple(f"head {layer}.{h}" for h in range(len(heads))), heads, w_u)
            if config.attn_bias:
                yield one(f"attention bias {layer}", attn.b_O.expand_as(out))
        if mlp is None:
            continue
        if by != "neuron":
            yield one(f"MLP {layer}", mlp_out)
            continue
        post = _at_reads(staged, (layer, "post"), run) * factor
        names = tuple(f"neuron {layer}.{n}" for n in range(post.shape[-1]))
        yield _Amounts(names, post, mlp.W_out @ w_u)
        if mlp.bias:
            yield one(f"MLP bias {layer}", mlp.b_out.expand_as(mlp_out))
    if config.unembed_bias:
        bias = model.unembed.b_U[None]
        yield _Amounts(("unembedding bias",), torch.ones_like(final[..., :1]), bias)


def _runs(staged: Staged, batch: Batch) -> Iterator[tuple[slice, Record]]:
    for start in range(0, len(batch), EXAMPLES):
        rows = slice(start, start + EXAMPLES)
        yield rows, staged.record(torch.from_numpy(batch.tokens[rows]))


def _at_reads(staged: Staged, place: tuple[int, str], run: Record) -> Tensor:
    """Return a stage at the read positions, [batch read …]."""
    value = run.values[place]
    return value[:, list(staged.reads)] if staged.columns(place) is None else value


def _clusters(batch: Batch) -> np.ndarray:
    if "a" in batch.factors and "b" in batch.factors:
        return unordered_pairs(batch.factors["a"], batch.factors["b"])
    return np.arange(len(batch))
