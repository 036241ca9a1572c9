"""Plotly figures as files: HTML always, pictures where Chrome or Chromium is installed.

The browser runs in a process of its own with a time limit, so that nothing waits for it for ever. No figure is
made here.
"""

from __future__ import annotations

import contextlib
import html as escaping
import os
import subprocess
import sys
from pathlib import Path

import plotly.graph_objects as go

from mechint_arith import files
from mechint_arith.errors import InputError
from mechint_arith.figures.colours import INK
from mechint_arith.figures.style import FONT, PAGE_CSS

PICTURES = (".png", ".svg", ".pdf")
"""Suffixes that need a browser."""

GRACE = 5.0
"""Time the browser has to close by itself after the limit, s."""

CONFIG = {"displaylogo": False, "responsive": True}
"""Plotly's settings for pages: no link to elsewhere."""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""What a page may load: nothing from outside itself."""

RENDER = """
import asyncio, json, sys
import kaleido
kind, width, height, scale, limit = sys.argv[1:6]
options = {"format": kind, "width": int(width), "height": int(height), "scale": float(scale)}
figure = json.load(sys.stdin)
work = kaleido.calc_fig(figure, options, kopts={"mathjax": False, "timeout": None})
sys.stdout.buffer.write(asyncio.run(asyncio.wait_for(work, float(limit))))
"""
"""What the other process runs: JSON of a figure in, bytes of a picture out."""


def save(
    figure: go.Figure,
    path: str | os.PathLike[str],
    *,
    width: int = 700,
    height: int | None = None,
    scale: float = 2.0,
    timeout: float = 60.0,
) -> None:
    """Write a figure as `.html`, `.png`, `.svg` or `.pdf`, in one step.

    HTML holds all of plotly.js, opens offline and may load nothing. Pictures are printed in dark ink on white;
    width, height: px, by default the figure's own height; scale: pixels of a PNG per px. timeout: s.
    Raises `InputError` for another suffix and, for pictures, where no Chrome or Chromium or no kaleido is
    installed, it fails, or takes longer.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".html":
        files.write_text(path, page(figure))
    elif suffix in PICTURES:
        content = picture(
            figure, suffix[1:], width=width, height=height, scale=scale, timeout=timeout
        )
        with files.replacing(path) as temporary:
            temporary.write_bytes(content)
    else:
        raise InputError(
            f"cannot write a figure as {Path(path).name!r}: the name should end in .html, .png, .svg or .pdf"
        )


def page(figure: go.Figure) -> str:
    """Return a page that shows the figure offline: light or dark as the reader's system is."""
    plot = figure.to_html(full_html=False, include_plotlyjs=True, div_id="figure", config=CONFIG)
    title = escaping.unescape(figure.layout.title.text or "Figure")
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escaping.escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        "<style>:root { color-scheme: light dark; }"
        f" body {{ font-family: {FONT}; background: Canvas; color: CanvasText; }} {PAGE_CSS}</style>"
        f"</head><body>{plot}</body></html>\n"
    )


def picture(
    figure: go.Figure,
    kind: str,
    *,
    width: int = 700,
    height: int | None = None,
    scale: float = 2.0,
    timeout: float = 60.0,
) -> bytes:
    """Return the figure as a `png`, `svg` or `pdf`, in dark ink on white. Options and errors as in `save`."""
    _check_browser()
    printed = go.Figure(figure)
    printed.update_layout(paper_bgcolor="white", font={"color": INK})
    size = [width, height or figure.layout.height or 450, scale, timeout]
    command = [sys.executable, "-c", RENDER, kind, *map(str, size)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            drawn, said = process.communicate(printed.to_json().encode(), timeout + GRACE)
        except subprocess.TimeoutExpired:
            _end(process)
            raise InputError(_late(timeout)) from None
    if process.returncode:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        if last.startswith("TimeoutError"):
            raise InputError(_late(timeout))
        raise InputError(
            f"the browser did not draw the figure ({last[:120]}): check it, or write .html"
        )
    return drawn


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that hangs, and the browser that it started."""
    import psutil

    browsers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in browsers:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def browser() -> str | None:
    """Return the path of the Chrome or Chromium that draws pictures, or None where there is none.

    Raises `InputError` where kaleido, which drives it, is not installed.
    """
    try:
        from choreographer.browsers.chromium import Chromium
    except ImportError as error:
        raise InputError(
            "pictures of Plotly figures need kaleido: pip install 'mechint-arith[export]',"
            " or write .html"
        ) from error
    path = Chromium.find_browser(skip_local=False)
    return str(path) if path and Path(path).is_file() else None


def _check_browser() -> None:
    if browser() is None:
        raise InputError(
            "pictures of Plotly figures need Chrome or Chromium, and none was found: install one"
            " (apt install chromium, or run kaleido_get_chrome), or write .html"
        )


def _late(timeout: float) -> str:
    return (
        f"the browser did not draw the figure within {timeout:g} s: allow more time, or write .html"
    )
