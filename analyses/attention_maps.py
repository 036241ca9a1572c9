"""Attention of both layers on one prompt of every route, at the last checkpoint."""

from pathlib import Path

import torch
from common import Story, begin, finish, subject

from mechint_arith.figures.heatmap import heat_map
from mechint_arith.tasks.prompts import from_text

PREFIX = "c 7 PAD e 12 PAD*2 f 3 PAD*2"
QUERIES = {"direct": "7 12", "left": "c 12", "right": "7 e", "both": "c e"}


def main(out: Path, smoke: bool) -> Story:
    """Draw layer 0's whole pattern and layer 1's row of `=`."""
    found = subject()
    figures, values = {}, {}
    for route, query in QUERIES.items():
        batch = from_text(found.task, [f"{PREFIX} + {query} ="])
        tokens = found.task.vocab.decode(batch.tokens[0])
        run = found.model(torch.from_numpy(batch.tokens))
        first, last = (p[0].mean(0).numpy() for p in run.patterns)
        figures[f"{route}_layer0"] = heat_map(
            first, rows=tokens, columns=tokens, unit="attention", title=f"Layer 0, {route}"
        )
        figures[f"{route}_layer1"] = heat_map(
            last[None], rows=["="], columns=tokens, unit="attention", title=f"Layer 1, {route}"
        )
        places = [int(batch.positions[f"value of {o}"][0]) for o in ("lhs", "rhs")]
        values[route] = {
            "right": bool(run.logits[0].argmax() == batch.labels[0]),
            "A1 on the values": [float(last[place]) for place in places],
            "A0 of = on the operands": [
                float(first[-1, found.task.places[o]]) for o in ("lhs", "rhs")
            ],
        }
        if smoke:
            break
    return finish(out, "attention_maps", values, figures)


if __name__ == "__main__":
    begin(main)
