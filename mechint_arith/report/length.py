"""What the report of `length` says: sections made from a `LengthReport` and, for a run, its curve; no measuring here."""

from __future__ import annotations

from collections.abc import Sequence

from mechint_arith.figures.curves import curves
from mechint_arith.figures.intervals import intervals
from mechint_arith.length import CurvePoint, LengthReport
from mechint_arith.report.page import (
    Claim,
    Picture,
    Section,
    TableView,
    making,
    render,
    with_interval,
)


def length_report(found: LengthReport, points: Sequence[CurvePoint], *, command: str) -> str:
    """Return the HTML report of a digits model at every length."""
    sections = [_lengths(found)]
    if points:
        sections.append(_agreement(points))
    sections.append(making({"command": command, "step": found.step, "seed": found.seed}))
    verdicts = ", ".join(f"{region} {verdict}" for region, verdict in found.verdicts.items())
    subtitle = f"{found.task.op} in base {found.task.base}, {found.encoding} positions: {verdicts}"
    return render("Length generalisation", subtitle, sections)


def _lengths(found: LengthReport) -> Section:
    names = {row.length: f"{row.length} digits ({row.region})" for row in found.rows}
    picture = intervals(
        {
            "right": {names[row.length]: row.accuracy for row in found.rows},
            "agrees with the truncated function": {
                names[row.length]: row.agreement for row in found.rows
            },
        },
        unit="share of pairs",
        span=(-0.02, 1.02),
    )
    rows = tuple(
        (
            str(row.length),
            row.region,
            with_interval(row.accuracy),
            "not 1" if row.predicted is None else f"{row.predicted:.4f}",
            with_interval(row.agreement),
            str(row.accuracy.n),
            "as predicted" if row.as_predicted else "not as predicted",
        )
        for row in found.rows
    )
    columns = ("digits", "region", "right", "predicted", "agrees with truncated", "n", "")
    claims = [
        Claim(f"{region}: {verdict}, on this checkpoint.", ("Wilson intervals, 95 %",))
        for region, verdict in found.verdicts.items()
    ]
    claims += [Claim(reason, ("predicted from the task alone",)) for reason in found.reasons]
    return Section(
        "Lengths",
        f"In-domain hold-out {with_interval(found.in_domain)}.",
        tuple(claims),
        (Picture(picture, "Exact match by length, against the truth and the truncated function."),),
        (TableView(columns, rows),),
    )


def _agreement(points: Sequence[CurvePoint]) -> Section:
    lengths = list(points[0].agreement)
    names = {length: f"{length} digits" for length in lengths}
    picture = curves(
        [point.step for point in points],
        {names[m]: [point.agreement[m].value for point in points] for m in lengths},
        low={names[m]: [point.agreement[m].low for point in points] for m in lengths},
        high={names[m]: [point.agreement[m].high for point in points] for m in lengths},
        unit="agreement with the truncated function",
    )
    return Section(
        "Over training",
        pictures=(Picture(picture, "Agreement with the truncated function over the run's steps."),),
    )
