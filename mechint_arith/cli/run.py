"""Drive a training run from the command line: progress bar, metrics, checkpoints, resuming."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from mechint_arith.cli.options import require_writable, set_threads
from mechint_arith.errors import InputError
from mechint_arith.evaluation import by_pool
from mechint_arith.footprint import require_memory
from mechint_arith.locks import locked
from mechint_arith.models.folded import fold
from mechint_arith.models.init import initial_weights
from mechint_arith.runs import STATE, RunFolder, keeps
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.pools import PAPER_POOLS, Mixture
from mechint_arith.training import Forward, Recipe, Sampler, State, folded_forward, start, train

SMALLEST_CHUNK = 64
"""Sequences measured at once where a step trains on fewer."""
Measure = Callable[[State], dict[str, float]]
"""A run's state -> name of a measurement -> value, for metrics.jsonl and the progress bar."""


def check_device(name: str) -> None:
    """Raise `InputError` where torch cannot take an optimiser step on the device and read its result."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tried = start({"w": torch.zeros(1)}, Recipe(), device=name)
            tried.weights["w"].sum().backward()
            tried.optimizer.step()
            tried.weights["w"].item()
    except Exception as error:  # every backend raises its own
        reason = str(error).splitlines()[0].split(". ")[0]
        raise InputError(f"--device {name} is not usable here: {reason}") from error


class TrainingProgress(Progress):
    """A bar, and below it the news of every task, wrapped to the terminal's width."""

    def __init__(self, *, console: Console) -> None:
        super().__init__(
            TextColumn("[bold]{task.description}", table_column=Column(overflow="fold")),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=console,
            expand=True,
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the table of bars, then the news."""
        yield from super().get_renderables()
        yield from (Text(task.fields["news"]) for task in self.tasks)


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
    set_threads(threads)
    check_device(device)
    require_writable(folder.path)
    with locked(folder.path):
        if not resume:
            folder.require_unused()
        state = folder.resume(device=device)
        if state is None:
            state = start(initial_weights(folder.config, folder.seed), folder.recipe, device=device)
        steps = folder.recipe.steps
        if state.step > steps:
            raise InputError(
                f"{folder.path} holds a run at step {state.step} already: --steps {steps} lies behind it"
            )
        console = Console(stderr=True)
        began, first = time.monotonic(), state.step
        with TrainingProgress(console=console) as progress:
            bar = progress.add_task(title, total=steps, completed=state.step, speed="", news="")

            def on_step(state: State) -> None:
                kept = keeps(state.step, steps=steps, every=every)
                if kept or state.step % measure_every == 0:
                    measured = measure(state)
                    values: dict[str, Any] = {"step": state.step, **measured}
                    if state.losses:
                        values["loss"] = float(np.mean(state.losses))
                        state.losses.clear()
                    folder.log(values)
                    news = [f"loss {values['loss']:.4f}"] if "loss" in values else []
                    news += [
                        f"{name} {measured[name]:.3f}" for name in headline if name in measured
                    ]
                    progress.update(bar, news=" · ".join(news))
                    if not console.is_terminal:
                        line = f"step {state.step}/{steps} {' '.join(news)}"
                        console.print(line, highlight=False, soft_wrap=True)
                if kept:
                    folder.keep(state)
                rate = (state.step - first) / max(time.monotonic() - began, 1e-9)
                progress.update(bar, completed=state.step, speed=f"{rate:.0f} steps/s")

            if first < steps:
                try:
                    train(state, folder.recipe, sample, forward, seed=folder.seed, on_step=on_step)
                except KeyboardInterrupt:
                    if not (folder.path / STATE).exists():
                        raise
                    raise KeyboardInterrupt("; go on with the same command and --resume") from None
    return state


def run_assign_add(
    folder: RunFolder, *, every: int, resume: bool, device: str, threads: int
) -> State:
    """Train an assign-and-add model on its folded form, measuring the nine pools of the paper."""
    task = folder.task
    assert isinstance(task, AssignAdd)
    chunk = max(folder.recipe.batch, SMALLEST_CHUNK)
    require_memory(folder.config, batch=chunk, device=device)
    read = task.places["equals"]

    def measure(state: State) -> dict[str, float]:
        with torch.no_grad():
            folded = fold(folder.config, state.weights, read=read)
            found = by_pool(
                lambda tokens: folded(tokens.to(device)).logits.cpu(), task, 0, chunk=chunk
            )
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
