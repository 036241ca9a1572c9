"""The rule by which a quantity counts as decodable, over several probes judged together.

Declared before looking; noise must not pass it more often than the error rate says. Probes themselves are
fitted in `linear`.

Source: Hewitt & Liang 2019, arXiv 1909.03368 (selectivity); Holm, Scand. J. Stat. 6 (1979).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mechint_arith.errors import InputError
from mechint_arith.probes.linear import Probe
from mechint_arith.stats import holm


@dataclass(frozen=True)
class Decision:
    """Whether a quantity counts as decodable, and why."""

    decodable: bool
    """Adjusted p below the error rate, selectivity.low > 0 and accuracy.low > chance."""
    p_adjusted: float
    """Holm-adjusted p-value over all probes judged together."""
    reason: str
    """One line."""


def decodable(probes: Mapping[str, Probe], *, error: float = 0.05) -> dict[str, Decision]:
    """Judge several probes together: name -> Decision.

    A quantity is decodable if its Holm-adjusted p-value is at most `error`, the lower limit of its selectivity
    is above 0, and the lower limit of its accuracy is above chance. Raises `InputError` for no probes.
    """
    if not probes:
        raise InputError("there is no probe to judge")
    adjusted = holm([p.p_value for p in probes.values()])
    decisions = {}
    for (name, found), p_value in zip(probes.items(), adjusted, strict=True):
        faults = []
        if found.accuracy.low <= found.chance:
            faults.append(f"accuracy {found.accuracy} does not exceed chance {found.chance:.3f}")
        if found.selectivity.low <= 0:
            faults.append(f"selectivity {found.selectivity} does not exceed 0")
        if p_value > error:
            faults.append(f"p = {p_value:.3g} over {len(probes)} probes exceeds {error:g}")
        reason = "; ".join(faults) or (
            f"accuracy {found.accuracy} above chance {found.chance:.3f}, selectivity {found.selectivity}"
        )
        decisions[name] = Decision(not faults, float(p_value), reason)
    return decisions
