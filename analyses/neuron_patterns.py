"""Neurons over all pairs beside the wave that fits each best, and how pure neurons are."""

from pathlib import Path

import numpy as np
from common import Story, begin, finish, subject

from mechint_arith.figures.histogram import histogram
from mechint_arith.figures.neurons import neuron_maps
from mechint_arith.probes.frequencies import neuron_frequencies

SHOWN = 6


def main(out: Path, smoke: bool) -> Story:
    """Draw the purest neurons and the fitted cos w_k(a + b) pattern; count pure ones."""
    found = subject()
    p = found.task.p
    post = found.run("bare").post.numpy().reshape(p, p, -1).astype(float)
    waves = neuron_frequencies(post)
    active = waves.energy > 0
    best = np.argsort(-waves.fraction)[: 2 if smoke else SHOWN]
    a, b = np.ogrid[:p, :p]
    maps, names = [], []
    for i in best:
        w = 2 * np.pi * waves.frequency[i] / p
        fit = post[..., i].mean() + sum(
            waves.amplitude[k][i] * np.cos(w * x - waves.phase[k][i])
            for k, x in (("lhs", a + 0 * b), ("rhs", b + 0 * a), ("sum", a + b))
        )
        maps += [post[..., i], fit]
        names += [f"neuron {i}, frequency {waves.frequency[i]}", f"fit, {waves.fraction[i]:.2f}"]
    shuffled = np.random.default_rng(0).permuted(post.reshape(p * p, -1), axis=0)
    null = neuron_frequencies(shuffled.reshape(post.shape))
    figures = {
        "maps": neuron_maps(np.array(maps), names=names, signed=True, title="Neurons and fits"),
        "fractions": histogram(
            waves.fraction[active], null.fraction[active], unit="share of energy in one frequency"
        ),
    }
    values = {
        "active neurons": int(active.sum()),
        "neurons": len(active),
        "with more than .85 in one frequency": int((waves.fraction[active] > 0.85).sum()),
        "median fraction": float(np.median(waves.fraction[active])) if active.any() else None,
        "median fraction, pairs shuffled": float(np.median(null.fraction[active]))
        if active.any()
        else None,
    }
    return finish(out, "neuron_patterns", values, figures)


if __name__ == "__main__":
    begin(main)
