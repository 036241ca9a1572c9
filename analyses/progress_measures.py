"""Progress measures over training: the published variants by name beside the corrected ones, and events."""

from pathlib import Path

from common import Story, begin, finish, series

from mechint_arith.figures.series import event_times, series_curves
from mechint_arith.phases import events

WEIGHTS = ["ov1_mlp1", "qk0_previous", "qk1_identity"]
PROMPTS = ["attn0_operands", "attn0_previous", "attn1_values", "probe_variable", "identity_swap"]
PUBLISHED = ("ov1_mlp1", "qk0_previous_published", "qk1_identity", "attn0_operands_published")
PUBLISHED += ("attn0_previous_published", "attn1_values_published", "probe_variable_published")
CORRECTED = ("qk0_previous_strict", "qk0_previous_with_self", "attn0_operands_mass_both")
CORRECTED += ("attn0_previous_mass_both", "attn1_values_mass_both", "probe_variable_selectivity")
CORRECTED += ("identity_swap",)


def main(out: Path, smoke: bool) -> Story:
    """Measure and draw."""
    names = ["accuracy", "sides", "cells", "edge_deletion", "attn1_direct", *WEIGHTS, *PROMPTS]
    found = series(out, smoke, names)
    happened = events(found)
    figures = {
        "published": series_curves(found, PUBLISHED, unit="share", title="Published measures"),
        "corrected": series_curves(found, CORRECTED, unit="share", title="Corrected measures"),
        "events": event_times({found.source: happened}, title="When what happened"),
    }
    shown = (*PUBLISHED, *CORRECTED, "qk1_margin", "bare_accuracy_deleted")
    shown += ("attn1_direct_lhs", "attn1_direct_rhs")
    values = {
        "steps": list(found.steps),
        "measures": {name: [e.value for e in found[name]] for name in shown},
        "events": {name: event.as_dict() for name, event in happened.items()},
    }
    return finish(out, "progress_measures", values, figures)


if __name__ == "__main__":
    begin(main)
