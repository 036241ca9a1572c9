"""The window in which assignment jumps: every measure at the two checkpoints around the steepest rise."""

from pathlib import Path

import numpy as np
from common import Story, begin, finish, folder, series

from mechint_arith.dynamics import measure_series
from mechint_arith.figures.intervals import intervals

SHOWN = ("0var_held", "1var_held_left", "1var_held_right", "2var_held", "qk1_identity")
SHOWN += ("identity_swap", "attn0_operands_both", "attn1_values_both", "attn1_values_left")
SHOWN += ("attn1_values_right", "bare_accuracy_deleted", "attn1_direct_lhs", "attn1_direct_rhs")


def main(out: Path, smoke: bool) -> Story:
    """Find the window by the accuracy of held one-variable queries and compare its two ends."""
    curve = series(out, smoke, ["accuracy"])
    rise = np.diff(curve.curve("1var_held"))
    at = int(rise.argmax())
    window = curve.steps[at : at + 2]
    measures = ["accuracy", "sides", "qk1_identity", "attn0_operands", "attn1_values"]
    measures += ["attn1_direct", "edge_deletion", "identity_swap"]
    found = measure_series(
        folder(), measures, cache=out / "cache", steps=window, n=100 if smoke else 2000
    )
    groups = {
        f"step {step}": {name: found[name][i] for name in SHOWN} for i, step in enumerate(window)
    }
    figure = intervals(groups, unit="share", span=(0.0, 1.0), title="Before and after the jump")
    values = {
        "window": list(window),
        **{name: [e.as_dict() for e in found[name]] for name in (*SHOWN, "qk1_margin")},
    }
    return finish(out, "early_window", values, {"measures": figure})


if __name__ == "__main__":
    begin(main)
