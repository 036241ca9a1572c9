"""One way to run any model for reading at one position: the folded form where there is one, the plain pass elsewhere.

Both give the same `Run`. Sweeps and hooks belong in `interventions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import Folded, Run, activate, fold, why_not_foldable
from mechint_arith.models.transformer import MLP, Transformer


@runtime_checkable
class Reader(Protocol):
    """A model that is read at one position and whose last MLP writes straight into the logits."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def w_logit(self) -> Tensor: ...
    @property
    def w_u(self) -> Tensor: ...

    def __call__(self, tokens: Tensor) -> Run: ...
    def after_mid(self, resid_mid: Tensor) -> tuple[Tensor, Tensor]: ...
    def logits_from(self, resid_mid: Tensor, post: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Plain:
    """Any model without a norm before its unembedding, by the plain forward pass. Same interface as `Folded`."""

    network: Transformer
    read: int

    def __post_init__(self) -> None:
        if self.config.norm != "none" or not self.config.d_mlp[-1]:
            raise InputError(
                "the last MLP's neurons have exact effects only without a norm, in a model whose last"
                " layer has an MLP"
            )

    @property
    def config(self) -> ModelConfig:
        return self.network.config

    @property
    def w_u(self) -> Tensor:
        return self.network.unembed.W_U

    @property
    def w_logit(self) -> Tensor:
        return self._mlp.W_out @ self.w_u

    @property
    def _mlp(self) -> MLP:
        mlp = self.network.layers[-1].mlp
        assert mlp is not None
        return mlp

    def __call__(self, tokens: Tensor) -> Run:
        """Run the model; patterns are [batch head pos pos] but for the last layer's [batch head pos]."""
        seen: dict[str, Tensor] = {}
        blocks = self.network.layers
        places: dict[str, nn.Module] = {
            "pre": blocks[-1].hook_resid_pre,
            "mid": blocks[-1].hook_resid_mid,
        }
        places |= {f"pattern {i}": block.attn.hook_pattern for i, block in enumerate(blocks)}

        def keep(name: str, module: nn.Module) -> torch.utils.hooks.RemovableHandle:
            return module.register_forward_hook(
                lambda _module, _inputs, output: seen.__setitem__(name, output)
            )

        handles = [keep(name, module) for name, module in places.items()]
        try:
            self.network(tokens)
        finally:
            for handle in handles:
                handle.remove()
        mid = seen["mid"][:, self.read]
        post, logits = self.after_mid(mid)
        patterns = [seen[f"pattern {i}"] for i in range(len(blocks))]
        patterns[-1] = patterns[-1][:, :, self.read]
        return Run(logits, seen["pre"][:, self.read], mid, post, tuple(patterns))

    def after_mid(self, resid_mid: Tensor) -> tuple[Tensor, Tensor]:
        """Return the neurons and the logits that follow from the last MLP's input."""
        mlp = self._mlp
        pre = resid_mid @ mlp.W_in + mlp.b_in if mlp.bias else resid_mid @ mlp.W_in
        post = activate(self.config, pre)
        return post, self.logits_from(resid_mid, post)

    def logits_from(self, resid_mid: Tensor, post: Tensor) -> Tensor:
        """Return the logits of a residual stream and of (possibly changed) neurons."""
        mlp = self._mlp
        out = post @ mlp.W_out + mlp.b_out if mlp.bias else post @ mlp.W_out
        return self.network.unembed(resid_mid + out)


def reader(config: ModelConfig, weights: Mapping[str, Tensor], *, read: int) -> Folded | Plain:
    """Return the fastest exact way to run a model for reading at position `read`."""
    if why_not_foldable(config) is None:
        return fold(config, weights, read=read)
    return Plain(Transformer(config, weights).eval().requires_grad_(False), read)
