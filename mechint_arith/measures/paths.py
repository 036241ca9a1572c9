"""Causal measures of which path a sum takes, and of whether both routes use the same neurons.

Source: this project's own measures; the released code has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mechint_arith.measures.subject import CHUNK, Subject, exact, share_of
from mechint_arith.sharing import JUDGED, evidence
from mechint_arith.stats import Estimate
from mechint_arith.tasks.assign_add import LEFT, ROUTES
from mechint_arith.verdict import Thresholds, judge

NOT_COMPETENT = "not competent"
RESAMPLES = 100
"""Bootstrap resamples behind each interval of the sharing measures."""


def edge_deletion(subject: Subject) -> dict[str, Estimate]:
    """Accuracy on `PAD … + a b =`, all pairs: intact, and without layer 0's edges from `=` to its operands.

    Deleted: those entries of layer 0's pattern are set to 0. Renormalised: the rest of the row is then scaled
    to sum to 1 again, which moves attention elsewhere and is another intervention.
    """
    batch = subject.prompts.bare
    cut = [(batch.read, int(batch.positions[name][0])) for name in ("lhs", "rhs")]

    def renormalised(pattern: Tensor) -> Tensor:
        changed = _without(cut)(pattern)
        changed[:, :, batch.read] /= changed[:, :, batch.read].sum(-1, keepdim=True)
        return changed

    return {
        "bare_accuracy": share_of(subject.hits("bare")),
        "bare_accuracy_deleted": _bare_accuracy(subject, _without(cut)),
        "bare_accuracy_renormalised": _bare_accuracy(subject, renormalised),
    }


def relay_deletion(subject: Subject) -> dict[str, Estimate]:
    """Accuracy on `PAD … + a b =`, all pairs, without layer 0's edge from rhs to lhs, and without that or the others.

    The other way for one operand to reach the sum: rhs takes lhs in, and layer 1 reads rhs alone. Entries are
    set to 0, not renormalised.
    """
    batch = subject.prompts.bare
    lhs, rhs = (int(batch.positions[name][0]) for name in ("lhs", "rhs"))
    relay, direct = (rhs, lhs), [(batch.read, lhs), (batch.read, rhs)]
    return {
        "bare_accuracy_without_relay": _bare_accuracy(subject, _without([relay])),
        "bare_accuracy_without_both": _bare_accuracy(subject, _without([relay, *direct])),
    }


Edit = Callable[[Tensor], Tensor]


def _without(edges: Sequence[tuple[int, int]]) -> Edit:
    """Return the edit of a pattern that sets (query, key) entries to 0."""
    query, key = (list(places) for places in zip(*edges, strict=True))

    def edit(pattern: Tensor) -> Tensor:
        changed = pattern.clone()
        changed[:, :, query, key] = 0
        return changed

    return edit


def _bare_accuracy(subject: Subject, edit: Edit) -> Estimate:
    batch = subject.prompts.bare
    tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
    with torch.no_grad():
        runs = [subject.model(part, edit_first=edit) for part in tokens.split(CHUNK)]
    return share_of(torch.cat([run.logits.argmax(-1) for run in runs]) == labels)


def identity_swap(subject: Subject) -> dict[str, Estimate]:
    """Share of one-variable prompts that give the distractor's sum once variable identities are exchanged.

    In layer 0 the value tokens of the queried variable and of one distractor each look at the other's variable
    token (two columns of their pattern rows are exchanged). If layer 1 matches identities, the answer becomes
    the distractor's value plus the other operand. Prompts whose two values are equal are left out;
    `identity_swap_unchanged` is the share that still gives the original answer.
    """
    batch, task = subject.batch("1var_seen"), subject.task
    left = batch.factors["form"] == LEFT
    variable = np.where(
        left, batch.positions["variable of lhs"], batch.positions["variable of rhs"]
    )
    prefix = batch.tokens[:, : task.places["plus"]]
    others = np.isin(prefix, task.variable_ids)
    others[np.arange(len(batch)), variable] = False
    other = others.argmax(1)
    operand = np.where(left, batch.factors["a"], batch.factors["b"])
    shown = batch.tokens[np.arange(len(batch)), other + 1]
    rows = np.flatnonzero(others.any(1) & (shown != operand))
    if not len(rows):
        return {}
    v, w = (torch.from_numpy(at[rows]) for at in (variable, other))
    row = torch.arange(len(rows))

    def exchanged(pattern: Tensor) -> Tensor:
        changed = pattern.clone()
        for value in (v + 1, w + 1):
            changed[row, :, value, v] = pattern[row, :, value, w]
            changed[row, :, value, w] = pattern[row, :, value, v]
        return changed

    tokens = torch.from_numpy(batch.tokens[rows])
    with torch.no_grad():
        answers = subject.model(tokens, edit_first=exchanged).logits.argmax(-1).numpy()
    expected = (batch.labels + shown - operand)[rows] % task.p
    return {
        "identity_swap": share_of(answers == expected),
        "identity_swap_unchanged": share_of(answers == batch.labels[rows]),
    }


def sharing(subject: Subject) -> dict[str, Estimate]:
    """Indices of neuron sharing and interchange accuracy at the MLP's output, per judged pair of routes.

    `sharing_index` is the smallest SIGMA. On matched prompts of at most 1,000 pairs. A model whose routes are
    not competent has indices too, which `not_competent` tells apart; `shared_…` is 1 only where the whole rule of
    `verdict` says `shared`.
    """
    found = evidence(
        subject.model, subject.task, quick=True, seed=subject.prompts.seed, n_resamples=RESAMPLES
    )
    verdict = judge(found)
    pairs = {name.replace("-", "_"): found.pairs[name] for name in JUDGED}
    values = {f"route_accuracy_{route}": r.accuracy for route, r in found.routes.items()}
    for name, pair in pairs.items():
        values[f"sigma_{name}"] = pair.sigma
        values[f"overlap_{name}"] = pair.overlap
        values[f"act_{name}"] = pair.act
        values[f"interchange_{name}"] = pair.interchange["mlp_out"]
        values[f"shared_{name}"] = exact(verdict.pairs[name.replace("_", "-")].name == "shared", 1)
    values["sharing_index"] = min((pair.sigma for pair in pairs.values()), key=lambda s: s.value)
    return values


INDICES = ("sigma", "overlap", "act")


def not_competent(values: Mapping[str, Estimate]) -> dict[str, str]:
    """Return the sharing indices that mean nothing, with the reason: a route of theirs is not competent.

    values: of one checkpoint. Competence is `verdict`'s: the lower limit of a route's accuracy.
    """
    accuracies = {route: values.get(f"route_accuracy_{route}") for route in ROUTES}
    level = Thresholds().competent
    lacking = {route for route, e in accuracies.items() if e is not None and e.low < level}
    pairs = [name for name in JUDGED if lacking & set(name.split("-"))]
    found = [f"{index}_{name.replace('-', '_')}" for name in pairs for index in INDICES]
    return dict.fromkeys([*found, *(["sharing_index"] if pairs else [])], NOT_COMPETENT)
