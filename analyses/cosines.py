"""Cosines with shuffled controls: MLP inputs of direct and indirect prompts; attention output and OV(a) + OV(b)."""

from pathlib import Path

import numpy as np
import torch
from common import Story, begin, finish, subject

from mechint_arith.circuits.weights import ov1_values
from mechint_arith.figures.histogram import histogram
from mechint_arith.measures.readouts import mlp_input


def main(out: Path, smoke: bool) -> Story:
    """Draw both histograms with the mean over pairs removed, as a shared mean inflates cosines."""
    found = subject()
    p = found.task.p
    direct, indirect = found.run("template_direct"), found.run("template_indirect")
    u = ov1_values(found.model, found.task)
    sums = (u[:, None] + u).reshape(p * p, -1)
    wrote = direct.resid_mid - direct.resid_pre
    other = torch.from_numpy(np.random.default_rng(0).permutation(p * p))
    figures = {}
    for name, x, y in (
        ("mlp_input", direct.resid_mid, indirect.resid_mid),
        ("ov_sum", wrote, sums),
    ):
        x, y = x - x.mean(0), y - y.mean(0)
        matched, shuffled = (torch.cosine_similarity(x, z).numpy() for z in (y, y[other]))
        figures[name] = histogram(
            matched,
            shuffled,
            unit="cosine",
            null_name="shuffled pairs",
            title=name.replace("_", " "),
        )
    values = {name: estimate.as_dict() for name, estimate in mlp_input(found).items()}
    return finish(out, "cosines", values, figures)


if __name__ == "__main__":
    begin(main)
