"""QK maps of the weights: positions in layer 0 with the row's maximum, variables through OV0 in layer 1."""

from pathlib import Path

import numpy as np
from common import Story, begin, finish, subject

from mechint_arith.circuits.weights import qk0_positions, qk1_variables
from mechint_arith.figures.heatmap import heat_map
from mechint_arith.measures.structure import qk0_previous, qk1_identity


def main(out: Path, smoke: bool) -> Story:
    """Draw both maps of the last checkpoint; above the diagonal layer 0 cannot look."""
    found = subject()
    n = found.task.places["plus"]
    scores = qk0_positions(found.model).at(head=0).values[:n, :n]
    seen = np.where(np.tri(n, dtype=bool), scores, np.nan)
    best = [int(np.nanargmax(row)) for row in seen]
    places = [f"{q}{' ← ' + str(k) if k == q - 1 else ''}" for q, k in enumerate(best)]
    table = qk1_variables(found.model, found.task).at(moved_by=0, head=0)
    variables = table.labels["query variable"]
    figures = {
        "positions": heat_map(
            seen, rows=places, columns=range(n), unit="score", signed=True, title="QK0 of positions"
        ),
        "variables": heat_map(
            table.values, rows=variables, columns=variables, unit="score", signed=True,
            title="QK1 of variables as layer 0 moves them",
        ),
    }  # fmt: skip
    measures = {**qk0_previous(found), **qk1_identity(found)}
    values = {name: estimate.as_dict() for name, estimate in measures.items()}
    return finish(out, "qk_maps", {**values, "largest key per position": best}, figures)


if __name__ == "__main__":
    begin(main)
