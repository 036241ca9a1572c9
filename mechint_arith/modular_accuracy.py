"""Accuracy and loss of a modular checkpoint over its whole table, and by split where the split is known."""

from __future__ import annotations

import numpy as np
import torch

from mechint_arith.metrics import finite, loss
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.reader import reader
from mechint_arith.stats import Estimate, share
from mechint_arith.tasks import splits
from mechint_arith.tasks.modular import ModularTask


def split_known(checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint's pairs are known to be seen or held out: ours are, an outside file's are not."""
    source = checkpoint.meta.get("source")
    return source is None or bool(source.get("split_known"))


def scores(checkpoint: Checkpoint, *, known: bool) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Return accuracy and mean loss over all pairs that have an answer, and by split where it is known.

    Accuracy also on held-out pairs by stratum: mirror seen, mirror held, and the diagonal.
    """
    task = checkpoint.task
    assert isinstance(task, ModularTask)
    model = reader(checkpoint.config, checkpoint.weights, read=task.length - 1)
    batch = task.batch()
    with torch.no_grad():
        tokens = torch.from_numpy(batch.tokens)
        logits = finite(torch.cat([model(rows).logits for rows in tokens.split(4096)]))
    right = (logits.argmax(-1) == torch.from_numpy(batch.labels)).numpy()
    losses = loss(logits, torch.from_numpy(batch.labels)).numpy()
    rows = {"all": np.ones(len(batch), bool)}
    if known:
        held = np.asarray(batch.factors["held"])
        rows |= {"seen": ~held, "held": held}
    found = {name: float(losses[mask].mean()) for name, mask in rows.items() if mask.any()}
    if known and task.op in ("add", "mul"):
        stratum = splits.strata(batch.factors["pair"], task.seen, task.p)
        rows |= {
            f"held, {name}": rows["held"] & (stratum == k) for k, name in enumerate(splits.STRATA)
        }
    accuracy = {
        name: share(int(right[mask].sum()), int(mask.sum()))
        for name, mask in rows.items()
        if mask.any()
    }
    return accuracy, found
