"""What the report of an assign-and-add probe says first: the verdict, what it means, and how often it is wrong."""

from __future__ import annotations

from dataclasses import asdict

from mechint_arith.calibration.shipped import error_rate
from mechint_arith.probing import Findings
from mechint_arith.report.page import Claim, Section, TableView, with_interval


def verdict_section(findings: Findings) -> Section:
    """Return the section on the verdict."""
    v, e = findings.verdict, findings.evidence
    headline = (
        f"Verdict on the last MLP's neurons, on this checkpoint: {v.name}. {v.meaning}"
        f" Sharing index {with_interval(v.index)}."
    )
    about = [Claim(error_rate(v.thresholds))]
    if findings.assumed:
        about.append(Claim(assumption(findings)))
    first, *others = v.reasons
    reasons = [
        Claim(first, (f"intervals: 95 % bootstrap over {e.n_pairs} number pairs",)),
        *map(Claim, others),
    ]
    rule = TableView(
        ("threshold", "value"),
        tuple(
            (name.replace("_", " "), f"{value:g}") for name, value in asdict(v.thresholds).items()
        ),
        "The rule was declared before looking.",
    )
    return Section("Verdict", headline, (*about, *reasons), tables=(rule,))


def assumption(findings: Findings) -> str:
    """Return one sentence on a split that the file does not say."""
    return f"The file does not say which pairs were trained on; assumed: {findings.assumed}."
