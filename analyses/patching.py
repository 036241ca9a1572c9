"""Residual patching grid and direct logit attribution on clean and corrupted prompts that differ in one value.

Clean and corrupted rows are attributed apart: their signs cancel when averaged together.
"""

from pathlib import Path

import numpy as np
from common import Story, begin, finish, subject

from mechint_arith.circuits.attribution import direct_attribution
from mechint_arith.figures.heatmap import patching_grid
from mechint_arith.figures.intervals import intervals
from mechint_arith.interventions.patching import sweep
from mechint_arith.models.transformer import Transformer
from mechint_arith.stats import Estimate, clustered_mean, unordered_pairs
from mechint_arith.tasks.prompts import from_text

from common import folder  # isort: skip
from mechint_arith.dynamics import checkpoints  # isort: skip
from mechint_arith.models.load import load_checkpoint  # isort: skip

N = 300
FORM = "c {a} PAD*2 e {b} PAD*2 f 3 PAD*2 + c e ="


def main(out: Path, smoke: bool) -> Story:
    """Patch resid_pre at every layer and position both ways; attribute the mean margin to components."""
    found, rng = subject(), np.random.default_rng(0)
    p = found.task.p
    a, b, other = rng.integers(0, p, (3, 20 if smoke else N))
    clean = from_text(found.task, [FORM.format(a=x, b=y) for x, y in zip(a, b, strict=True)])
    dirty = from_text(found.task, [FORM.format(a=x, b=y) for x, y in zip(other, b, strict=True)])
    checkpoint = load_checkpoint(checkpoints(folder())[max(checkpoints(folder()))])
    model = Transformer(checkpoint.config, checkpoint.weights).eval().requires_grad_(False)
    effects = sweep(model, clean, dirty, "resid_pre", positions="absolute")
    normalised = effects.patched.mean(-1), effects.base.mean(-1), effects.donor.mean(-1)  # type: ignore[union-attr]
    share = (normalised[0] - normalised[1]) / (normalised[2] - normalised[1])
    labels = [f"{i} {t}" for i, t in enumerate(found.task.vocab.decode(clean.tokens[0]))]
    grids = dict(zip(effects.axes[0].labels, share, strict=True))
    clusters = unordered_pairs(a, b)
    terms: dict[str, dict[str, Estimate | None]] = {}
    for name, batch in (("clean", clean), ("corrupted", dirty)):
        parts = direct_attribution(model, batch, "mean margin")
        terms[name] = {
            term: clustered_mean(row, clusters, n_resamples=500, rng=rng)
            for term, row in zip(parts.names, parts.values, strict=True)
        }
    figures = {
        "grid": patching_grid(
            {str(k): v for k, v in grids.items()}, layers=effects.axes[1].labels, positions=labels,
            unit="ratio of mean logit differences", title="Patching resid_pre",
        ),
        "attribution": intervals(terms, unit="mean margin, logits", title="Direct logit attribution"),
    }  # fmt: skip
    values = {
        "pairs": len(effects.rows),
        "excluded": dict(effects.excluded),
        "normalised effect": {str(k): v.round(3).tolist() for k, v in grids.items()},
        "attribution": {
            n: {t: e.as_dict() for t, e in row.items() if e} for n, row in terms.items()
        },
    }
    return finish(out, "patching", values, figures)


if __name__ == "__main__":
    begin(main)
