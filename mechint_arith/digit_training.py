"""How a model learns digit arithmetic: loss on all answer tokens, teacher forced, noise on its embeddings.

The loop is in `training`, the files are in `runs`; nothing here measures or writes.
Source: arXiv 2407.17963 for the task; noise, sink and position-only attention are additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from mechint_arith.answers import answer_logits
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import Weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.digits import DigitsTask, training_batch
from mechint_arith.training import Recipe


@dataclass(frozen=True)
class DigitsRecipe(Recipe):
    """A recipe with noise on the embeddings."""

    steps: int = 2000
    batch: int = 128
    lr: float = 2e-3
    weight_decay: float = 0.1
    cosine: bool = True
    embed_noise: float = 0.0
    """Standard deviation of the normal noise added to every token's embedding, in training only."""

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.batch < 1:
            yield f"batch must be at least 1, not {self.batch}"
        if self.embed_noise < 0:
            yield f"embed_noise cannot be negative: {self.embed_noise}"


class NoisyReader(nn.Module):
    """A model read at its answers, with noise on what it embeds."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.model = Transformer(config)

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        n_answers: int,
        noise: Float[Tensor, "batch read d_model"] | None,
    ) -> Float[Tensor, "batch answer vocab"]:
        """Return the answers' logits; `noise` goes on the embeddings of all tokens but the last."""
        if noise is None:
            return answer_logits(self.model, tokens, n_answers)
        read = tokens[:, :-1]
        residual = self.model.embed(read) + noise
        if self.model.config.positions == "absolute":
            residual = residual + self.model.pos_embed(read)
        return self.model(residual, last=n_answers)


class Lessons:
    """Training batches, and the forward pass that belongs to the batch drawn last.

    The noise depends on the generator that drew the batch only, so a stopped run goes on to the same bits.
    """

    def __init__(self, task: DigitsTask, config: ModelConfig, recipe: DigitsRecipe) -> None:
        self.task, self.recipe = task, recipe
        self.reader = NoisyReader(config)
        self.noise_seed = 0

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw a training batch and the seed of its noise. Raises `InputError` for n = 0."""
        batch = training_batch(self.task, n, rng)
        self.noise_seed = int(rng.integers(2**62))
        return batch

    def forward(
        self, weights: Weights, tokens: Int[Tensor, "batch pos"], n_answers: int
    ) -> Float[Tensor, "batch answer vocab"]:
        """Return the answers' logits under `weights`, as `training.train` calls for them."""
        named = {f"model.{name}": w for name, w in weights.items()}
        noise = self._noise(tokens) if self.recipe.embed_noise else None
        return functional_call(self.reader, named, (tokens, n_answers, noise))

    def _noise(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch read d_model"]:
        generator = torch.Generator().manual_seed(self.noise_seed)
        shape = tokens.shape[0], tokens.shape[1] - 1, self.reader.model.config.d_model
        return (self.recipe.embed_noise * torch.randn(shape, generator=generator)).to(tokens.device)
