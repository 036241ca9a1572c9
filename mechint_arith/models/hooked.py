"""The hooked model: the plain forward pass on TransformerLens' `HookedRootModule`, with its hook names.

Works with TransformerLens' `ActivationCache`, `patching` and analysis tools. Unlike plain TransformerLens it
raises where a hook would silently do nothing or a cache stay empty: a name or filter that matches no hook point,
or none that an activation passes; a hook that returns another shape. Importing this module imports TransformerLens
(seconds), so nothing imports it early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformer_lens import ActivationCache, HookedRootModule
from transformer_lens.config import TransformerLensConfig
from transformer_lens.hook_points import HookPoint, LensHandle

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import Task

HookFn = Callable[..., Tensor | None]
Hook = tuple[str | Callable[[str], bool], HookFn]
Names = str | Sequence[str] | Callable[[str], bool]
FORKS = ("hook_q_input", "hook_k_input", "hook_v_input")


def lens_config(config: ModelConfig, *, device: str = "cpu") -> TransformerLensConfig:
    """Return TransformerLens' description of a model (its `d_mlp` is the widest layer's)."""
    lens = TransformerLensConfig(
        d_model=config.d_model,
        d_head=config.d_head,
        n_layers=config.n_layers,
        n_ctx=config.n_ctx,
        n_heads=config.n_heads,
        d_mlp=max(config.d_mlp),
        d_vocab=config.d_vocab,
        device=device,
        act_fn=config.act_fn,
        attn_only=config.last_mlp < 0,
        normalization_type=None if config.norm == "none" else "RMSPre",
        default_prepend_bos=False,
        positional_embedding_type="standard"
        if config.positions == "absolute"
        else config.positions,
    )
    lens.d_vocab_out = config.d_vocab_out  # type: ignore[attr-defined]
    return lens


def _checked(value: Tensor, hook: HookPoint, *, user: HookFn) -> Tensor | None:
    """Run a user's hook and refuse a result of another shape."""
    result = user(value, hook=hook)
    if isinstance(result, Tensor) and result.shape != value.shape:
        raise InputError(
            f"the hook at {hook.name} returned shape {list(result.shape)} for {list(value.shape)};"
            " a hook must keep the shape"
        )
    return result


class CheckedPoint(HookPoint):
    """A hook point whose forward hooks keep the activation's shape."""

    def add_hook(self, hook: Any, dir: Any = "fwd", *args: Any, **kwargs: Any) -> LensHandle:
        """Add a hook; a forward one is checked whenever it runs."""
        checked = partial(_checked, user=hook) if dir == "fwd" else hook
        handle = super().add_hook(checked, dir, *args, **kwargs)
        handle.user_hook = hook
        return handle


class HookedTransformer(Transformer, HookedRootModule):
    """A small transformer with a hook point at every activation.

    `cfg` is TransformerLens' view of it, `config` ours; `task` says what its tokens mean, where known.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Tensor] | None = None,
        *,
        task: Task | None = None,
    ) -> None:
        super().__init__(config, weights, hook=CheckedPoint)
        self.cfg = lens_config(config)
        self.task = task
        self.checkpoint: Checkpoint | None = None
        """Where the weights came from, if from a file."""
        self.setup()

    def to(self, *args: Any, **kwargs: Any) -> HookedTransformer:
        """Move or cast, keeping `cfg.device` right."""
        moved = super().to(*args, **kwargs)
        if hasattr(self, "cfg"):
            self.cfg.device = str(next(self.parameters()).device)
        return moved

    def forward(self, tokens: Tensor, **options: Any) -> Tensor:
        """Return what `Transformer.forward` does. Raises `InputError` for token ids or lengths it does not have."""
        if not tokens.is_floating_point():
            self._require_tokens(tokens)
        return super().forward(tokens, **options)

    def _require_tokens(self, tokens: Tensor) -> None:
        c = self.config
        if tokens.ndim != 2 or tokens.shape[1] > c.n_ctx:
            raise InputError(
                f"tokens should be [batch pos] with at most {c.n_ctx} positions; got {list(tokens.shape)}"
            )
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < c.d_vocab:
            raise InputError(
                f"token ids go from 0 to {c.d_vocab - 1}; got {int(tokens.min())} to {int(tokens.max())}"
            )

    @contextmanager
    def hooks(
        self,
        fwd_hooks: Sequence[Hook] = (),
        bwd_hooks: Sequence[Hook] = (),
        reset_hooks_end: bool = True,
        clear_contexts: bool = False,
    ) -> Iterator[HookedTransformer]:
        """Add hooks for the length of a `with` block. Raises `InputError` where one would never be called."""
        for name, _ in (*fwd_hooks, *bwd_hooks):
            self._require_match(name)
        with super().hooks(list(fwd_hooks), list(bwd_hooks), reset_hooks_end, clear_contexts):
            yield self

    def add_hook(self, name: str | Callable[[str], bool], *args: Any, **kwargs: Any) -> None:
        """Add a hook that stays until `reset_hooks`. Raises `InputError` where it would never be called."""
        self._require_match(name)
        super().add_hook(name, *args, **kwargs)

    def get_caching_hooks(
        self, names_filter: Names | None = None, *args: Any, **kwargs: Any
    ) -> tuple[dict, list, list]:
        """Return a cache and the hooks that fill it, at those points that an activation passes.

        names_filter: a name, several names, a function of a name, or None for all. Raises `InputError` for a name
        that would cache nothing, or a function that would.
        """
        if names_filter is not None and not callable(names_filter):
            names = [names_filter] if isinstance(names_filter, str) else list(names_filter)
            for name in names:
                self._require_match(name)
            names_filter = names.__contains__
        if names_filter is not None:
            self._require_match(names_filter)
        cache, *hooks = super().get_caching_hooks(names_filter, *args, **kwargs)
        forward, backward = (
            [(name, fn) for name, fn in some if self._why_idle(name) is None] for some in hooks
        )
        return cache, forward, backward

    def _require_match(self, name: str | Callable[[str], bool]) -> None:
        if isinstance(name, str):
            if name not in self.hook_dict:
                raise InputError(f"no hook point {name!r}: see model.hook_dict for the names")
            matched = [name]
        else:
            matched = [point for point in self.hook_dict if name(point)]
        if not matched:
            raise InputError(
                "the hook filter matches no hook point: see model.hook_dict for the names"
            )
        reasons = [self._why_idle(point) for point in matched]
        if all(reasons):
            raise InputError(f"nothing passes the hook point {matched[0]}: {reasons[0]}")

    def _why_idle(self, name: str) -> str | None:
        """Return why no activation passes a hook point as the model is set, or None if one does."""
        _, _, place = name.partition("blocks.")
        layer, _, point = place.partition(".")
        block = self.layers[int(layer)] if layer else None
        if block is None:
            return None
        if point == "attn.hook_result" and not block.attn.with_result:
            return "call model.set_use_attn_result(True) first"
        if point in FORKS and not block.split_inputs:
            return "call model.set_use_split_qkv_input(True) first"
        if point == "hook_mlp_in" and block.mlp is None:
            return f"layer {layer} has no MLP"
        return None

    def run_with_cache(
        self,
        *args: Any,
        return_cache_object: bool = True,
        remove_batch_dim: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ActivationCache | dict[str, Tensor]]:
        """Run the model; return its output and the activations as an `ActivationCache` (or a plain dict).

        Options are TransformerLens', such as names_filter. Raises `InputError` where one would cache nothing.
        """
        output, found = super().run_with_cache(*args, remove_batch_dim=remove_batch_dim, **kwargs)
        if not return_cache_object:
            return output, found
        return output, ActivationCache(found, self, has_batch_dim=not remove_batch_dim)

    def set_use_attn_result(self, on: bool) -> None:
        """Whether each head's own output is computed at `hook_result`."""
        self.cfg.use_attn_result = on
        for block in self.layers:
            block.attn.with_result = on

    def set_use_split_qkv_input(self, on: bool) -> None:
        """Whether queries, keys and values read separate copies of the residual (`hook_q_input`, …)."""
        self.cfg.use_split_qkv_input = on
        for block in self.layers:
            block.split_inputs = on

    def to_tokens(self, prompts: str | Sequence[str]) -> Tensor:
        """Read prompts into token ids [batch pos]; needs a model whose task is known."""
        from mechint_arith.tasks.assign_add import AssignAdd
        from mechint_arith.tasks.prompts import from_text

        if not isinstance(self.task, AssignAdd):
            raise InputError(
                "to_tokens reads assign-and-add prompts; give token ids for this model"
            )
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        return torch.from_numpy(from_text(self.task, texts).tokens)

    def tokens_to_residual_directions(self, tokens: Tensor) -> Tensor:
        """Return the columns of W_U that belong to answers, [... d_model]."""
        return self.unembed.W_U.T[tokens]

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Tensor:
        """Sum of the output biases up to a layer's input (or its MLP's input), [d_model]."""
        total = self.embed.W_E.new_zeros(self.config.d_model)
        for i in range(layer + mlp_input):
            block = self.layers[i]
            if self.config.attn_bias:
                total = total + block.attn.b_O
            if self.config.mlp_bias and include_mlp_biases and block.mlp is not None and i < layer:
                total = total + block.mlp.b_out
        return total

    @property
    def W_U(self) -> Tensor:
        """Unembedding, [d_model vocab]."""
        return self.unembed.W_U

    @property
    def W_E(self) -> Tensor:
        """Embedding, [vocab d_model]."""
        return self.embed.W_E

    def to_bridge(self) -> Any:
        """Return the same function as TransformerLens' own native `TransformerBridge`.

        Its unembedding is as wide as its input vocabulary: answers are its first `d_vocab_out` logits, the
        rest are zero. Raises `InputError` for what that model cannot express (relative positions, attention
        mix, a sink, an embedding norm).
        """
        from mechint_arith.models.bridge import to_bridge

        return to_bridge(self.config, self.state_dict())
