"""Accuracy of the nine pools over training, with the change points of the run as phases."""

from pathlib import Path

import numpy as np
from common import Story, begin, finish, series

from mechint_arith.figures.series import phases_between, series_curves
from mechint_arith.phases import PHASES, change_points
from mechint_arith.tasks.pools import PAPER_POOLS

PHASE_CURVES = ("0var_held", "1var_held", "2var_held", "1var_restricted", "2var_restricted_2")


def main(out: Path, smoke: bool) -> Story:
    """Draw the curves; change points need at least eight checkpoints."""
    found = series(out, smoke, ["accuracy"])
    points = []
    if len(found.steps) >= 2 * (len(PHASES) + 1):
        curves = np.stack([found.curve(name) for name in PHASE_CURVES], 1)
        points = change_points(found.steps, curves)
    shaded = phases_between(points, PHASES, found.steps[-1])
    figure = series_curves(found, PAPER_POOLS, phases=shaded, title="Accuracy by pool")
    values = {
        "steps": list(found.steps),
        "accuracy": {name: [e.value for e in found[name]] for name in PAPER_POOLS},
        "n": found["0var_seen"][0].n,
        "change_points": [[p.low, p.step, p.high] for p in points],
    }
    return finish(out, "accuracy_curves", values, {"pools": figure})


if __name__ == "__main__":
    begin(main)
