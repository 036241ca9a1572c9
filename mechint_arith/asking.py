"""One prompt, looked at from all sides: top answers, attention at `=`, what each part adds to the margin.

A value for terminal and figure; nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.reader import reader
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import Task
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.modular import ModularTask

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from mechint_arith.models.checkpoint import Checkpoint


@dataclass(frozen=True)
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

    @property
    def is_right(self) -> bool:
        """Whether it is the right one."""
        return self.answer == self.right

    @property
    def margin(self) -> float:
        """Mean margin of the right answer, in logits."""
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
    """Read one prompt of a task: `a 7 b 12 + a b =` or, for modular tasks, `7 12 =`.

    Raises `InputError` that says what the prompt should look like.
    """
    if isinstance(task, AssignAdd):
        from mechint_arith.tasks.prompts import from_text

        return from_text(task, [prompt])
    if isinstance(task, ModularTask):
        return _modular(task, prompt)
    raise InputError("ask reads assign-and-add and modular models; see `mechint-arith length`")


def _modular(task: ModularTask, prompt: str) -> Batch:
    words = [word for word in prompt.split() if word not in ("=", "+", "-", "*", "/")]
    form = f"prompt {prompt!r}: expected two numbers from 0 to {task.p - 1}, such as '3 4 ='"
    if len(words) != 2 or not all(word.isdecimal() and int(word) < task.p for word in words):
        raise InputError(form)
    pair = int(words[0]) * task.p + int(words[1])
    if not task.valid[pair]:
        raise InputError(f"{form}; {words[0]} {task.op} {words[1]} has no answer modulo {task.p}")
    return task.batch(np.array([pair]))


def ask(checkpoint: Checkpoint, prompt: str, *, top: int = 5) -> Answer:
    """Run one prompt. Raises `InputError` for a prompt that the model's task cannot read."""
    from mechint_arith.circuits.attribution import direct_attribution

    if top < 1:
        raise InputError(f"at least one answer is shown: top must be 1 or more, not {top}")
    batch = read_prompt(checkpoint.task, prompt)
    tokens = torch.from_numpy(batch.tokens)
    with torch.no_grad():
        run = reader(checkpoint.config, checkpoint.weights, read=batch.read)(tokens)
        network = Transformer(checkpoint.config, checkpoint.weights).eval()
        attribution = direct_attribution(network, batch)
        probability = run.logits[0].softmax(-1)
        best = run.logits[0].topk(min(top, len(probability))).indices.tolist()
    attention = {}
    for layer, pattern in enumerate(run.patterns):
        at_read = pattern[0] if pattern.ndim == 3 else pattern[0, :, batch.read]
        for head, row in enumerate(at_read.numpy()):
            attention[f"layer {layer} head {head}"] = row
    return Answer(
        tuple(checkpoint.task.vocab.decode(batch.tokens[0].tolist())),
        int(batch.labels[0]),
        tuple((a, float(probability[a]), float(run.logits[0, a])) for a in best),
        attention,
        tuple(zip(attribution.names, attribution.values[:, 0].tolist(), strict=True)),
    )
