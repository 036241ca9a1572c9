"""Drive a training run from the command line: progress bar, metrics, checkpoints, resuming."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mechint_arith.cli.options import require_writable
from mechint_arith.errors import InputError
from mechint_arith.evaluation import by_pool
from mechint_arith.models.folded import fold
from mechint_arith.models.init import initial_weights
from mechint_arith.runs import RunFolder, checkpoint_steps
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.pools import PAPER_POOLS, Mixture
from mechint_arith.training import Forward, Sampler, State, folded_forward, start, train

Measure = Callable[[State], dict[str, float]]
"""A run's state -> name of a measurement -> value, for metrics.jsonl and the progress bar."""


def check_device(name: str) -> None:
    """Raise `InputError` where torch cannot put a tensor on the device."""
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"--device {name} is not usable here: {str(error).splitlines()[0]}"
        ) from error


def run(
    folder: RunFolder,
    sample: Sampler,
    forward: Forward,
    measure: Measure,
    *,
    every: int,
    resume: bool,
    device: str = "cpu",
    threads: int = 1,
    measure_every: int = 500,
    headline: tuple[str, ...] = (),
    title: str = "train",
) -> State:
    """Train to the recipe's last step, writing checkpoints and metrics, with a progress bar on stderr.

    Raises `InputError` where the folder already holds a run and `resume` is not set.
    """
    if every < 1:
        raise InputError(f"--every must be at least 1, not {every}")
    check_device(device)
    if not 0 <= folder.seed < 2**63:
        raise InputError(f"--seed must lie between 0 and 2^63 - 1, not {folder.seed}")
    if not 0 <= threads <= 1024:
        raise InputError(f"--threads must lie between 0 and 1024, not {threads}")
    require_writable(folder.path)
    if threads:
        torch.set_num_threads(threads)
    state = folder.resume(device=device)
    if state is not None and not resume:
        raise InputError(
            f"{folder.path} already holds a run at step {state.step}: add --resume to go on, or choose another --out"
        )
    if state is None and any(folder.path.glob("step_*.safetensors")):
        raise InputError(
            f"{folder.path} holds checkpoints but no run to go on with: choose another --out"
        )
    if state is None:
        state = start(initial_weights(folder.config, folder.seed), folder.recipe, device=device)
    steps = folder.recipe.steps
    keep = checkpoint_steps(steps, every)
    console = Console(stderr=True)
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[news]}"),
    )
    began, first = time.monotonic(), state.step
    with Progress(*columns, console=console, transient=False) as progress:
        bar = progress.add_task(title, total=steps, completed=state.step, speed="", news="")

        def on_step(state: State) -> None:
            last = state.step == steps
            if state.step % measure_every == 0 or last or state.step in keep:
                measured = measure(state)
                values: dict[str, Any] = {"step": state.step, **measured}
                if state.losses:
                    values["loss"] = float(np.mean(state.losses))
                    state.losses.clear()
                folder.log(values)
                news = [f"loss {values['loss']:.4f}"] if "loss" in values else []
                news += [f"{name} {measured[name]:.3f}" for name in headline if name in measured]
                progress.update(bar, news=" · ".join(news))
                if not console.is_terminal:
                    console.print(f"step {state.step}/{steps} {' '.join(news)}", highlight=False)
            if state.step in keep:
                folder.keep(state)
            rate = (state.step - first) / max(time.monotonic() - began, 1e-9)
            progress.update(bar, completed=state.step, speed=f"{rate:.0f} steps/s")

        if first < steps:
            train(state, folder.recipe, sample, forward, seed=folder.seed, on_step=on_step)
    return state


def run_assign_add(
    folder: RunFolder, *, every: int, resume: bool, device: str, threads: int
) -> State:
    """Train an assign-and-add model on its folded form, measuring the nine pools of the paper."""
    task = folder.task
    assert isinstance(task, AssignAdd)
    read = task.places["equals"]

    def measure(state: State) -> dict[str, float]:
        with torch.no_grad():
            folded = fold(folder.config, state.weights, read=read)
            found = by_pool(lambda tokens: folded(tokens.to(device)).logits.cpu(), task, 0)
        return {name: found[name].value for name in PAPER_POOLS if name in found}

    return run(
        folder,
        Mixture(task).sample,
        folded_forward(folder.config, read),
        measure,
        every=every,
        resume=resume,
        device=device,
        threads=threads,
        headline=("0var_held", "1var_held", "2var_held", "2var_restricted_2"),
    )
