"""All progress measures by name, with the version that goes into a cache key.

A new measure is one function of a `Subject` and one line here. Raise its version when its meaning changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mechint_arith.errors import InputError
from mechint_arith.measures import attention, paths, readouts, structure
from mechint_arith.measures.subject import Subject
from mechint_arith.stats import Estimate


@dataclass(frozen=True)
class Measure:
    """A named measurement of one checkpoint."""

    name: str
    take: Callable[[Subject], Mapping[str, Estimate]]
    """Subject -> name of each value -> estimate."""
    version: int = 1
    """Raised whenever values would change, so that cached ones are not used again."""
    missing: Callable[[Mapping[str, Estimate]], Mapping[str, str]] = lambda values: {}
    """A checkpoint's values -> name of each that means nothing there -> why; asked when values are read."""


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("accuracy", readouts.accuracy),
        Measure("cells", readouts.cells),
        Measure("sides", readouts.sides),
        Measure("strata", readouts.strata),
        Measure("ov1_mlp1", structure.ov1_mlp1),
        Measure("qk0_previous", structure.qk0_previous),
        Measure("qk1_identity", structure.qk1_identity),
        Measure("attn0_operands", attention.attn0_operands),
        Measure("attn0_previous", attention.attn0_previous),
        Measure("attn1_values", attention.attn1_values),
        Measure("attn1_direct", attention.attn1_direct),
        Measure("mlp_input", readouts.mlp_input),
        Measure("probe_variable", readouts.probe_variable),
        Measure("edge_deletion", paths.edge_deletion),
        Measure("relay_deletion", paths.relay_deletion),
        Measure("identity_swap", paths.identity_swap),
        Measure("sharing", paths.sharing, missing=paths.not_competent),
        Measure("frequencies", readouts.frequencies),
    )
}


def chosen(names: Iterable[str] | None = None) -> list[Measure]:
    """Return measures by name, all of them by default. Raises `InputError` for an unknown name."""
    names = list(MEASURES if names is None else names)
    if unknown := [name for name in names if name not in MEASURES]:
        raise InputError(f"no measure {unknown[0]!r}: choose from {', '.join(MEASURES)}")
    return [MEASURES[name] for name in names]
