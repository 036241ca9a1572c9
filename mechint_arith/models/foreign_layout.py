"""Which way round the tensors of an outside file stand, and the same tensors the TransformerLens way.

Layouts: `transformer-lens` (row vectors, heads apart); `transposed` (the research code of Nanda et al. 2023:
column vectors, heads of W_O joined; causal softmax); `attention-mix` (Zhong et al. 2023: stands as `transposed`,
pattern c * softmax + (1 - c) with c outside the file, the `mask` buffer never applied). A layout is told from the
shapes of all tensors; the last two, whose shapes are alike, from a configuration beside the file, the number of
positions, or the order in which their code lists its modules. What still fits several is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from mechint_arith.errors import InputError

LENS, TRANSPOSED, MIX = LAYOUTS = ("transformer-lens", "transposed", "attention-mix")

AXES = {
    LENS: {
        "embed.W_E": "vocab d_model",
        "attn.W_Q": "head d_model d_head",
        "attn.W_K": "head d_model d_head",
        "attn.W_V": "head d_model d_head",
        "attn.W_O": "head d_head d_model",
        "mlp.W_in": "d_model neuron",
        "mlp.W_out": "neuron d_model",
    },
    TRANSPOSED: {
        "embed.W_E": "d_model vocab",
        "attn.W_Q": "head d_head d_model",
        "attn.W_K": "head d_head d_model",
        "attn.W_V": "head d_head d_model",
        "attn.W_O": "d_model z",
        "mlp.W_in": "neuron d_model",
        "mlp.W_out": "d_model neuron",
    },
}
"""What stands on each axis of a tensor; W_pos [pos d_model] and W_U [d_model vocab] are the same in both."""
NEEDED = ("embed.W_E", "pos_embed.W_pos", "blocks.0.attn.W_Q", "blocks.0.attn.W_O", "unembed.W_U")


def short_name(key: str) -> str:
    """Return `attn.W_Q` for `blocks.3.attn.W_Q`; other names as they are."""
    return re.sub(r"^blocks\.\d+\.", "", key)


def misfits(tensors: Mapping[str, Tensor], layout: str) -> list[str]:
    """Return the names of the tensors whose shapes do not go together in a layout (the mix stands transposed)."""
    axes = AXES[LENS if layout == LENS else TRANSPOSED]
    first = tensors["blocks.0.attn.W_Q"].shape
    sizes = {"d_model": tensors["pos_embed.W_pos"].shape[-1], "head": first[0]}
    sizes["d_head"] = first[axes["attn.W_Q"].split().index("d_head")]
    sizes["z"] = sizes["head"] * sizes["d_head"]
    wrong = []
    for key, tensor in tensors.items():
        names = axes.get(short_name(key), "").split()
        if not names:
            continue
        fits = tensor.ndim == len(names) and all(
            size == sizes.get(name, size) for name, size in zip(names, tensor.shape, strict=True)
        )
        partner = tensors.get(key.replace("W_out", "W_in"))
        if fits and key.endswith("mlp.W_out") and partner is not None and partner.ndim == 2:
            fits = tensor.shape == partner.shape[::-1]
        if not fits:
            wrong.append(key)
    return wrong


def require_transformer(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise `InputError` that says what the file is where it is no transformer with the field's names."""
    names = ", ".join(list(tensors)[:6]) + (", …" if len(tensors) > 6 else "")
    if not any("attn" in key or re.search(r"(^|[._])W_[QKV]$", key) for key in tensors):
        raise InputError(f"{where} is a model without attention ({names}): none is read")
    if missing := [key for key in NEEDED if key not in tensors]:
        raise InputError(
            f"{where}: missing {', '.join(missing)} of a HookedTransformer state dict; it has {names}"
        )
    ranks = {"embed.W_E": 2, "pos_embed.W_pos": 2, "blocks.0.attn.W_Q": 3, "unembed.W_U": 2}
    for key, rank in ranks.items():
        if tensors[key].ndim != rank:
            raise InputError(
                f"{where}: {key} has shape {list(tensors[key].shape)}, expected {rank} axes"
            )


def detect(
    tensors: Mapping[str, Tensor], where: str, *, forced: str | None, mixed: bool
) -> tuple[str, str]:
    """Return the layout and how it was told.

    forced: what the user says it is; mixed: whether an attention coefficient is known for the file.
    Raises `InputError` where no layout fits, the forced one does not, or several do.
    """
    require_transformer(tensors, where)
    if forced is not None:
        if forced not in LAYOUTS:
            raise InputError(f"--layout is one of {', '.join(LAYOUTS)}; got {forced!r}")
        if wrong := misfits(tensors, forced):
            raise InputError(
                f"{where} does not have the layout {forced}:"
                f" {wrong[0]} has shape {list(tensors[wrong[0]].shape)}"
            )
        return forced, "as --layout says"
    lens, transposed = misfits(tensors, LENS), misfits(tensors, TRANSPOSED)
    if lens and transposed:
        raise InputError(
            f"{where} has no known layout: {lens[0]} {list(tensors[lens[0]].shape)} does not fit"
            f" {LENS}, {transposed[0]} {list(tensors[transposed[0]].shape)} does not fit {TRANSPOSED}"
        )
    if not lens and not transposed:
        raise InputError(f"{where} fits {LENS} and {TRANSPOSED}: say which with --layout")
    if not lens:
        return LENS, "from its shapes"
    if mixed:
        return MIX, "from its shapes and its attention coefficient"
    if len(tensors["pos_embed.W_pos"]) < 3:
        return MIX, "from its shapes, without a position for ="
    listed = [short_name(key).split(".")[0] for key in tensors]
    order = sorted(("embed", "attn", "unembed"), key=listed.index)
    if order == ["embed", "attn", "unembed"]:
        return TRANSPOSED, "from its shapes and the order of its entries"
    if order == ["embed", "unembed", "attn"]:
        return MIX, "from its shapes and the order of its entries"
    raise InputError(
        f"{where} is {TRANSPOSED} or {MIX}, whose shapes are alike: say --layout {TRANSPOSED}, or give"
        " the mix's coefficient with --config JSON or --attn-coeff"
    )


def to_lens(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return transposed tensors the TransformerLens way: rows are vectors, W_O [head d_head d_model]."""
    n_heads = tensors["blocks.0.attn.W_Q"].shape[0]
    turned = {}
    for key, tensor in tensors.items():
        name = short_name(key)
        if name == "attn.W_O":
            turned[key] = tensor.T.unflatten(0, (n_heads, -1))
        elif name in AXES[TRANSPOSED]:
            turned[key] = tensor.mT
        else:
            turned[key] = tensor
    return turned
