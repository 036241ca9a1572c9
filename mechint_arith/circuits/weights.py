"""What the weights of a folded model say by themselves: QK, OV and folded tables whose axes have names.

No prompt is run here; measures that summarise these tables are in `measures`. The rows of a table are what the
residual stream before the last layer is made of: token embeddings, position embeddings, and the images of
both under layer 0's heads. Layers are counted from 0. Scores are divided by sqrt(d_head), as in the softmax,
where nothing else is said. Source: virtual weights, Elhage et al. 2021; arXiv 2605.31497.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.folded import Folded
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.vocab import variable_names

SOURCES = ("embed", "pos", "attn0")
"""What a residual row before the last layer is a sum of: token, position, and layer 0's output."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers whose axes, and the entries along them, have names."""

    values: np.ndarray
    """float, one axis per name."""
    axes: tuple[str, ...]
    """Name of each axis."""
    labels: Mapping[str, tuple[str, ...]]
    """Axis -> name of each entry; an axis without labels is counted from 0."""
    unit: str
    """Unit of the values."""

    def __post_init__(self) -> None:
        sizes = {axis: len(names) for axis, names in self.labels.items()}
        shape = dict(zip(self.axes, self.values.shape, strict=True))
        if wrong := [axis for axis, size in sizes.items() if shape.get(axis) != size]:
            raise ValueError(f"labels do not fit the table along {', '.join(wrong)}")

    def at(self, **where: str | int) -> Table:
        """Return the part of the table at a label (or index) of some axes; axis names with `_` for spaces."""
        table = self
        for key, entry in where.items():
            axis = key.replace("_", " ")
            if axis not in table.axes:
                raise InputError(f"no axis {axis!r}: this table has {', '.join(table.axes)}")
            names = table.labels.get(axis, ())
            if isinstance(entry, str) and entry not in names:
                raise InputError(f"no {entry!r} along {axis!r}: choose from {', '.join(names)}")
            index = names.index(entry) if isinstance(entry, str) else entry
            table = Table(
                np.asarray(table.values.take(index, table.axes.index(axis))),
                tuple(name for name in table.axes if name != axis),
                {name: values for name, values in table.labels.items() if name != axis},
                table.unit,
            )
        return table


def two_layers(model: Folded) -> Float[Tensor, "row head row"]:
    """Return layer 0's scores. Raises `InputError` for a model with one layer."""
    if model.scores is None:
        raise InputError("this measurement needs a model with two layers; this one has one")
    return model.scores


def _numpy(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()


def qk0_positions(model: Folded) -> Table:
    """Return W_pos W_Q0 W_K0^T W_pos^T / sqrt(d_head): [head, query position, key position]."""
    n = model.config.d_vocab
    scores = two_layers(model)[n:, :, n:].transpose(0, 1)
    places = tuple(map(str, range(scores.shape[1])))
    return Table(
        _numpy(scores),
        ("head", "query position", "key position"),
        {"query position": places, "key position": places},
        "score",
    )


def qk0(model: Folded, task: AssignAdd) -> Table:
    """Return layer 0's score between any two rows: [query row, head, key row], tokens first, then positions."""
    scores = two_layers(model)
    positions = tuple(f"pos {i}" for i in range(model.config.n_ctx))
    rows = (*task.vocab.symbols, *positions)
    return Table(
        _numpy(scores),
        ("query row", "head", "key row"),
        {"query row": rows, "key row": rows},
        "score",
    )


def qk1_variables(model: Folded, task: AssignAdd) -> Table:
    """Return the last layer's scores between variables that layer 0 moved, not divided by sqrt(d_head).

    Y = W_E[variables] W_V0 W_O0, M = Y W_Q1 W_K1^T Y^T: [moved by, head, query variable, key variable], where
    `moved by` is layer 0's head (the same for query and key).
    """
    two_layers(model)
    c, ids = model.config, torch.from_numpy(task.variable_ids)
    moved = model.rows[1:, ids]  # [moved by, variable, d_model]
    queries = torch.einsum("mvd,dhk->mhvk", moved, model.w_q)
    keys = model.keys[:, :, 1:, ids]  # [head d_head moved-by variable]
    scores = torch.einsum("mhvk,hkmw->mhvw", queries, keys) * c.d_head**0.5
    names = variable_names(task.n_vars)
    return Table(
        _numpy(scores),
        ("moved by", "head", "query variable", "key variable"),
        {"query variable": names, "key variable": names},
        "score times sqrt(d_head)",
    )


def ov1_values(model: Folded, task: AssignAdd) -> Float[Tensor, "vocab d_model"]:
    """Return W_E[numbers] W_V1 W_O1, summed over heads: what attending to each number writes, u."""
    return model.values[:, 0, : task.p].sum(0)


def logit_table(model: Folded, task: AssignAdd) -> Table:
    """Return W_out W_U: [neuron, answer], what a unit of each neuron adds to each logit."""
    return Table(
        _numpy(model.w_logit),
        ("neuron", "answer"),
        {"answer": tuple(map(str, range(task.p)))},
        "logit per unit of activation",
    )


def score_terms(
    model: Folded, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch head query_source key_source pos"]:
    """Split the last layer's scores of the read position by source of query and key, each in `SOURCES`.

    The terms of a key position add up to its score before the softmax, divided by sqrt(d_head); layer 0's heads
    are summed. Raises `InputError` for a model with one layer or with attention biases.
    """
    two_layers(model)
    if model.b_q is not None:
        raise InputError("score terms are defined for attention without biases")
    first = model(tokens).patterns[0]
    n, n_pos = model.config.d_vocab, first.shape[-1]
    tokens = tokens[:, :n_pos]
    # The row of each (image, source position): its token row plus its position row, mixed by layer 0.
    token_rows, pos_rows = model.rows[:, :n][:, tokens], model.rows[:, n : n + n_pos]
    at_read = first[:, :, model.read]
    moved = torch.einsum("bhs,hbsd->bd", at_read, token_rows[1:] + pos_rows[1:, None])
    parts = [token_rows[0, :, model.read], pos_rows[0, model.read].expand_as(moved), moved]
    query = torch.einsum("sbd,dhk->bhsk", torch.stack(parts), model.w_q)
    token_keys = model.keys[..., :n][..., tokens]  # head d_head image batch pos
    pos_keys = model.keys[..., n : n + n_pos]
    both = token_keys[:, :, 1:] + pos_keys[:, :, 1:, None]
    mixed = torch.einsum("bits,hkibs->hkbt", first, both)
    keys = [token_keys[:, :, 0], pos_keys[:, :, 0, None].expand_as(mixed), mixed]
    return torch.einsum("bhqk,chkbt->bhqct", query, torch.stack(keys))
