"""What the report of a checkpoint series says: sections made from the series, its events and phases; no measuring here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mechint_arith.dynamics import Series
from mechint_arith.phases import PHASES, SUSTAINED, ChangePoint, Event
from mechint_arith.report.page import (
    Claim,
    Picture,
    Section,
    TableView,
    making,
    render,
    with_interval,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

CAPTIONS = {
    "accuracy": "Accuracy by pool over training, with Wilson intervals; shaded: the phases.",
    "progress": "Progress measures: what the weights and the attention do, whatever the answers are.",
    "events": "When each event happened; a bar ends where it was certain to have happened.",
}


def series_report(
    found: Series,
    happened: Mapping[str, Event],
    phases: Sequence[ChangePoint],
    figures: Mapping[str, go.Figure],
    *,
    command: str,
) -> str:
    """Return the HTML report of a series. figures: by the names of `CAPTIONS`, those that there are."""
    sections = [_values(found, figures)]
    if phases:
        sections.append(_phases(phases, found))
    if happened:
        sections.append(_events(happened, figures))
    sections.append(making({"checkpoints": found.source, "command": command}))
    subtitle = f"{len(found.steps)} checkpoints, steps {found.steps[0]} to {found.steps[-1]}"
    return render(f"{found.source}: over training", subtitle, sections)


def _values(found: Series, figures: Mapping[str, go.Figure]) -> Section:
    pictures = tuple(
        Picture(figures[name], CAPTIONS[name])
        for name in ("accuracy", "progress")
        if name in figures
    )
    rows = tuple(
        (name, with_interval(row[0]), with_interval(row[-1]), str(row[-1].n))
        for name, row in found.values.items()
    )
    columns = ("value", f"step {found.steps[0]}", f"step {found.steps[-1]}", "n")
    caption = "Every value at the first and the last checkpoint; table.csv has all steps"
    return Section("Curves", pictures=pictures, tables=(TableView(columns, rows, caption, True),))


def _phases(phases: Sequence[ChangePoint], found: Series) -> Section:
    claims = tuple(
        Claim(
            f"On this run {name} begins at step {point.step}.",
            (
                f"the change lies in ({point.low}, {point.high}]",
                f"{point.n} block-bootstrap refits",
                f"n = {len(found.steps)} checkpoints of one run",
            ),
        )
        for name, point in zip(PHASES, phases, strict=False)
    )
    return Section("Phases", claims=claims)


def _events(happened: Mapping[str, Event], figures: Mapping[str, go.Figure]) -> Section:
    rows = tuple(
        (
            event.name,
            "not reached" if event.step is None else str(event.step),
            str(event.low),
            "open" if event.high is None else str(event.high),
            str(event.lapses),
        )
        for event in sorted(happened.values(), key=lambda e: (e.step is None, e.step or 0))
    )
    columns = ("event", "step", "not before", "certain from", "lapses")
    caption = f"A level counts as reached where it is kept for {SUSTAINED} checkpoints in a row."
    pictures = (Picture(figures["events"], CAPTIONS["events"]),) if "events" in figures else ()
    return Section("Events", pictures=pictures, tables=(TableView(columns, rows, caption),))
