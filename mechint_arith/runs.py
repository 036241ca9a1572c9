"""A training run on disk: checkpoints, metrics, and the state from which a stopped run is taken up again.

The loop itself is in `training`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.files import replacing, write_text
from mechint_arith.models.checkpoint import Checkpoint, check_weights, save, step_path
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.tasks import Task, task_to_dict
from mechint_arith.training import Recipe, State, start

STATE = "state.safetensors"
METRICS = "metrics.jsonl"
EARLY = frozenset({0, 1, 10, 30, 100, 200, 300, 500, 700})
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW remembers of every parameter that had a gradient."""


def keeps(step: int, *, steps: int, every: int) -> bool:
    """Return whether a run keeps this step: early ones are dense, then every `every`, and the last."""
    return step in EARLY or step % every == 0 or step == steps


@dataclass(frozen=True)
class RunFolder:
    """A run on disk: its checkpoints, `metrics.jsonl`, and the optimiser state it can be resumed from."""

    path: Path
    config: ModelConfig
    task: Task
    recipe: Recipe
    seed: int
    options: Mapping[str, Any] | None = None
    """What the command that trains was told, for `recorded_options`."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise InputError(f"--seed must lie between 0 and 2^63 - 1, not {self.seed}")

    @property
    def meta(self) -> dict[str, Any]:
        """What every checkpoint of this run says of its making."""
        return {"recipe": asdict(self.recipe), "threads": torch.get_num_threads()}

    def checkpoint(self, state: State) -> Checkpoint:
        """Return the run's present model with its header."""
        weights = {name: w.detach() for name, w in state.weights.items()}
        return Checkpoint(self.config, weights, self.task, state.step, self.seed, self.meta)

    def keep(self, state: State) -> Path:
        """Write the state to resume from, then the checkpoint of this step, which `resume` makes up for."""
        path = step_path(self.path, state.step)
        self.save_state(state)
        save(path, self.checkpoint(state))
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
        header = {"run": json.dumps(self._identity(state.step))}
        if self.options is not None:
            header["options"] = json.dumps(dict(self.options))
        with replacing(self.path / STATE) as temporary:
            try:
                save_file(tensors, temporary, metadata=header)
            except SafetensorError as error:
                raise OSError(str(error)) from error

    def _identity(self, step: int) -> dict[str, Any]:
        recipe = asdict(self.recipe)
        if not self.recipe.cosine:
            del recipe["steps"]
        identity = {
            "step": step,
            "seed": self.seed,
            "model": self.config.as_dict(),
            "task": task_to_dict(self.task),
            "recipe": recipe,
        }
        return json.loads(json.dumps(identity))

    def require_unused(self) -> None:
        """Raise `InputError` where the folder holds a run or parts of one."""
        if os.path.lexists(self.path / STATE):
            raise InputError(
                f"{self.path} already holds a run: add --resume to go on, or choose another --out"
            )
        if os.path.lexists(self.path / METRICS) or self._checkpoints():
            raise self._stateless()

    def _checkpoints(self) -> list[Path]:
        return list(self.path.glob("step_*.safetensors"))

    def _stateless(self) -> InputError:
        return InputError(
            f"{self.path} holds checkpoints or metrics, but no {STATE} to go on from:"
            " choose another --out"
        )

    def resume(self, *, device: str = "cpu") -> State | None:
        """Return the state of a run that was stopped, or None if it kept nothing yet and is to begin.

        Metrics after that state are dropped: the resumed run writes them again. Raises `InputError` where the
        folder holds a run with other settings (only `steps` may differ, and with a cosine schedule not even
        that), where its state or metrics are damaged, and where its state is missing.
        """
        path = self.path / STATE
        rows = read_metrics(self.path)
        if not os.path.lexists(path):
            if self._checkpoints() or any(row["step"] > 0 for row in rows):
                raise self._stateless()
            self._cut_metrics(rows, -1)
            return None
        found, tensors = _read_state(path)
        step = found["step"]
        self._require_same(found)
        weights = tensors.get("weight", {})
        check_weights(weights, self.config, f"cannot go on from {path}")
        # safetensors sorts names; the optimiser's state goes by place.
        order = list(parameter_shapes(self.config))
        state = start({name: weights[name] for name in order}, self.recipe, device=device)
        packed = state.optimizer.state_dict()
        packed["state"] = {
            i: {key: tensors[key][name] for key in MOMENTS if name in tensors.get(key, {})}
            for i, name in enumerate(order)
        }
        state.optimizer.load_state_dict(packed)
        state.step = step
        for stale in self.path.glob(".*.tmp"):  # what a killed process was writing
            stale.unlink()
        self._cut_metrics(rows, step)
        if not step_path(self.path, step).exists():
            save(step_path(self.path, step), self.checkpoint(state))
        return state

    def _require_same(self, found: dict[str, Any]) -> None:
        mine = self._identity(found["step"])
        if "steps" not in found.get("recipe", ()):  # states of earlier versions do not say
            mine["recipe"].pop("steps", None)
        if differing := [key for key in mine if found.get(key) != mine[key]]:
            raise InputError(
                f"{self.path} holds a run with another {', '.join(differing)};"
                " choose another --out or the same settings"
            )

    def log(self, values: dict[str, Any]) -> None:
        """Append one line to `metrics.jsonl`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with open(self.path / METRICS, "a", encoding="utf-8") as file:
                file.write(json.dumps(values, allow_nan=False) + "\n")
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}") from error

    def _cut_metrics(self, rows: list[dict[str, Any]], step: int) -> None:
        """Leave the lines up to `step` only."""
        kept = "".join(json.dumps(row) + "\n" for row in rows if row["step"] <= step)
        if kept or (self.path / METRICS).exists():
            write_text(self.path / METRICS, kept)


def recorded_options(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what the command that trained into a folder was told; empty where the folder does not say."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(Path(folder) / STATE, framework="pt") as file:
            options = json.loads((file.metadata() or {})["options"])
    except (SafetensorError, OSError, LookupError, ValueError):  # `resume` says what is wrong
        return {}
    return options if isinstance(options, dict) else {}


def _read_state(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Return what a state says of its run, and its tensors by kind and parameter. Raises `InputError`."""
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, dict[str, Tensor]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            found = json.loads((file.metadata() or {})["run"])
            for key in file.keys():  # noqa: SIM118
                kind, _, name = key.partition("/")
                tensors.setdefault(kind, {})[name] = file.get_tensor(key)
        if not isinstance(found["step"], int):
            raise TypeError("its step is no number")
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"cannot go on from {path}: it is no whole state of a run ({error});"
            " restore it or choose another --out"
        ) from error
    return found, tensors


def read_metrics(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the lines of a run's `metrics.jsonl`, in order, without a last one that a kill cut off.

    Raises `InputError` where the file cannot be read or another line is no measurement.
    """
    path = Path(folder) / METRICS
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not lines[-1]:
        lines.pop()
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if not isinstance(row["step"], int):
                raise TypeError("its step is no number")
        except (ValueError, TypeError, LookupError) as error:
            if number == len(lines):
                break
            raise InputError(
                f"{path}, line {number}, is no measurement of a run ({error}): mend or delete it"
            ) from error
        rows.append(row)
    return rows
