"""Interchange interventions: put a site of a source run into a base run, and ask a causal model what comes out.

Between routes or between number pairs; whole sites, neurons, or linear subspaces (given, or learned: `alignment`).
Interchange accuracy alone proves little, so it comes with its controls: a random basis, a placebo that moves as
far in a random direction, an untrained model, and arbitrary labels.
Sources: Geiger et al., arXiv 2106.02997 and 2303.02536; controls as in TransformerLens' `interchange`
(Arora et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.ablation import Group
from mechint_arith.interventions.counterfactual import Rule, addition, predicted
from mechint_arith.interventions.located import Located, find, locate
from mechint_arith.interventions.patching import taking
from mechint_arith.interventions.placebo import other_site, placebo
from mechint_arith.interventions.recording import BUDGET
from mechint_arith.interventions.running import Cell, run_patched
from mechint_arith.interventions.site import Site
from mechint_arith.models.init import initial_weights
from mechint_arith.models.staged import Record, Staged, reads_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks.batch import Batch

if TYPE_CHECKING:
    import pandas as pd

CONTROLS = ("random basis", "placebo", "untrained model", "arbitrary labels")


@dataclass(frozen=True, eq=False, repr=False)
class Interchange:
    """How often the output is what the causal model predicts."""

    site: str
    """What was swapped."""
    variable: str
    """Which variable of the causal model took the source's value."""
    accuracy: Estimate
    """Interchange accuracy: share of pairs with the predicted answer (Wilson interval, n = pairs)."""
    stays: Estimate
    """Share of pairs that keep the base's answer."""
    controls: Mapping[str, Estimate]
    """Control -> the same share under it."""
    without: Mapping[str, str]
    """Control that does not exist for this site -> why."""
    excluded: Mapping[str, int]
    """Reason -> pairs left out."""
    rows: np.ndarray
    """int64 [pair]: rows of the batches that were used."""
    hits: np.ndarray
    """bool [pair]: whether the output is the predicted answer."""

    def __repr__(self) -> str:
        """Return what was swapped, and the shares of predicted answers beside the controls'."""
        controls = ", ".join(f"{name} {e.value:.3f}" for name, e in self.controls.items())
        return (
            f"Interchange({self.variable} from {self.site}: predicted answer {self.accuracy},"
            f" keeps the base's {self.stays.value:.3f}; controls: {controls or 'none'})"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for the interchange and one per control: share, low, high, n, or why there is none."""
        import pandas as pd

        found = {"interchange": self.accuracy, **self.controls}
        rows = [
            {
                "what": name,
                "share": e.value,
                "low": e.low,
                "high": e.high,
                "n": e.n,
                "missing": None,
            }
            for name, e in found.items()
        ]
        rows += [{"what": name, "missing": reason} for name, reason in self.without.items()]
        table = pd.DataFrame(rows)
        table.insert(0, "variable", self.variable)
        table.insert(0, "site", self.site)
        return table

    def figure(self, **options: Any) -> Any:
        """Return the share of predicted answers beside its controls, with intervals.

        options go to `figures.intervals.intervals` (`title`, …).
        """
        from mechint_arith.figures.intervals import intervals

        options = {
            "title": f"{self.variable} from {self.site}",
            "unit": "share of predicted answers",
            "span": (-0.02, 1.02),
        } | options
        found = {"interchange": self.accuracy, "keeps the base's answer": self.stays}
        return intervals({"": {**found, **self.controls}}, **options)


def interchange(
    model: Transformer,
    base: Batch,
    source: Batch,
    sites: Site | Group,
    variable: str = "sum",
    *,
    rule: Rule | None = None,
    controls: Sequence[str] = CONTROLS,
    seed: int = 0,
    partly: bool = False,
    budget: int = BUDGET,
) -> Interchange:
    """Swap a site (or several together) from source runs into base runs; count the predicted answers.

    base, source: batches that match row by row, of any routes; a named position may be elsewhere in each.
    variable: `left`, `right` or `sum`, which takes the source's value in the causal model. rule: (a, b) -> answer,
    by default addition modulo the number of answers. seed: draws random bases, placebos, weights and labels.
    Pairs whose predicted answer is the base's own say nothing and are left out. partly: leave out rows that lack
    a position.
    Raises `InputError` where a site matches nothing or cannot change the answer, the rule does not fit the batches,
    or no pair is left.
    """
    if unknown := set(controls) - set(CONTROLS):
        raise InputError(f"no control {min(unknown)!r}: choose from {', '.join(CONTROLS)}")
    group = (sites,) if isinstance(sites, Site) else tuple(sites)
    n_answers = model.config.d_vocab_out
    answers = predicted(base, source, variable, rule or addition(n_answers))
    kept, excluded = _usable(model, base, source, group, answers, partly)
    base, source, answers = base[kept], source[kept], answers[kept]
    rng = np.random.default_rng(seed)
    swap = _Swap(model, base, source, group, int(rng.integers(2**31)), budget)
    outputs, without = swap.run(controls)
    want, stay = (_code(torch.from_numpy(x), n_answers).numpy() for x in (answers, base.labels))
    found = {name: _share(codes == want) for name, codes in outputs.items()}
    if "untrained model" in controls:
        fresh = initial_weights(
            model.config, int(rng.integers(2**31)), dtype=model.unembed.W_U.dtype
        )
        untrained = Transformer(model.config, fresh)
        codes = outputs_of(untrained, base, source, group, budget=budget)
        found["untrained model"] = _share(codes == want)
    if "arbitrary labels" in controls:
        arbitrary = _arbitrary(source, n_answers, rng)
        found["arbitrary labels"] = _share(outputs["interchange"] == arbitrary)
    return Interchange(
        " + ".join(map(str, group)),
        variable,
        found.pop("interchange"),
        _share(outputs["interchange"] == stay),
        {name: found[name] for name in CONTROLS if name in found},
        without,
        excluded,
        kept,
        outputs["interchange"] == want,
    )


def outputs_of(
    model: Transformer, base: Batch, source: Batch, group: Group, *, budget: int = BUDGET
) -> np.ndarray:
    """Return the answers after a swap, int64 [batch]; those of several tokens as one number."""
    return _Swap(model, base, source, group, 0, budget).run(())[0]["interchange"]


def _usable(
    model: Transformer,
    base: Batch,
    source: Batch,
    group: Group,
    answers: np.ndarray,
    partly: bool,
) -> tuple[np.ndarray, dict[str, int]]:
    """Return the rows that can tell something, and how many were left out why."""
    if reads_of(base) != reads_of(source):
        raise InputError(f"base is read at {base.read}, source at {source.read}; use one layout")
    present = torch.ones(len(base), dtype=torch.bool)
    for site in group:
        present &= locate(site, model.config, base, partly=partly).rows_with(len(base))
        present &= find(site, model.config, source, partly=partly).rows_with(len(base))
    telling = (answers != base.labels).reshape(len(base), -1).any(1)
    kept = np.flatnonzero(telling & present.numpy())
    if not len(kept):
        raise InputError(
            "every pair's predicted answer is the base's own, so the swap shows nothing"
        )
    return kept, {
        "predicted answer is the base's own": int((~telling).sum()),
        "place missing": int((~present).sum()),
    }


def _share(hits: np.ndarray) -> Estimate:
    return share(int(hits.sum()), len(hits))


def _code(answers: Tensor, n_answers: int) -> Tensor:
    """Number answers of one or several tokens, int64 [batch]."""
    if answers.ndim == 1:
        return answers
    return (answers * n_answers ** torch.arange(answers.shape[1])).sum(1)


def _arbitrary(source: Batch, n_answers: int, rng: np.random.Generator) -> np.ndarray:
    """Return one random answer per source pair: equal sources, equal answers."""
    pairs = np.stack([source.factors["a"], source.factors["b"]], 1)
    ids = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    n_tokens = source.labels.shape[1] if source.labels.ndim == 2 else 1
    drawn = rng.integers(0, n_answers**n_tokens, ids.max() + 1)
    return drawn[ids]


@dataclass(frozen=True)
class _Swap:
    """One interchange in one model."""

    model: Transformer
    base: Batch
    source: Batch
    group: Group
    seed: int
    budget: int

    def run(self, controls: Sequence[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """Return the answers' numbers by what was done, int64 [pair], and why controls are missing."""
        config = self.model.config
        staged = Staged(self.model, reads_of(self.base))
        ends = [self._ends(site) for site in self.group]
        rng = np.random.default_rng(self.seed)
        others: list[tuple[Located, Located]] = []
        without: dict[str, str] = {}
        if "random basis" in controls:
            drawn = [other_site(site, config, rng) for site in self.group]
            if None in drawn:
                without["random basis"] = "a whole site has no other basis"
            others = [self._ends(site) for site in drawn if site is not None]
        names = ["interchange"]
        if others and "random basis" not in without:
            names.append("random basis")
        if "placebo" in controls:
            names.append("placebo")
            moved = [self._ends(other_site(site, config, rng) or site) for site in self.group]
            directions = [int(rng.integers(2**31)) for _ in self.group]

        def make(rows: slice, run: Record, donors: Sequence[Record]) -> Sequence[Cell]:
            def swapped(pairs: Sequence[tuple[Located, Located]]) -> Cell:
                return tuple(
                    taking(staged, at.among(rows), source.among(rows), donors[0])
                    for at, source in pairs
                )

            cells = {"interchange": swapped(ends)}
            if "random basis" in names:
                cells["random basis"] = swapped(others)
            if "placebo" in names:
                cells["placebo"] = tuple(
                    placebo(staged, real, elsewhere, rows, run, donors[0], seed)
                    for real, elsewhere, seed in zip(ends, moved, directions, strict=True)
                )
            return [cells[name] for name in names]

        def answer(logits: Tensor, _: Tensor) -> Tensor:
            return _code(logits.argmax(-1), config.d_vocab_out)

        found = run_patched(self.model, self.base, [self.source], make, answer, budget=self.budget)
        codes = found.patched.numpy().astype(np.int64)
        return dict(zip(names, codes, strict=True)), without

    def _ends(self, site: Site) -> tuple[Located, Located]:
        config = self.model.config
        return locate(site, config, self.base), find(site, config, self.source)
