"""One prompt, looked at from all sides: top answers, attention at `=`, what each part adds to the margin.

A value for terminal and figure; nothing is printed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from mechint_arith.errors import InputError, naming
from mechint_arith.metrics import finite
from mechint_arith.models.staged import Staged
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import Task, vocab
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.modular import OPERATIONS, ModularTask

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from mechint_arith.models.checkpoint import Checkpoint


@dataclass(frozen=True, repr=False)
class Answer:
    """What a model makes of one prompt."""

    tokens: tuple[str, ...]
    """The whole sequence, PADs included."""
    right: int
    """The right answer."""
    top: tuple[tuple[int, float, float], ...]
    """(answer, probability, logit), the most probable first."""
    attention: Mapping[str, np.ndarray]
    """`layer 0 head 0` … -> float [pos]: attention from the read position."""
    parts: tuple[tuple[str, float], ...]
    """(part, what it adds to the right answer's mean margin, in logits); they sum to the margin."""

    @property
    def answer(self) -> int:
        """The model's answer."""
        return self.top[0][0]

    def __repr__(self) -> str:
        """Return the prompt and the most probable answers in one line."""
        prompt = " ".join(token for token in self.tokens if token != vocab.PAD)
        top = ", ".join(f"{answer} ({share:.3f})" for answer, share, _ in self.top[:3])
        return f"Answer({prompt} {top}; right is {self.right}; mean margin {self.margin:.2f})"

    @property
    def is_right(self) -> bool:
        """Whether it is the right one."""
        return self.answer == self.right

    @property
    def margin(self) -> float:
        """Mean margin, in logits: the right answer's logit minus the mean of all others."""
        return sum(value for _, value in self.parts)

    def figure(self) -> go.Figure:
        """Return attention at the read position (one row per head) over the tokens."""
        from mechint_arith.figures.heatmap import heat_map

        return heat_map(
            np.stack(list(self.attention.values())),
            rows=list(self.attention),
            columns=list(self.tokens),
            row_name="head",
            column_name="token",
            unit="attention from the last position",
            title=f"{' '.join(t for t in self.tokens if t != 'PAD')} {self.answer}",
            low=0,
            high=1,
        )


def read_prompt(task: Task, prompt: str) -> Batch:
    """Read one prompt of a task: `a 7 b 12 + a b =`, `a=7, b=12, a+b=?`, `7 + 12 =` or `7 12`.

    Raises `InputError` that says what the prompt should look like.
    """
    if isinstance(task, AssignAdd):
        from mechint_arith.tasks.prompts import from_text

        return from_text(task, [prompt])
    if isinstance(task, ModularTask):
        return _modular(task, prompt)
    raise InputError("ask reads assign-and-add and modular models; see `mechint-arith length`")


def _modular(task: ModularTask, prompt: str) -> Batch:
    sign, last = OPERATIONS[task.op], task.p - 1
    form = f"prompt {prompt!r:.200}: expected two numbers from 0 to {last}, such as '3 {sign} 4 =' or '3 4 ='"
    words = re.sub(r"([-+*/=?])", r" \1 ", prompt).split()
    if words[-1:] == ["?"]:
        del words[-1]
    if words[-1:] == [vocab.EQUALS]:
        del words[-1]
    if words[1:2] == [sign]:
        del words[1]
    numbers = [task.vocab.ids.get(word, task.p) for word in words]
    if len(numbers) != 2 or max(numbers) >= task.p:
        raise InputError(form)
    a, b = numbers
    if not task.valid[a * task.p + b]:
        raise InputError(f"{form}; {a} {task.op} {b} has no answer modulo {task.p}")
    return task.batch(np.array([a * task.p + b]))


def ask_forms(checkpoint: Checkpoint, prompt: str, *, top: int = 5) -> dict[str, Answer]:
    """Ask the four forms of one question, such as `7 12`: route -> answer. Raises `InputError` as `ask` does."""
    from mechint_arith.tasks.prompts import forms_of

    if not isinstance(checkpoint.task, AssignAdd):
        raise InputError("only an assign-and-add model knows four forms of a question")
    forms = forms_of(checkpoint.task, prompt)
    return {route: ask(checkpoint, form, top=top) for route, form in forms.items()}


def ask(checkpoint: Checkpoint, prompt: str, *, top: int = 5) -> Answer:
    """Run one prompt.

    Raises `InputError` for a prompt that the model's task cannot read, or logits that are not finite.
    """
    from mechint_arith.circuits.attribution import direct_attribution

    if top < 1:
        raise InputError(f"at least one answer is shown: top must be 1 or more, not {top}")
    batch = read_prompt(checkpoint.task, prompt)
    with torch.no_grad():
        network = Transformer(checkpoint.config, checkpoint.weights).eval()
        staged = Staged(network, (batch.read,))
        run = staged.record(torch.from_numpy(batch.tokens))
        attribution = direct_attribution(network, batch)
    logits, parts = run.logits[0, 0], attribution.values[:, 0]
    with naming(checkpoint.file) if checkpoint.file else nullcontext():
        finite(torch.cat([logits, torch.from_numpy(parts).to(logits)]))
    probability = logits.softmax(-1)
    best = logits.topk(min(top, len(logits))).indices.tolist()
    attention = {}
    for layer in range(checkpoint.config.n_layers):
        place = (layer, "pattern")
        query = batch.read if staged.columns(place) is None else 0
        for head, row in enumerate(run.values[place][0, :, query].numpy()):
            attention[f"layer {layer} head {head}"] = row
    return Answer(
        tuple(checkpoint.task.vocab.decode(batch.tokens[0].tolist())),
        int(batch.labels[0]),
        tuple((a, float(probability[a]), float(logits[a])) for a in best),
        attention,
        tuple(zip(attribution.names, parts.tolist(), strict=True)),
    )
