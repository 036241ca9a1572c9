"""Grids of training runs: a file says what varies, every point is a run folder, finished points stay finished.

A point is trained by `train_point` and measured once; its `point.json` marks it as finished. A run that was stopped
at any moment goes on from its last checkpoint to the same numbers. Where points run is the scheduler's
business (`run`): a local Dask cluster by default.
"""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mechint_arith.errors import InputError
from mechint_arith.files import write_json
from mechint_arith.locks import locked
from mechint_arith.settings import read_toml

if TYPE_CHECKING:
    from distributed import Client

    from mechint_arith.runs import RunFolder

RESULT = "point.json"
MODEL = {"d_model": 128, "d_head": None, "heads": 1, "d_mlp": None}
"""Options of the model and their defaults; None: d_model / heads, and 4 d_model."""
RUN = {"seed": 42, "every": 1000, "final_n": 2000}
"""Options of a run: its seed, steps between checkpoints, sequences per pool of the last measurement."""
ALLOWED_FAILURES = 20
"""How often a point may lose its worker before it counts as broken."""


@dataclass(frozen=True)
class Point:
    """One combination of settings."""

    name: str
    """Its folder: the settings that vary, such as `two_var_frequency_0.1-seed_1`."""
    varied: Mapping[str, Any]
    """Option -> value, of those that vary."""
    options: Mapping[str, Any]
    """All options that differ from the defaults of `train assign-add`."""


@dataclass(frozen=True)
class Sweep:
    """A grid of points and where their folders lie."""

    name: str
    points: tuple[Point, ...]
    out: Path


def read_sweep(path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Sweep:
    """Read a sweep file: `name`, `out`, a table `[base]` of options and a table `[grid]` of lists.

    Options are those of `train assign-add`, with underscores. Raises `InputError` naming what is wrong.
    """
    found = read_toml(path, {"name": str, "out": str, "base": dict, "grid": dict})
    base, grid = found.get("base", {}), found.get("grid", {})
    if not grid or not all(isinstance(values, list) and values for values in grid.values()):
        raise InputError(f"{path}: [grid] needs at least one option with a list of values")
    if both := sorted(set(base) & set(grid)):
        raise InputError(f"{path}: {both[0]} stands both in [base] and in [grid]")
    points = []
    for values in product(*grid.values()):
        varied = dict(zip(grid, values, strict=True))
        point = Point(
            "-".join(f"{name}_{value}" for name, value in varied.items()), varied, base | varied
        )
        try:
            run_folder(point, Path())
        except (InputError, TypeError) as error:  # a text where a number belongs
            raise InputError(f"{path}: {error}") from error
        points.append(point)
    names = Counter(point.name for point in points)
    if twice := [name for name, times in names.items() if times > 1]:
        raise InputError(f"{path}: the point {twice[0]} occurs twice")
    name = found.get("name", Path(path).stem)
    return Sweep(name, tuple(points), Path(out or found.get("out", f"runs/{name}")))


def run_folder(point: Point, out: Path) -> RunFolder:
    """Return the run folder of a point. Raises `InputError` for unknown options and impossible settings."""
    from mechint_arith.models.config import ModelConfig, head_width
    from mechint_arith.runs import RunFolder
    from mechint_arith.tasks.assign_add import AssignAdd
    from mechint_arith.training import Recipe

    of_task = {f.name for f in fields(AssignAdd)}
    of_recipe = {f.name for f in fields(Recipe)}
    known = of_task | of_recipe | set(MODEL) | set(RUN)
    if unknown := sorted(set(point.options) - known):
        raise InputError(f"unknown option {unknown[0]!r}: choose from {', '.join(sorted(known))}")
    task = AssignAdd(**{k: v for k, v in point.options.items() if k in of_task})
    recipe = Recipe(**{k: v for k, v in point.options.items() if k in of_recipe})
    model = MODEL | {k: v for k, v in point.options.items() if k in MODEL}
    run = RUN | {k: v for k, v in point.options.items() if k in RUN}
    for name, value in (model | run).items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InputError(f"{name} must be a whole number, not {value!r}")
    width = head_width(
        model["d_model"],
        model["heads"],
        model["d_head"],
        d_mlp=model["d_mlp"],
        batch=recipe.batch,
        every=run["every"],
        final_n=run["final_n"],
    )
    config = ModelConfig(
        d_vocab=len(task.vocab),
        d_vocab_out=task.d_vocab_out,
        n_ctx=task.length,
        n_heads=model["heads"],
        d_model=model["d_model"],
        d_head=width,
        d_mlp=(0, model["d_mlp"] or 4 * model["d_model"]),
    )
    return RunFolder(out / point.name, config, task, recipe, run["seed"])


def finished(point: Point, out: Path) -> dict[str, Any] | None:
    """Return a point's result if it is finished with these very settings, else None."""
    path = out / point.name / RESULT
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    return found if found.get("options") == json.loads(json.dumps(dict(point.options))) else None


def train_point(point: Point, out: Path, *, threads: int = 1) -> dict[str, Any]:
    """Train a point from wherever it stands, measure it, write and return its result.

    A folder that `train assign-add` made with the same settings is taken over, and a longer run is measured at
    the step asked for. Raises `InputError` for a folder that holds another run.
    """
    import torch

    from mechint_arith.footprint import require_memory
    from mechint_arith.models.checkpoint import read, step_path
    from mechint_arith.models.init import initial_weights
    from mechint_arith.runs import keeps
    from mechint_arith.tasks.pools import Mixture
    from mechint_arith.training import folded_forward, start, train

    torch.set_num_threads(threads)
    folder = run_folder(point, out)
    with locked(folder.path, wait=True):
        if (done := finished(point, out)) is not None:
            return done
        batch = max(folder.recipe.batch, point.options.get("final_n", RUN["final_n"]) // 2)
        require_memory(folder.config, batch=batch)
        steps = folder.recipe.steps
        last = step_path(folder.path, steps)
        if not last.exists():
            state = folder.resume()
            if state is None:
                state = start(initial_weights(folder.config, folder.seed), folder.recipe)
            if state.step > steps:
                raise InputError(
                    f"{folder.path} holds a run at step {state.step} without a checkpoint of step {steps}"
                )
            every = point.options.get("every", RUN["every"])
            read_at = folder.task.places["equals"]  # type: ignore[attr-defined]

            def on_step(state: Any) -> None:
                if keeps(state.step, steps=steps, every=every):
                    state.losses.clear()
                    folder.keep(state)

            train(
                state,
                folder.recipe,
                Mixture(folder.task).sample,  # type: ignore[arg-type]
                folded_forward(folder.config, read_at),
                seed=folder.seed,
                on_step=on_step,
            )
        checkpoint = read(last)
        if (checkpoint.config, checkpoint.task, checkpoint.seed) != (
            folder.config,
            folder.task,
            folder.seed,
        ):
            raise InputError(f"{last} comes from a run with other settings; choose another out")
        result = {
            "name": point.name,
            "varied": dict(point.varied),
            "options": dict(point.options),
            "step": steps,
            "parameters": sum(w.numel() for w in checkpoint.weights.values()),
            "accuracy": _final(checkpoint, point.options.get("final_n", RUN["final_n"])),
        }
        write_json(folder.path / RESULT, result)
    return json.loads(json.dumps(result))


def _final(checkpoint: Any, n: int) -> dict[str, Any]:
    """Return the accuracy by pool of a trained model."""
    from mechint_arith.evaluation import by_pool
    from mechint_arith.models.folded import fold

    task = checkpoint.task
    folded = fold(checkpoint.config, checkpoint.weights, read=task.places["equals"])
    found = by_pool(lambda tokens: folded(tokens).logits, task, 0, n=n)
    return {name: estimate.as_dict() for name, estimate in found.items()}


def run(
    sweep: Sweep,
    client: Client | None,
    *,
    on_point: Callable[[dict[str, Any]], Any] = lambda result: None,
) -> list[dict[str, Any]]:
    """Run a sweep's unfinished points on a Dask client; return all results in the order of the points.

    `on_point` is told of every point as it ends, finished ones at once. A point whose worker dies is run
    again elsewhere, from its last checkpoint. Raises the error of a point that failed, once all others ended.
    """
    results = {point.name: finished(point, sweep.out) for point in sweep.points}
    for found in results.values():
        if found is not None:
            on_point(found)
    waiting = [point for point in sweep.points if results[point.name] is None]
    if not waiting or client is None:
        return [found for found in results.values() if found is not None]
    from distributed import as_completed

    futures = {
        client.submit(
            train_point, point, sweep.out.resolve(), key=f"{sweep.name}-{point.name}", pure=False
        ): point
        for point in waiting
    }
    failed: BaseException | None = None
    for future in as_completed(futures):
        if future.status == "error":
            failed = future.exception()
            continue
        results[futures[future].name] = found = future.result()
        on_point(found)
    if failed is not None:
        raise failed
    return [found for found in results.values() if found is not None]


@contextmanager
def dask_client(scheduler: str | None = None, *, workers: int = 2) -> Iterator[Client | None]:
    """Yield a client of a scheduler address, or of a cluster of single-threaded processes on this machine.

    With no workers nothing is started and None is yielded, as where every point is finished. Raises `InputError` where the address does not answer.
    """
    if workers < 1:
        yield None
        return
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.worker.memory.terminate": False,
        "distributed.logging.distributed": "critical",
    }
    with dask.config.set(settings):
        if scheduler is not None:
            try:
                client = Client(scheduler, timeout="10s")
            except (OSError, ValueError) as error:
                raise InputError(f"no Dask scheduler answers at {scheduler}: {error}") from error
            with client:
                yield client
            return
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
