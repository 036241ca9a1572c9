"""One HTML file that opens anywhere: claims with their numbers, pictures and tables; no request leaves the page.

`Section` is plain data; `render` turns sections into a page. What the sections of a finding say is written in
`report_*` modules beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from mechint_arith.stats import Estimate


@dataclass(frozen=True)
class Claim:
    """One thing that was found."""

    text: str
    """A sentence that says on what it holds."""
    facts: tuple[str, ...] = ()
    """Interval, n, null, command: what the sentence rests on."""


@dataclass(frozen=True)
class Picture:
    """A Plotly figure and what to see in it."""

    figure: go.Figure
    caption: str


@dataclass(frozen=True)
class TableView:
    """Rows of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    @classmethod
    def of(cls, frame: pd.DataFrame, caption: str = "") -> TableView:
        """Turn a data frame into text; numbers with three decimals, missing ones as dashes."""
        rows = tuple(tuple(cell_text(v) for v in row) for row in frame.itertuples(index=False))
        return cls(tuple(map(str, frame.columns)), rows, caption)


@dataclass(frozen=True)
class Section:
    """A part of the report with its own entry in the table of contents."""

    title: str
    headline: str = ""
    claims: tuple[Claim, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[TableView, ...] = field(default_factory=tuple)

    @cached_property
    def id(self) -> str:
        """Anchor of the section."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


def cell_text(value: Any) -> str:
    """Return a table cell's text."""
    if value is None or value != value:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def with_interval(e: Estimate | None) -> str:
    """`0.993 [0.988, 0.996]`, or a dash."""
    return "–" if e is None else f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"


def render(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """Return the page as HTML; every text is escaped, Plotly's script is inside."""
    from jinja2 import Environment
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    from mechint_arith.figures.style import PAGE_CSS

    has_pictures = any(section.pictures for section in sections)
    drawn = [
        {
            "id": section.id,
            "title": section.title,
            "headline": section.headline,
            "claims": section.claims,
            "tables": section.tables,
            "pictures": [
                {
                    "caption": picture.caption,
                    "html": Markup(_plot(picture, f"plot-{section.id}-{i}")),
                }
                for i, picture in enumerate(section.pictures)
            ],
        }
        for section in sections
    ]
    source = resources.files("mechint_arith").joinpath("templates/report.html")
    template = Environment(autoescape=True).from_string(source.read_text(encoding="utf-8"))
    page = template.render(
        title=title, subtitle=subtitle, sections=drawn, plot_css=Markup(PAGE_CSS)
    )
    if not has_pictures:
        return page
    script = f"<script>{get_plotlyjs()}</script>\n</head>"
    return page.replace("</head>", script, 1)


def _plot(picture: Picture, name: str) -> str:
    """Return a figure's HTML without the library; `</` in its data cannot close the script."""
    html = picture.figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=name,
        config={"displaylogo": False, "responsive": True},
    )
    label = escape(picture.caption, quote=True)
    return f'<div role="img" aria-label="{label}">{html}</div>'
