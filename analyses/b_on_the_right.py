"""Why `b` on the right is late: layer 1's scores of `=` for b's value, split by source of query and key."""

from pathlib import Path

import torch
from common import Story, begin, finish, subject

from mechint_arith.circuits.weights import SOURCES, score_terms
from mechint_arith.figures.heatmap import heat_map
from mechint_arith.tasks.prompts import from_text

PROMPTS = {"right": "PAD*3 b 7 PAD*7 + 9 b =", "left": "PAD*3 b 7 PAD*7 + b 9 ="}
STEPS = (14_001, 16_001)


def main(out: Path, smoke: bool) -> Story:
    """Write attention on b's value, the answer's probability and the 3 x 3 of score terms against a PAD."""
    figures, values = {}, {}
    for step in STEPS[:1] if smoke else STEPS:
        found = subject(step)
        batch = from_text(found.task, list(PROMPTS.values()))
        tokens = torch.from_numpy(batch.tokens)
        run, terms = found.model(tokens), score_terms(found.model, tokens).sum(1)
        for row, side in enumerate(PROMPTS):
            operand = "rhs" if side == "right" else "lhs"
            value = int(batch.positions[f"value of {operand}"][row])
            over_pad = (terms[row, :, :, value] - terms[row, :, :, 0]).numpy()
            name = f"{step}_{side}"
            figures[name] = heat_map(
                over_pad, rows=SOURCES, columns=SOURCES, signed=True, unit="score",
                title=f"Score of b's value over a PAD's, b on the {side}, near step {step}",
            )  # fmt: skip
            values[name] = {
                "attention on b's value": float(run.patterns[1][row].mean(0)[value]),
                "probability of the answer": float(run.logits[row].softmax(-1)[batch.labels[row]]),
                "score terms (query source x key source)": over_pad.round(3).tolist(),
            }
    return finish(out, "b_on_the_right", values, figures)


if __name__ == "__main__":
    begin(main)
