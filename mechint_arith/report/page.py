"""One HTML file that opens anywhere: claims with their numbers, pictures and tables; no request leaves the page.

`Section` is plain data; `render` turns sections into a page, `write` into a file. What the sections of a finding
say is written in `report_*` modules beside this one. A command that has found something hands it in so:

    found = Section("Phases", claims=(Claim("Grokking begins at step 5,300.", ("n = 5 seeds",)),),
                    pictures=(Picture(figure, "Accuracy over training."),))
    write("out/report.html", "Five seeds", "assign-and-add modulo 59", [found, making(provenance)])
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from mechint_arith import files
from mechint_arith.errors import InputError

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
class Diagram:
    """A drawing made without a browser (`figures.drawing.svg`), on white paper, and what to see in it."""

    svg: str
    """A whole `<svg>` element; it comes from this package and is not escaped."""
    caption: str


@dataclass(frozen=True)
class TableView:
    """Rows of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    folded: bool = False
    """Whether only the caption is seen until a reader opens it."""

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
    pictures: tuple[Picture | Diagram, ...] = ()
    """Three or more are set side by side where there is room."""
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
    """`0.993 [0.988, 0.996]`, or a dash where nothing was measured."""
    return "–" if e is None or math.isnan(e.value) else f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"


def render(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """Return the page as HTML; every text is escaped, Plotly's script is inside where a picture needs it.

    Raises `InputError` where two sections have one title, as the contents could not tell them apart.
    """
    from jinja2 import Environment
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    from mechint_arith.figures.style import PAGE_CSS

    names = [section.id for section in sections]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two sections of the report are called {min(twice)!r}; rename one")
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
                    "kind": type(picture).__name__.lower(),
                    "html": Markup(_shown(picture, f"plot-{section.id}-{i}")),
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
    if not any(isinstance(picture, Picture) for s in sections for picture in s.pictures):
        return page
    script = f"<script>{get_plotlyjs()}</script>\n</head>"
    return page.replace("</head>", script, 1)


def write(
    path: str | os.PathLike[str], title: str, subtitle: str, sections: Sequence[Section]
) -> None:
    """Write the page to a file, in one step. Raises `InputError` where it cannot be written."""
    files.write_text(path, render(title, subtitle, sections))


def making(facts: Mapping[str, Any]) -> Section:
    """Return the section that says how a report was made: file, sha256, command, versions, …"""
    rows = tuple(
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in facts.items()
    )
    return Section("How this was made", tables=(TableView(("what", "value"), rows),))


def _shown(picture: Picture | Diagram, name: str) -> str:
    """Return a picture's HTML without the library; `</` in its data cannot close the script."""
    label = escape(picture.caption, quote=True)
    if isinstance(picture, Diagram):
        return f'<div class="paper" role="img" aria-label="{label}">{picture.svg}</div>'
    html = picture.figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=name,
        config={"displaylogo": False, "responsive": True},
    )
    return f'<div role="img" aria-label="{label}">{html}</div>'
