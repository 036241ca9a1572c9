"""Speed of the progress measures: all of them on shared folded runs, against one hooked run per measure.

Both ways take the same measures on the same prompts of one untrained model of the paper's size.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from mechint_arith.measures import attention, paths, readouts, structure
from mechint_arith.measures.subject import CHUNK, Prompts, Subject
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.hooked import HookedTransformer
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd

N = 500
MEASURES = (
    readouts.accuracy,
    readouts.cells,
    readouts.sides,
    structure.ov1_mlp1,
    structure.qk0_previous,
    structure.qk1_identity,
    attention.attn0_operands,
    attention.attn0_previous,
    attention.attn1_values,
    attention.attn1_direct,
    paths.edge_deletion,
)


def hooked_pools(model: HookedTransformer, prompts: Prompts, names: list[str]) -> None:
    """Run the hooked model with its cache over some prompt sets, as one measure by itself would."""
    for name in names:
        batch = prompts.pools.get(name) or getattr(prompts, name)
        for tokens in torch.from_numpy(batch.tokens).split(CHUNK):
            model.run_with_cache(tokens)


def hooked_ov1(model: HookedTransformer, p: int) -> float:
    """`ov1_mlp1` pair by pair row, from the raw weights."""
    w = dict(model.named_parameters())
    ov = w["blocks.1.attn.W_V"][0] @ w["blocks.1.attn.W_O"][0]
    u = w["embed.W_E"][:p] @ ov
    mlp = model.blocks[1].mlp
    right = 0
    for a in range(p):
        logits = (u[a] + u).matmul(mlp.W_in).relu() @ mlp.W_out @ model.unembed.W_U
        right += int((logits.argmax(-1) == (a + torch.arange(p)) % p).sum())
    return right / p**2


def seconds(work: Callable[[], object], repeats: int = 2) -> float:
    """Return the shortest of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def rows() -> list[tuple[str, float, str]]:
    """Return (name, ratio, goal) of each comparison."""
    task = AssignAdd()
    config = ModelConfig(len(task.vocab), task.p, task.length)
    checkpoint = Checkpoint(config, initial_weights(config, 0), task)
    prompts = Prompts(task, n=N, n_cell=20)
    model = HookedTransformer(config, checkpoint.weights, task=task)
    pools = list(prompts.pools)
    needed = [
        pools,
        ["cells"],
        ["1var_held"],
        *[["0var_seen", "1var_seen", "2var_seen"]] * 3,
        ["bare"],
        ["bare"] * 3,
    ]

    def ours() -> None:
        subject = Subject.of(checkpoint, prompts)
        for measure in MEASURES:
            measure(subject)

    def one_run_per_measure() -> None:
        with torch.no_grad():
            for names in needed:
                hooked_pools(model, prompts, names)
            hooked_ov1(model, task.p)
            subject = Subject.of(checkpoint, prompts)
            structure.qk0_previous(subject)
            structure.qk1_identity(subject)

    ours()
    ratio = seconds(one_run_per_measure) / seconds(ours)
    return [
        ("progress measures of a checkpoint, against one hooked run per measure", ratio, ">= 8")
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, ratio, goal in rows():
        print(f"{name}: {ratio:.1f} ({goal})")
