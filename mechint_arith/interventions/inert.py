"""Why changing a place cannot change the answer: what follows from the shape of a model alone.

Rules, no model and no names of positions; `site.locate` asks them before anything runs.
"""

from __future__ import annotations

import numpy as np

from mechint_arith.models.config import ModelConfig
from mechint_arith.models.stages import KEY_SIDE

SCORES = ("q", "k", "attn_scores")
ROWS = ("q", "attn_scores", "pattern")


def why_inert(
    config: ModelConfig,
    hook: str,
    layer: int,
    positions: np.ndarray | None,
    keys: np.ndarray | None,
    *,
    reads: tuple[int, ...],
    between_runs: bool,
) -> str | None:
    """Return the reason why no change at a place reaches the logits, or None where one can.

    positions, keys: int [batch n] (or [1 n]) of query (or own) and key positions; None: all. reads: positions whose logits
    count. between_runs: the new value is the same place's in another run.
    """
    alone = config.causal and not config.attn_sink
    if hook in SCORES and config.attn_mix == 0:
        return "with attention mix 0 the pattern does not depend on scores"
    if hook in ("attn_scores", "pattern") and between_runs:
        if not config.attn_content:
            return "its scores come from positions alone, so they are the same in every run"
        if config.attn_mix == 0:
            return "with attention mix 0 the pattern is the same in every run"
    if positions is None:
        return None
    if config.causal and (late := int((positions > reads[-1]).any(1).sum())):
        return f"it comes after the last read position {reads[-1]}{_in_rows(late, positions)}"
    if layer == config.n_layers - 1 and hook not in KEY_SIDE:
        unread = int((~np.isin(positions, reads)).any(1).sum())
        if unread:
            return (
                "after the last layer's keys and values only the read positions"
                f" ({', '.join(map(str, reads))}) count{_in_rows(unread, positions)}"
            )
    first = hook in ROWS and alone and bool((positions == 0).any())
    if first and (hook in SCORES or between_runs):
        return "the first position attends to itself alone"
    if keys is not None and config.causal:
        later = keys.max(1) > positions.min(1)
        if later.any():
            return f"it attends to a later position{_in_rows(int(later.sum()), later)}"
    return None


def _in_rows(count: int, positions: np.ndarray) -> str:
    return "" if count == len(positions) else f" in {count} of {len(positions)} rows"
