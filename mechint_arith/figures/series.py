"""Figures of a checkpoint series: accuracy, progress measures, and when each event happened.

Values come in as `Series` and events; nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from mechint_arith.dynamics import Series
from mechint_arith.figures import style
from mechint_arith.figures.curves import Phase, curves
from mechint_arith.phases import ChangePoint, Event


def phases_between(points: Sequence[ChangePoint], names: Sequence[str], end: int) -> list[Phase]:
    """Return the named stretches that start at each change point; the last one ends at `end`."""
    starts = [point.step for point in points]
    ends = [*starts[1:], end]
    named = zip(names, starts, ends, strict=False)
    return [Phase(name, a, b) for name, a, b in named if a < b]


def series_curves(
    series: Series,
    names: Mapping[str, str] | Sequence[str],
    *,
    phases: Sequence[Phase] = (),
    unit: str = "accuracy",
    title: str = "",
) -> go.Figure:
    """Return curves of some values with their intervals. names: value -> label, or values under their own names."""
    labels = names if isinstance(names, Mapping) else {name: name for name in names}
    found = {name: label for name, label in labels.items() if name in series.values}
    return curves(
        series.steps,
        {label: series.curve(name) for name, label in found.items()},
        low={label: series.curve(name, "low") for name, label in found.items()},
        high={label: series.curve(name, "high") for name, label in found.items()},
        phases=phases,
        unit=unit,
        title=title,
    )


def event_times(runs: Mapping[str, Mapping[str, Event]], *, title: str = "") -> go.Figure:
    """Return when each event happened, one colour per run; the bar ends where it was certain to have happened."""
    names = list(dict.fromkeys(name for found in runs.values() for name in found))
    chart = style.figure(
        [],
        title=title,
        height=130 + 24 * max(3, len(names)),
        xaxis={"title": {"text": "step"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
    )
    for i, (run, found) in enumerate(runs.items()):
        happened = [e for e in found.values() if e.step is not None]
        steps = [e.step or 0 for e in happened]
        upper = [max((e.high or s) - s, 0) for e, s in zip(happened, steps, strict=True)]
        chart.add_scatter(
            x=steps,
            y=[style.shown(e.name) for e in happened],
            error_x={
                "type": "data",
                "symmetric": False,
                "array": upper,
                "arrayminus": [s - e.low for e, s in zip(happened, steps, strict=True)],
                "thickness": 1.2,
                "width": 3,
            },
            mode="markers",
            name=style.shown(run),
            marker={"color": style.colour(i), "size": 7, "symbol": i % 40},
            hovertemplate="%{y}: step %{x}",
        )
    return chart
