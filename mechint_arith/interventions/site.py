"""Places in a model by name: a hook, a layer, a position, and perhaps a head, neurons or a subspace.

`Site` says where, in words; `locate` finds it in a model and a batch and refuses what cannot change the output,
before anything runs. What to put there is not said here.
Hooks carry TransformerLens' short names (`resid_pre`, `z`, `mlp_out`, …), positions those of `Batch.positions`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.stages import STAGES

Position = str | int
Positions = Position | tuple[Position, ...] | None

BY_HEAD = ("q", "k", "v", "z")
ENTRIES = ("attn_scores", "pattern")
NEURONS = ("pre", "post")


def hook_name(hook: str, layer: int) -> str:
    """Return TransformerLens' full name of a hook: `blocks.1.attn.hook_z`."""
    part = "attn." if hook in BY_HEAD + ENTRIES else "mlp." if hook in NEURONS else ""
    return f"blocks.{layer}.{part}hook_{hook}"


@dataclass(frozen=True)
class Site:
    """A named place in a model, such as `Site("z", 1, "equals", head=0)`. Raises `InputError` where its parts do not go together.

    Hooks: `resid_pre`, `q`, `k`, `v`, `attn_scores`, `pattern`, `z`, `attn_out`, `resid_mid`, `mlp_in`, `pre`,
    `post`, `mlp_out`, `resid_post`.
    Positions are indices, or the names in `batch.positions`. Assign-and-add: `plus`, `lhs`, `rhs`, `equals`,
    `variable of lhs`, `value of lhs`, `variable of rhs`, `value of rhs`; digits and modular tasks name their own.

        Site("resid_pre", 0, "value of lhs")
        Site("pattern", 1, "equals", key=("value of lhs", "value of rhs"))
        Site("post", 1, "equals", neurons=(3, 17))
    """

    hook: str
    """One of `resid_pre`, `q`, `k`, `v`, `attn_scores`, `pattern`, `z`, `attn_out`, `resid_mid`, `mlp_in`,
    `pre`, `post`, `mlp_out`, `resid_post`."""
    layer: int
    """Block, from 0."""
    position: Positions = None
    """Name of a position, its index, or several of them; None: every position. For `pattern` and `attn_scores`
    it is the query's."""
    _: KW_ONLY
    head: int | None = None
    """One head of `q`, `k`, `v`, `z`, `pattern` or `attn_scores`; None: all heads."""
    key: Positions = None
    """Positions attended to, of `pattern` and `attn_scores`; None: the whole row."""
    neurons: tuple[int, ...] | None = None
    """Some neurons of `pre` or `post`; None: all."""
    subspace: Tensor | None = field(default=None, compare=False, repr=False)
    """Orthonormal columns [width rank]: only these directions of the activation are meant."""

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InputError(f"site {self}: " + "; ".join(problems))

    def _problems(self) -> list[str]:
        found = []
        if self.hook not in STAGES:
            found.append(f"no hook {self.hook!r}: expected one of {', '.join(STAGES)}")
        if self.head is not None and self.hook not in BY_HEAD + ENTRIES:
            found.append(f"{self.hook} has no heads; {', '.join(BY_HEAD + ENTRIES)} do")
        if self.key is not None and self.hook not in ENTRIES:
            found.append(f"{self.hook} has no key positions; {' and '.join(ENTRIES)} do")
        if self.neurons is not None and self.hook not in NEURONS:
            found.append(f"{self.hook} has no neurons; {' and '.join(NEURONS)} do")
        if self.neurons is not None and not len(set(self.neurons)) == len(self.neurons) > 0:
            found.append("name at least one neuron, and each once")
        if self.subspace is not None:
            found += self._subspace_problems(self.subspace)
        return found

    def _subspace_problems(self, basis: Tensor) -> list[str]:
        if self.hook in ENTRIES or self.neurons is not None:
            return ["a subspace is of a whole activation vector, not of entries or chosen neurons"]
        if basis.ndim != 2 or not 0 < basis.shape[1] <= basis.shape[0]:
            return [f"a subspace is a basis [width rank], not {list(basis.shape)}"]
        gram = basis.double().mT @ basis.double()
        if not torch.allclose(gram, torch.eye(len(gram), dtype=torch.float64), atol=1e-4):
            return ["the columns of a subspace's basis must be orthonormal; see torch.linalg.qr"]
        return []

    @property
    def hook_name(self) -> str:
        """TransformerLens' full name of the hook."""
        return hook_name(self.hook, self.layer)

    def __str__(self) -> str:
        words = [f"{self.hook} {self.layer}"]
        if self.head is not None:
            words.append(f"head {self.head}")
        if self.neurons is not None:
            few = ", ".join(map(str, self.neurons[:4]))
            words.append(f"neurons {few}" + (", …" if len(self.neurons) > 4 else ""))
        if self.subspace is not None:
            words.append(f"subspace of rank {self.subspace.shape[-1]}")
        if self.position is not None:
            words.append("at " + ", ".join(map(str, listed(self.position))))
        if self.key is not None:
            words.append("to " + ", ".join(map(str, listed(self.key))))
        return " ".join(words)


def width_of(site: Site, config: ModelConfig) -> int:
    """Return the length of the vectors at a site."""
    if site.hook in BY_HEAD:
        return config.d_head
    if site.hook in NEURONS:
        return config.d_mlp[site.layer] if site.neurons is None else len(site.neurons)
    return config.n_ctx if site.hook in ENTRIES else config.d_model


def listed(positions: Positions) -> tuple[Position, ...]:
    if positions is None:
        return ()
    return positions if isinstance(positions, tuple) else (positions,)
