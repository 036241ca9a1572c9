"""Attention patterns in a notebook, through CircuitsVis, without a request to anywhere.

CircuitsVis' own display asks a search engine whether there is a network and then loads its script from elsewhere.
Here its local form is put into a frame of its own that may load nothing, with labels that cannot end the script.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.figures import style
from mechint_arith.figures.drawing.lettering import spelled

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""What the frame may load: nothing from outside itself."""


@dataclass(frozen=True)
class Display:
    """HTML that a notebook shows."""

    source: str
    """The HTML itself, complete."""

    def _repr_html_(self) -> str:
        return self.source

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.source):,} characters of HTML)"


def attention(
    patterns: Any,
    tokens: Sequence[object],
    *,
    names: Sequence[object] | None = None,
    causal: bool = True,
    height: int = 1000,
) -> Display:
    """Return attention patterns to look at in a notebook: small ones for all heads, a large one to point into.

    patterns: [head query key], or [query key] for one head; from 0 to 1. tokens: one label per position; names:
    one per head, by default `head 0`, …; causal: leave the part above the diagonal empty. height: of the frame, px.
    The same patterns give the same HTML.
    Raises `InputError` for other shapes, labels that do not fit, or values that are missing or outside 0 to 1.
    """
    weights = np.asarray(patterns)
    weights = weights[None] if weights.ndim == 2 else weights
    weights = style.array(weights, "head query key", "patterns")
    _, n_query, n_key = weights.shape
    if n_query != n_key:
        raise InputError(
            f"patterns [head query key] need as many queries as keys; got {weights.shape}"
        )
    style.same_length(n_key, "the axis 'key' of the patterns", tokens=tokens)
    heads = [f"head {i}" for i in range(len(weights))] if names is None else list(names)
    style.same_length(len(weights), "the axis 'head' of the patterns", names=heads)
    if not ((weights >= -1e-6) & (weights <= 1 + 1e-6)).all():
        raise InputError("attention weights lie between 0 and 1, and none is missing")
    inner = _page(
        weights, [spelled(str(t)) for t in tokens], [spelled(str(n)) for n in heads], causal
    )
    frame = f'srcdoc="{html.escape(inner)}" title="Attention patterns"'
    look = (
        f'width="100%" height="{height:d}" style="border: 0; max-width: 860px; background: white"'
    )
    return Display(f"<iframe {frame} {look}></iframe>")


def _page(weights: np.ndarray, tokens: list[str], names: list[str], causal: bool) -> str:
    """Return the page inside the frame, made of CircuitsVis' local form."""
    from circuitsvis.attention import attention_heads

    made = attention_heads(
        attention=np.round(weights, 4).tolist(),
        tokens=tokens,
        attention_head_names=names,
        max_value=1.0,
        min_value=0.0,
        mask_upper_tri=causal,
    ).local_src
    script, call, values = made.rpartition("CircuitsVis.render(")
    values, end, rest = values.rpartition("</script>")
    safe = script + call + values.replace("<", "\\u003c") + end + rest
    mark = safe.partition('id="')[2].partition('"')[0]
    name = hashlib.sha256(safe.replace(mark, "").encode()).hexdigest()[:12]
    body = safe.replace(mark, f"circuits-vis-{name}").replace("/>", "></div>", 1)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return f'<!DOCTYPE html><html><head><meta charset="utf-8">{policy}</head><body>{body}</body></html>'
