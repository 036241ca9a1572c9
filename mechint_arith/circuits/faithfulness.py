"""How much of a model's behaviour a circuit carries: small functions of measured numbers.

Whoever calls them ran the model; here are only the formulas, and the rule for values that do not exist.
Source: Wang et al., "Interpretability in the Wild", arXiv 2211.00593, sections 4 and 4.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mechint_arith.errors import InputError


@dataclass(frozen=True)
class Score:
    """A ratio, or the reason why there is none."""

    value: float | None
    """The ratio, without unit; None where its denominator is 0."""
    reason: str | None = None
    """Why the value is missing; None where it is there."""


def faithfulness(m_circuit: float, m_all: float, m_none: float) -> Score:
    """Return (m(C) - m(none)) / (m(all) - m(none)): 1 where the circuit alone does what the model does.

    m_circuit: metric with everything outside the circuit ablated; m_all: of the whole model;
    m_none: with everything ablated. All three in one unit. May lie below 0 or above 1.
    Missing where the whole model does no better or worse than the ablated one.
    Raises `InputError` where a number is not finite.
    """
    _check(m_circuit=m_circuit, m_all=m_all, m_none=m_none)
    return _ratio(m_circuit - m_none, m_all - m_none)


def completeness_gap(
    m_circuit_without: float, m_all_without: float, m_all: float, m_none: float
) -> Score:
    """Return |m(C without K) - m(all without K)| / |m(all) - m(none)| for a set K of the circuit's nodes.

    m_circuit_without: metric of the circuit after K is ablated too; m_all_without: of the whole model
    with K ablated. A complete circuit has a gap near 0 for every K: nothing outside it does K's work.
    Missing where the whole model does no better or worse than the ablated one.
    Raises `InputError` where a number is not finite.
    Source: Wang et al., section 4.1 (incompleteness score), here as a share of the model's effect.
    """
    _check(
        m_circuit_without=m_circuit_without,
        m_all_without=m_all_without,
        m_all=m_all,
        m_none=m_none,
    )
    return _ratio(abs(m_circuit_without - m_all_without), abs(m_all - m_none))


def _ratio(numerator: float, denominator: float) -> Score:
    if denominator == 0:
        return Score(None, "m_all equals m_none, so there is no effect to take a share of")
    return Score(numerator / denominator)


def _check(**numbers: float) -> None:
    bad = [f"{name} = {number}" for name, number in numbers.items() if not math.isfinite(number)]
    if bad:
        raise InputError(f"a score needs finite numbers; got {' and '.join(bad)}")
