"""The late window: how strongly `=` asks for each variable's value, left and right, while the last cells are solved."""

from pathlib import Path

import numpy as np
import torch
from common import Story, begin, finish, folder

from mechint_arith.circuits.weights import score_terms
from mechint_arith.dynamics import checkpoints
from mechint_arith.figures.curves import curves
from mechint_arith.measures.subject import Prompts, Subject
from mechint_arith.models.load import load_checkpoint
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.prompts import from_text

VARIABLES = "abcjkl"
WINDOW = (14_001, 16_101)
FALLBACK = 6
"""Checkpoints from the end to use where a run has none in the window."""


def prompts(task: AssignAdd, side: str) -> Batch:
    """One prompt per variable: it stands on a side, assigned 7, with 9 on the other side and one distractor."""
    query = "{v} 9" if side == "left" else "9 {v}"
    forms = [f"PAD*3 {{v}} 7 PAD*2 e 30 PAD*3 + {query} =".format(v=v) for v in VARIABLES]
    return from_text(task, forms)


def main(out: Path, smoke: bool) -> Story:
    """Measure score advantage of the queried value over the distractor's, and attention on it."""
    files = checkpoints(folder())
    steps = [s for s in files if WINDOW[0] <= s <= WINDOW[1]]
    steps = steps if len(steps) > 1 else list(files)[-FALLBACK:]
    steps = steps[-2:] if smoke else steps
    gaps: dict[str, list[float]] = {}
    weights: dict[str, list[float]] = {}
    for step in steps:
        checkpoint = load_checkpoint(files[step])
        found = Subject.of(checkpoint, Prompts(checkpoint.task))  # type: ignore[arg-type]
        for side, operand in (("left", "lhs"), ("right", "rhs")):
            batch = prompts(found.task, side)
            tokens = torch.from_numpy(batch.tokens)
            scores = score_terms(found.model, tokens).sum((1, 2, 3)).numpy()
            pattern = found.model(tokens).patterns[1].mean(1).numpy()
            rows, value = np.arange(len(batch)), batch.positions[f"value of {operand}"]
            other = (batch.tokens == found.task.vocab.ids["e"]).argmax(1) + 1
            for v, gap, weight in zip(
                VARIABLES,
                scores[rows, value] - scores[rows, other],
                pattern[rows, value],
                strict=True,
            ):
                gaps.setdefault(f"{v} {side}", []).append(float(gap))
                weights.setdefault(f"{v} {side}", []).append(float(weight))
    figure = curves(steps, gaps, unit="score", title="Queried value over the distractor's")
    values = {"steps": steps, "score advantage": gaps, "attention on the value": weights}
    return finish(out, "late_window", values, {"scores": figure})


if __name__ == "__main__":
    begin(main)
