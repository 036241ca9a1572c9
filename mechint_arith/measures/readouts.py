"""Measures of what can be read out: accuracies, the variable at its value, frequencies of the neurons.

Correlational; what the model does with it is asked in `paths`.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mechint_arith.circuits.weights import ov1_values
from mechint_arith.measures.subject import Subject, exact, mean_of, share_of
from mechint_arith.probes.classifiers import ridge
from mechint_arith.probes.frequencies import neuron_frequencies
from mechint_arith.probes.linear import probe
from mechint_arith.stats import Estimate
from mechint_arith.tasks import splits
from mechint_arith.tasks.assign_add import ROUTES, SIDES
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.pools import cell_name

PROBED = 250
"""Prompts per side of the split that the variable probe sees."""
PENALTIES = (1e-4, 1e-2, 1.0)
"""Ridge penalties the variable probe chooses from."""


def accuracy(subject: Subject) -> dict[str, Estimate]:
    """Accuracy on every pool of the task."""
    return {name: share_of(subject.hits(name)) for name in subject.prompts.pools}


def cells(subject: Subject) -> dict[str, Estimate]:
    """Accuracy of one-variable queries per variable and side (seen pairs): `cell a left`, …"""
    right, cell = subject.hits("cells"), subject.prompts.cells.factors["cell"]
    return {
        f"cell {cell_name(subject.task, c)}": share_of(right[cell == c])
        for c in range(2 * subject.task.n_vars)
    }


def sides(subject: Subject) -> dict[str, Estimate]:
    """Accuracy of one-variable queries on held pairs, by the variable's side: `1var_held_left`, …"""
    form, right = subject.prompts.pools["1var_held"].factors["form"], subject.hits("1var_held")
    return {
        f"1var_held_{side}": share_of(right[form == ROUTES.index(side)])
        for side in SIDES
        if (form == ROUTES.index(side)).any()
    }


def strata(subject: Subject) -> dict[str, Estimate]:
    """Accuracy on held pairs by stratum: `0var_held mirror seen`, … All held pairs as bare direct queries;
    of the indirect forms the pools' sequences."""
    task, held = subject.task, subject.task.pairs(held=True)
    rows = {
        "0var_held": (held, subject.hits("bare")[held]),
        "1var_held": (subject.batch("1var_held").factors["pair"], subject.hits("1var_held")),
        "2var_held": (subject.batch("2var_held").factors["pair"], subject.hits("2var_held")),
    }
    found = {}
    for pool, (pair, right) in rows.items():
        stratum = splits.strata(pair, task.seen, task.p)
        for k, name in enumerate(splits.STRATA):
            if (stratum == k).any():
                found[f"{pool} {name}"] = share_of(right[stratum == k])
    return found


def _values(
    subject: Subject, batch: Batch, first: Float[Tensor, "batch head pos pos"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each value token of the prefix, layer 0's resid_mid [row d_model], its variable and its prompt."""
    task, model = subject.task, subject.model
    prefix = batch.tokens[:, : task.places["plus"]]
    rows, at = np.nonzero(prefix < task.p)
    n, n_pos = model.config.d_vocab, first.shape[-1]
    tokens = torch.from_numpy(batch.tokens[:, :n_pos])
    moved = model.rows[1:, :n][:, tokens] + model.rows[1:, n : n + n_pos][:, None]
    resid = model.rows[0, tokens[rows, at]] + model.rows[0, n + at]
    for head in range(len(moved)):
        resid = resid + (first[:, head] @ moved[head])[rows, at]
    variable = prefix[rows, at - 1] - task.variable_ids[0]
    return resid.numpy(), variable, rows


def probe_variable(subject: Subject) -> dict[str, Estimate]:
    """Linear probe (closed-form ridge) of layer 0's resid_mid at value tokens for the variable.

    Fitted on prompts with seen pairs, tested on prompts with held ones; control: shuffled labels.
    `probe_variable_published`: rows split at random, so that tokens of one prompt are on both sides.
    """
    resid, variable, held, pair = [], [], [], []
    for name in ("1var_seen", "1var_held"):
        batch = subject.prompts.pools[name][:PROBED]
        x, labels, row = _values(subject, batch, subject.run(name).patterns[0][:PROBED])
        resid.append(x)
        variable.append(labels)
        held.append(np.full(len(row), name == "1var_held"))
        pair.append(batch.factors["pair"][row])
    x, labels = np.concatenate(resid), np.concatenate(variable)
    rows = np.arange(len(labels))
    found = probe(
        x,
        labels,
        np.concatenate(pair),
        types=rows,
        test=np.concatenate(held),
        n_controls=1,
        penalties=PENALTIES,
    )
    drawn = np.random.default_rng(subject.prompts.seed).random(len(rows)) < 0.7
    loose = ridge(x[drawn].astype(float), subject.task.n_vars)(labels[drawn], PENALTIES[1])
    return {
        "probe_variable": found.accuracy,
        "probe_variable_control": found.control,
        "probe_variable_selectivity": found.selectivity,
        "probe_variable_published": share_of(loose.predict(x[~drawn]) == labels[~drawn]),
    }


def mlp_input(subject: Subject) -> dict[str, Estimate]:
    """Compare MLP inputs of direct and indirect prompts (one template, all pairs), and with OV(a) + OV(b).

    Cosines: matched pairs, mismatched pairs, and both with the mean over pairs removed, as a shared mean
    inflates them. `ov_sum_r2`, `ov_sum_scale`: attention output of the direct prompts, mean removed, as
    k (u_a + u_b): share of variance and k, which falls short of 1/2 where attention leaks elsewhere.
    """
    p = subject.task.p
    direct, indirect = (subject.run(f"template_{name}") for name in ("direct", "indirect"))
    x, y = direct.resid_mid, indirect.resid_mid
    other = torch.from_numpy(np.random.default_rng(subject.prompts.seed).permutation(p * p))
    cosine = torch.nn.functional.cosine_similarity
    centred_x, centred_y = x - x.mean(0), y - y.mean(0)
    u = ov1_values(subject.model, subject.task)
    both = (u[:, None] + u).reshape(p * p, -1)
    both, wrote = both - both.mean(0), direct.resid_mid - direct.resid_pre
    wrote = wrote - wrote.mean(0)
    scale = (both * wrote).sum() / (both * both).sum().clamp(min=1e-30)
    left = (wrote - scale * both).square().sum() / wrote.square().sum().clamp(min=1e-30)
    return {
        "mlp_input_cosine": mean_of(cosine(x, y)),
        "mlp_input_cosine_mismatched": mean_of(cosine(x, y[other])),
        "mlp_input_cosine_centred": mean_of(cosine(centred_x, centred_y)),
        "mlp_input_cosine_centred_mismatched": mean_of(cosine(centred_x, centred_y[other])),
        "ov_sum_r2": exact(1 - float(left), p * p),
        "ov_sum_scale": exact(float(scale), p * p),
    }


def frequencies(subject: Subject) -> dict[str, Estimate]:
    """Share of the neurons' energy over pairs in each frequency's 3x3 block, on `PAD … + a b =`.

    Also the median over active neurons of the energy in their dominant frequency, and how many exceed .85.
    """
    p = subject.task.p
    post = subject.run("bare").post.numpy().reshape(p, p, -1)
    found = neuron_frequencies(post)
    active = found.energy > 0
    total = max(float(found.energy.sum()), 1e-30)
    shares = found.by_frequency.sum(1) / total
    n = int(active.sum())
    values = {f"frequency_{k}": exact(shares[k], p * p) for k in range(1, len(shares))}
    median = float(np.median(found.fraction[active])) if n else 0.0
    values["frequency_median_fraction"] = exact(median, n)
    values["frequency_pure_neurons"] = exact(
        float((found.fraction[active] > 0.85).mean()) if n else 0.0, n
    )
    values["active_neurons"] = exact(n, len(active))
    return values
