"""`make bench`: speed as ratios measured in one run on one machine. Nothing here is a test.

Each row: what is compared, the ratio (or figure), and the goal. Medians over repeats; one CPU thread unless said.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

Row = tuple[str, float, str]
ROOT = Path(__file__).parents[1]
ROOMS = ("tests.bench_interventions", "tests.bench_dynamics")
CHECKPOINTS = sorted(ROOT.glob("checkpoints/assign_add_p59/step_*.safetensors"))


def seconds(work: Callable[[], object], *, repeats: int = 7) -> float:
    """Median wall time of a call after one warm-up, in seconds."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def training_step() -> Row:
    """Folded against plain hooked training step: forward, backward, AdamW; batch 512, the paper's model."""
    from mechint_arith.models.config import ModelConfig
    from mechint_arith.models.hooked import HookedTransformer
    from mechint_arith.models.init import initial_weights
    from mechint_arith.tasks.assign_add import AssignAdd
    from mechint_arith.tasks.pools import Mixture
    from mechint_arith.training import Recipe, folded_forward, start

    task = AssignAdd()
    config = ModelConfig(len(task.vocab), task.d_vocab_out, task.length)
    batch = Mixture(task).sample(512, np.random.default_rng(0))
    tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
    state = start(initial_weights(config, 0), Recipe())
    forward = folded_forward(config, batch.read)
    model = HookedTransformer(config, initial_weights(config, 0))
    plain = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02, fused=True)

    def folded_step() -> None:
        state.optimizer.zero_grad()
        F.cross_entropy(forward(state.weights, tokens, 1), labels).backward()
        state.optimizer.step()

    def plain_step() -> None:
        plain.zero_grad()
        F.cross_entropy(model(tokens)[:, batch.read], labels).backward()
        plain.step()

    fast, slow = seconds(folded_step, repeats=15), seconds(plain_step)
    name = f"training step: hooked {1e3 * slow:.0f} ms / folded {1e3 * fast:.0f} ms"
    return name, slow / fast, "goal 15x, floor 12x"


def sequences() -> Row:
    """Training sequences built per second on one core, in batches of 10,000."""
    from mechint_arith.tasks.assign_add import AssignAdd
    from mechint_arith.tasks.pools import Mixture

    mixture, rng = Mixture(AssignAdd()), np.random.default_rng(0)
    return (
        "sequences built per second",
        10_000 / seconds(lambda: mixture.sample(10_000, rng)),
        "goal 500,000",
    )


def all_neurons() -> Row:
    """Exact zero ablation of all 512 neurons on 256 prompts against one hooked run per neuron."""
    from mechint_arith.models.config import ModelConfig
    from mechint_arith.models.folded import fold
    from mechint_arith.models.hooked import HookedTransformer
    from mechint_arith.models.init import initial_weights
    from mechint_arith.tasks.assign_add import AssignAdd
    from mechint_arith.tasks.pools import Mixture

    task = AssignAdd()
    config = ModelConfig(len(task.vocab), task.d_vocab_out, task.length)
    weights = initial_weights(config, 0)
    batch = Mixture(task).sample(256, np.random.default_rng(0))
    tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
    model, folded = HookedTransformer(config, weights), fold(config, weights)
    p = task.p

    @torch.no_grad()
    def closed() -> torch.Tensor:
        w = p / (p - 1) * (folded.w_logit - folded.w_logit.mean(1, keepdim=True))
        return (folded(tokens).post * w.T[labels]).mean(0)

    @torch.no_grad()
    def one(neuron: int) -> None:
        def zero(post: torch.Tensor, hook: object) -> torch.Tensor:
            post = post.clone()
            post[..., neuron] = 0
            return post

        model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.mlp.hook_post", zero)])

    # A loop over 512 hooked runs takes minutes: 8 are timed and scaled up.
    slow = seconds(lambda: [one(i) for i in range(8)], repeats=3) * 512 / 8
    return (
        "all neurons ablated: loop of hooked runs / closed form",
        slow / seconds(closed),
        "goal 100x",
    )


def whole_commands() -> list[Row]:
    """Wall time of whole commands, imports included, in seconds (median of 3)."""
    command = [sys.executable, "-m", "mechint_arith"]

    def run(*args: str) -> Callable[[], object]:
        return lambda: subprocess.run([*command, *args], check=True, capture_output=True)

    rows = [("--help, seconds", seconds(run("--help"), repeats=5), "goal < 0.5")]
    if CHECKPOINTS:
        probe = run("probe", "--ckpt", str(CHECKPOINTS[-1]), "--out", str(ROOT / "out" / "bench"))
        rows.append(("probe with report, seconds", seconds(probe, repeats=3), "goal <= 20"))
    return rows


def main() -> None:
    """Measure everything and print a table."""
    from rich.console import Console
    from rich.table import Table

    torch.set_num_threads(1)
    table = Table("measured", "ratio or figure", "goal", title=f"{torch.__version__}, one thread")
    with Console(stderr=True).status("measuring"):
        rows = [training_step(), sequences(), all_neurons()]
        for room in ROOMS:
            rows += import_module(room).rows()
        rows += whole_commands()
    for name, value, goal in rows:
        table.add_row(name, f"{value:,.0f}" if value >= 1000 else f"{value:.2f}", goal)
    Console().print(table)


if __name__ == "__main__":
    main()
