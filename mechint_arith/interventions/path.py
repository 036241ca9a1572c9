"""Path patching: change what one place writes, but only as one reader sees it.

The reader's input gets the sender's donor-minus-base write; everyone else, and the skip connection, keeps the
base run. What the reader then does flows on as usual, so this is the edge sender -> receiver, exactly.
Sources: Wang et al., arXiv 2211.00593, appendix B; Goldowsky-Dill et al., arXiv 2304.05969.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.interventions.contrast import Metric, contrast
from mechint_arith.interventions.effects import Axis, Effects
from mechint_arith.interventions.patching import Ends, ends_of, run_directions
from mechint_arith.interventions.recording import BUDGET
from mechint_arith.interventions.running import Cell, MakeCells, Patch
from mechint_arith.interventions.site import Site
from mechint_arith.models.staged import Record, Staged
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

SENDERS = {"resid_pre": -2, "z": 0, "attn_out": 0, "post": 2, "mlp_out": 2}
"""What may send, and its height within a layer; resid_pre only as layer 0's: the embedding."""
RECEIVERS = {"q": -1, "k": -1, "v": -1, "mlp_in": 1, "resid_post": 3}
"""What may receive, and its height; resid_post only as the last layer's: the direct path to the logits."""


def path_patch(
    model: Transformer,
    clean: Batch,
    corrupted: Batch,
    senders: Site | Sequence[Site],
    receivers: Site | Sequence[Site],
    metric: str | Metric = "logit difference",
    *,
    direction: str = "both",
    budget: int = BUDGET,
) -> Effects:
    """Patch each path from a sender's write to a receiver's input; axes `direction`, `sender`, `receiver`.

    senders: sites at `z` (one head or all), `attn_out`, `post` (some neurons or all), `mlp_out`, or layer 0's
    `resid_pre` (the embedding). receivers: sites at `q`, `k`, `v` (one head or all), `mlp_in`, or the last
    layer's `resid_post` (straight to the logits). Other arguments as in `patching.patch`.
    A pair without a path between them (the receiver comes first, or reads other positions) is 0 and `inert`;
    raises `InputError` where that is all of them, or a site can be no sender or receiver.
    """
    pair = contrast(clean, corrupted, metric)
    froms, tos = ([s] if isinstance(s, Site) else list(s) for s in (senders, receivers))
    for site in froms:
        if site.hook not in SENDERS or (site.hook == "resid_pre" and site.layer):
            raise InputError(
                f"{site} is no sender: expected z, attn_out, post, mlp_out or layer 0's resid_pre"
            )
    last = model.config.n_layers - 1
    for site in tos:
        if site.hook not in RECEIVERS or (site.hook == "resid_post" and site.layer != last):
            raise InputError(
                f"{site} is no receiver: expected q, k, v, mlp_in or the last layer's resid_post"
            )
        if site.subspace is not None:
            raise InputError(
                f"{site}: a receiver reads whole vectors; give the subspace to the sender"
            )
    ends = {id(site): ends_of(site, model, pair, False) for site in (*froms, *tos)}
    pairs = [(ends[id(a)], ends[id(b)]) for a in froms for b in tos]
    axes = (Axis("sender", tuple(map(str, froms))), Axis("receiver", tuple(map(str, tos))))
    staged = Staged(model, pair.reads)
    reasons = [_no_path(staged, a, b) for a, b in pairs]

    def making(cells: Sequence[tuple[Ends, Ends]], donor_is_clean: bool) -> MakeCells:
        def make(rows: slice, base: Record, donors: Sequence[Record]) -> Sequence[Cell]:
            turned = [[_turned(ends, rows, donor_is_clean) for ends in (a, b)] for a, b in cells]
            return [(_path(staged, a, b, base, donors[0]),) for a, b in turned]

        return make

    return run_directions(
        model, pair, axes, pairs, reasons, making, direction, budget, "path patching"
    )


def _turned(ends: Ends, rows: slice, donor_is_clean: bool) -> Ends:
    """Return (site in the base batch, site in the donor batch), for some rows."""
    clean, corrupted = (end.among(rows) for end in ends)
    return (corrupted, clean) if donor_is_clean else (clean, corrupted)


def _no_path(staged: Staged, sender: Ends, receiver: Ends) -> str | None:
    """Return why nothing that a sender writes is read by a receiver, or None."""
    a, b = sender[0].site, receiver[0].site
    if (a.layer, SENDERS[a.hook]) >= (b.layer, RECEIVERS[b.hook]):
        return f"{b} comes before {a}"
    for found in (*sender, *receiver):
        if found.inert:
            return found.inert
    for end in (0, 1):
        writes, reads = (
            _positions(staged, found[end].positions, (found[end].site.layer, found[end].site.hook))
            for found in (sender, receiver)
        )
        if not (writes[:, :, None] == reads[:, None]).any():
            return f"{a} writes where {b} does not read"
    return None


def _positions(
    staged: Staged, positions: Int[Tensor, "batch n"] | None, place: tuple[int, str]
) -> Int[Tensor, "batch n"]:
    """Return where a site is; one that is everywhere is where its stage has columns."""
    if positions is not None:
        return positions
    columns = staged.columns(place)
    return (torch.arange(staged.config.n_ctx) if columns is None else columns)[None]


def _path(staged: Staged, sender: Ends, receiver: Ends, base: Record, donor: Record) -> Patch:
    """Return the patch that makes a receiver read the sender's donor write."""
    at = receiver[0]
    layer, hook = at.site.layer, at.site.hook
    block = staged.blocks[layer]
    columns = staged.columns((layer, hook))

    def new(examples: Int[Tensor, " row"], _: Callable[[], Tensor]) -> Tensor:
        delta = _delta(staged, sender, base, donor, examples)
        if hook in ("q", "k", "v"):
            x = base.values[layer, "resid_pre"][examples]
            value = block.compute(hook, x + delta)
        else:
            read_from = "resid_mid" if hook == "mlp_in" else hook
            value = base.values[layer, read_from][examples]
            value = value + (delta if columns is None else delta[:, columns])
        return at.take(value, examples, columns)

    return Patch(at, new)


def _delta(
    staged: Staged, sender: Ends, base: Record, donor: Record, examples: Int[Tensor, " row"]
) -> Float[Tensor, "row pos d_model"]:
    """Return donor minus base write of a sender, at its positions in the base run, zero elsewhere."""
    at, source = sender
    site = at.site
    place = (site.layer, site.hook)
    columns = staged.columns(place)
    there, here = (
        end.take(run.values[place], examples, columns, table=True)
        for end, run in ((source, donor), (at, base))
    )
    write = _written(staged, site, there - here)
    delta = write.new_zeros(len(examples), base.values[0, "resid_pre"].shape[1], write.shape[-1])
    positions = at.at(examples)
    if positions is None:
        delta[:, slice(None) if columns is None else columns] = write
        return delta
    return delta.scatter_add(1, positions[..., None].expand(-1, -1, write.shape[-1]), write)


def _written(staged: Staged, site: Site, difference: Tensor) -> Float[Tensor, "row n d_model"]:
    """Return what a difference at a site adds to the residual stream."""
    block = staged.blocks[site.layer].block
    if site.subspace is not None:
        basis = site.subspace.to(difference)
        difference = difference @ basis @ basis.mT
    if site.hook == "z":
        w_o = block.attn.W_O
        return difference.flatten(2) @ (w_o.flatten(0, 1) if site.head is None else w_o[site.head])
    if site.hook == "post":
        assert block.mlp is not None
        w_out = block.mlp.W_out
        return difference @ (w_out if site.neurons is None else w_out[list(site.neurons)])
    return difference
