"""A model run stage by stage, and rerun from any stage on: what interventions are computed with.

Change some stages of a recorded run and only what depends on them is computed again, for any number of changed
copies at once. The last layer is computed at the read positions alone, and causal models never look beyond the
last of them. What to change, and what the change means, is said in `interventions`.

[row] counts changed copies, [read] the positions whose logits are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mechint_arith.models.config import ModelConfig
from mechint_arith.models.stages import KEY_SIDE, QKV, StagedBlock, stages_of
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch

Place = tuple[int, str]
"""Layer and stage."""
Edit = Callable[[Tensor], Tensor]
"""A stage's value for some rows -> what it shall be; may change its argument."""


@dataclass(frozen=True)
class Record:
    """One run, kept stage by stage."""

    values: Mapping[Place, Tensor]
    """Value of each stage that was kept."""
    logits: Float[Tensor, "batch read vocab"]


@dataclass(frozen=True)
class Staged:
    """A model, ready to be run and rerun stage by stage."""

    model: Transformer
    reads: tuple[int, ...]
    """Positions whose logits are wanted, ascending."""

    @property
    def config(self) -> ModelConfig:
        return self.model.config

    @cached_property
    def blocks(self) -> tuple[StagedBlock, ...]:
        """One per layer; rotary queries are rotated by their place, so there the last layer stays whole."""
        last = self.config.n_layers - 1
        device = self.model.unembed.W_U.device
        rotary = self.config.positions == "rotary"
        some = None if rotary else torch.tensor(self.reads, device=device)
        return tuple(
            StagedBlock(self.config, block, some if i == last else None)  # type: ignore[arg-type]
            for i, block in enumerate(self.model.blocks)
        )

    def columns(self, place: Place) -> Int[Tensor, " column"] | None:
        """Return which positions a stage has along its position (or query) axis; None: all, in order."""
        layer, stage = place
        return None if stage in KEY_SIDE else self.blocks[layer].queries

    def record(
        self, tokens: Int[Tensor, "batch pos"], keep: Collection[Place] | None = None
    ) -> Record:
        """Run the model on token ids and keep some stages (all by default).

        Under grad mode the logits can be differentiated by every stage kept.
        """
        if self.config.causal:
            tokens = tokens[:, : self.reads[-1] + 1]
        x = self.model(tokens, stop_at_layer=0)
        if torch.is_grad_enabled():
            x = x.detach().requires_grad_()
        kept: dict[Place, Tensor] = {}
        for layer, block in enumerate(self.blocks):
            values = {"resid_pre": x}
            for stage in stages_of(self.config, layer)[1:]:
                if stage == "attn_scores" and not self.config.attn_content:
                    values[stage] = self._content_free(layer, x)
                else:
                    inputs = [values[name] for name in block.reads(stage)]
                    values[stage] = block.compute(stage, *inputs)
            x = values["resid_post"]
            kept |= {
                (layer, stage): value
                for stage, value in values.items()
                if keep is None or (layer, stage) in keep
            }
        return Record(kept, self._logits(x))

    def rerun(
        self,
        record: Record,
        rows: Int[Tensor, " row"],
        edits: Mapping[Place, Edit],
        *,
        moved: Int[Tensor, "row n"] | None = None,
    ) -> Float[Tensor, "row read vocab"]:
        """Return the logits of recorded examples `rows` with some stages edited.

        An edit sees the stage as the edits below it left it, and everything above follows from what it returns.
        moved: where the lowest edit moves a residual stream, if it is one and these positions are all: only
        there are queries, keys and values of that layer computed again.
        """
        x: Tensor | None = None
        for layer in range(min(layer for layer, _ in edits), self.config.n_layers):
            mine = {stage: edit for (at, stage), edit in edits.items() if at == layer}
            x = self._through(layer, record, rows, x, mine, moved)
            moved = None
        assert x is not None
        return self._logits(x)

    def _through(
        self,
        layer: int,
        record: Record,
        rows: Int[Tensor, " row"],
        x: Tensor | None,
        edits: Mapping[str, Edit],
        moved_at: Int[Tensor, "row n"] | None,
    ) -> Tensor:
        """Return the residual stream after one layer; x: before it, None where it is as recorded."""
        block = self.blocks[layer]
        moved = x is not None or "resid_pre" in edits
        straight = moved and block.queries is not None and not edits.keys() & {"k", "v"}
        changed: dict[str, Tensor] = {} if x is None else {"resid_pre": x}

        def value(stage: str) -> Tensor:
            return changed[stage] if stage in changed else record.values[layer, stage][rows]

        for stage in stages_of(self.config, layer):
            inputs = block.reads(stage, straight=straight)
            if stage in QKV and inputs and moved_at is not None and block.queries is None:
                some = (torch.arange(len(rows), device=rows.device)[:, None], moved_at)
                changed[stage] = value(stage)
                changed[stage][some] = block.compute(stage, value("resid_pre")[some])
            elif any(name in changed for name in inputs):
                changed[stage] = block.compute(stage, *map(value, inputs))
            if stage in edits:
                changed[stage] = edits[stage](value(stage))
        return value("resid_post")

    def _content_free(self, layer: int, x: Tensor) -> Tensor:
        """Return scores that come from positions alone, [row head query key]."""
        block = self.blocks[layer]
        n_query = x.shape[1] if block.queries is None else len(block.queries)
        return block.placed(x.new_zeros(len(x), self.config.n_heads, n_query, x.shape[1]))

    def _logits(self, x: Float[Tensor, "row query d_model"]) -> Float[Tensor, "row read vocab"]:
        if self.blocks[-1].queries is None:
            x = x[:, list(self.reads)]
        return self.model.unembed(self.model.read(x))


def reads_of(batch: Batch) -> tuple[int, ...]:
    """Return the positions at which a batch's answer tokens are read."""
    n_answers = batch.labels.shape[1] if batch.labels.ndim == 2 else 1
    return tuple(range(batch.read, batch.read + n_answers))
