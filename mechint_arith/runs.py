"""A training run on disk: checkpoints, metrics, and the state from which a stopped run is taken up again.

The loop itself is in `training`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mechint_arith.errors import InputError
from mechint_arith.files import replacing
from mechint_arith.models.checkpoint import Checkpoint, save, step_path
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.tasks import Task, task_to_dict
from mechint_arith.training import Recipe, State, start

STATE = "state.safetensors"
METRICS = "metrics.jsonl"


def checkpoint_steps(steps: int, every: int) -> set[int]:
    """Return the steps to keep: dense early (0, 1, 10, 30, 100, then 200, 300, 500, 700), every `every`, the last."""
    early = {0, 1, 10, 30, 100, 200, 300, 500, 700}
    return {s for s in early if s <= steps} | set(range(0, steps + 1, every)) | {steps}


@dataclass(frozen=True)
class RunFolder:
    """A run on disk: its checkpoints, `metrics.jsonl`, and the optimiser state it can be resumed from."""

    path: Path
    config: ModelConfig
    task: Task
    recipe: Recipe
    seed: int

    @property
    def meta(self) -> dict[str, Any]:
        """What every checkpoint of this run says of its making."""
        return {"recipe": asdict(self.recipe), "threads": torch.get_num_threads()}

    def checkpoint(self, state: State) -> Checkpoint:
        """Return the run's present model with its header."""
        weights = {name: w.detach() for name, w in state.weights.items()}
        return Checkpoint(self.config, weights, self.task, state.step, self.seed, self.meta)

    def keep(self, state: State) -> Path:
        """Write the checkpoint of this step and the state to resume from."""
        path = step_path(self.path, state.step)
        save(path, self.checkpoint(state))
        self.save_state(state)
        return path

    def save_state(self, state: State) -> None:
        """Write weights, optimiser moments and step in one file."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        moments = state.optimizer.state_dict()["state"]
        tensors = {}
        for i, (name, w) in enumerate(state.weights.items()):
            tensors[f"weight/{name}"] = w.detach().cpu().contiguous().clone()
            for key, value in moments.get(i, {}).items():
                tensors[f"{key}/{name}"] = (
                    torch.as_tensor(value).detach().cpu().contiguous().clone()
                )
        with replacing(self.path / STATE) as temporary:
            try:
                save_file(
                    tensors, temporary, metadata={"run": json.dumps(self._identity(state.step))}
                )
            except SafetensorError as error:
                raise OSError(str(error)) from error

    def _identity(self, step: int) -> dict[str, Any]:
        recipe = {k: v for k, v in asdict(self.recipe).items() if k != "steps"}
        return json.loads(
            json.dumps(
                {
                    "step": step,
                    "seed": self.seed,
                    "model": self.config.as_dict(),
                    "task": task_to_dict(self.task),
                    "recipe": recipe,
                }
            )
        )

    def resume(self, *, device: str = "cpu") -> State | None:
        """Return the state of a run that was stopped, or None if the folder has none.

        Raises `InputError` where the folder holds a run with other settings. Only `steps` may differ, and
        with a cosine schedule not even that.
        """
        from safetensors import safe_open

        path = self.path / STATE
        if not path.exists():
            return None
        for stale in self.path.glob(".*.tmp"):  # what a killed process was writing
            stale.unlink()
        with safe_open(path, framework="pt") as file:
            found = json.loads(file.metadata()["run"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        step = found["step"]
        if found != (mine := self._identity(step)):
            differing = [key for key in mine if found.get(key) != mine[key]]
            raise InputError(
                f"{self.path} holds a run with another {', '.join(differing)};"
                " choose another --out or the same settings"
            )
        weights = {
            k.removeprefix("weight/"): t for k, t in tensors.items() if k.startswith("weight/")
        }
        # safetensors sorts names; the optimiser's state goes by place.
        order = list(parameter_shapes(self.config))
        state = start({name: weights[name] for name in order}, self.recipe, device=device)
        packed = state.optimizer.state_dict()
        packed["state"] = {
            i: {
                key: tensors[f"{key}/{name}"]
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"{key}/{name}" in tensors
            }
            for i, name in enumerate(order)
        }
        state.optimizer.load_state_dict(packed)
        state.step = step
        self._cut_metrics(step)
        return state

    def log(self, values: dict[str, Any]) -> None:
        """Append one line to `metrics.jsonl`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with open(self.path / METRICS, "a", encoding="utf-8") as file:
                file.write(json.dumps(values, allow_nan=False) + "\n")
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}") from error

    def _cut_metrics(self, step: int) -> None:
        """Drop lines after `step`, and a half-written last line: the resumed run writes them again."""
        rows = [row for row in read_metrics(self.path) if row["step"] <= step]
        with replacing(self.path / METRICS) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_metrics(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the whole lines of a run's `metrics.jsonl`, in order."""
    path = Path(folder) / METRICS
    lines: Iterable[str] = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows
