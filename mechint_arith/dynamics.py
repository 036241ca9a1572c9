"""Any measurement mapped over the checkpoints of a run, one model in memory at a time.

Finished checkpoints are cached by content, measure, version and prompts, so a stopped run goes on where it was.
What a measure is belongs in `measures`; phases and the order of events in `phases`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mechint_arith.errors import InputError, naming
from mechint_arith.files import sha256, write_json
from mechint_arith.measures.catalogue import Measure, chosen
from mechint_arith.measures.subject import Prompts, Subject
from mechint_arith.models.load import Hints, load_checkpoint
from mechint_arith.models.series import checkpoint_files, step_in_name
from mechint_arith.stats import Estimate
from mechint_arith.tasks import task_to_dict
from mechint_arith.tasks.assign_add import AssignAdd

FIELDS = ("value", "low", "high", "n")
Progress = Callable[[int, int], Any]
"""(checkpoints done, checkpoints in all) -> anything."""


@dataclass(frozen=True)
class Series:
    """Named measurements of one run, checkpoint by checkpoint."""

    steps: tuple[int, ...]
    """Optimiser steps of the checkpoints, rising."""
    values: Mapping[str, tuple[Estimate, ...]]
    """Name -> one estimate per checkpoint; NaN where it is missing."""
    source: str = ""
    """Folder the checkpoints came from, by its last name."""
    missing: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Name -> step -> why the value is missing there; only what is."""

    def __post_init__(self) -> None:
        if wrong := [name for name, row in self.values.items() if len(row) != len(self.steps)]:
            raise ValueError(f"{wrong[0]} does not have one value per step")

    def __getitem__(self, name: str) -> tuple[Estimate, ...]:
        """Return one estimate per checkpoint. Raises `InputError` for an unknown name."""
        if name not in self.values:
            raise InputError(f"this series has no {name!r}, only: {', '.join(self.values)}")
        return self.values[name]

    def curve(self, name: str, field: str = "value") -> np.ndarray:
        """Return a field of the estimates (`value`, `low` or `high`) as float [step]."""
        return np.array([getattr(estimate, field) for estimate in self[name]])

    def until(self, step: int) -> Series:
        """Return the part up to and including a step."""
        kept = sum(s <= step for s in self.steps)
        values = {name: row[:kept] for name, row in self.values.items()}
        missing = {
            name: found
            for name, steps in self.missing.items()
            if (found := {s: why for s, why in steps.items() if s <= step})
        }
        return Series(self.steps[:kept], values, self.source, missing)

    def why_missing(self, name: str, step: int) -> str | None:
        """Return why a value is missing at a step; None where it is not."""
        return self.missing.get(name, {}).get(step)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: per name the columns value, low, high and n, null where missing; and the reasons."""

        def column(row: tuple[Estimate, ...], field: str) -> list[float | None]:
            return [None if math.isnan(x) else x for x in (getattr(e, field) for e in row)]

        columns = {name: {f: column(row, f) for f in FIELDS} for name, row in self.values.items()}
        return {
            "source": self.source,
            "steps": list(self.steps),
            "values": columns,
            "missing": {
                name: {str(s): w for s, w in why.items()} for name, why in self.missing.items()
            },
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Series:
        """Rebuild a series. Raises `InputError` where the values are not those of `as_dict`."""
        try:
            values = {
                name: tuple(
                    Estimate(_number(value), _number(low), _number(high), n)
                    for value, low, high, n in zip(*(c[f] for f in FIELDS), strict=True)
                )
                for name, c in found["values"].items()
            }
            missing = {
                name: {int(step): reason for step, reason in why.items()}
                for name, why in found.get("missing", {}).items()
            }
            return cls(tuple(found["steps"]), values, found["source"], missing)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this is no series.json of mechint-arith ({error!r})") from error


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def read_series(path: str | os.PathLike[str]) -> Series:
    """Read a `series.json`. Raises `InputError` where the file is missing or is none."""
    try:
        return Series.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def checkpoints(folder: str | os.PathLike[str]) -> dict[int, Path]:
    """Return step -> file of a folder's checkpoints, by rising step; the step is the last number in a name.

    Raises `InputError` for a folder without any, a name without a step, and two files of one step.
    """
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place} is not a folder: give the folder of a run's checkpoints")
    found: dict[int, Path] = {}
    for path in checkpoint_files(place):
        step = step_in_name(path)
        if step is None:
            raise InputError(f"{path} has no step in its name, so it is no part of a series")
        if step in found:
            raise InputError(
                f"{place} has two files of step {step}: {found[step].name}, {path.name}"
            )
        found[step] = path
    return found


def measure_series(
    folder: str | os.PathLike[str],
    measures: Iterable[str | Measure] | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    steps: Iterable[int] | None = None,
    n: int = 2000,
    seed: int = 0,
    hints: Hints | None = None,
    on_checkpoint: Progress = lambda done, total: None,
) -> Series:
    """Measure every checkpoint of a folder; measures by name, or as `Measure` values of one's own.

    cache: folder for finished checkpoints; None: nothing is kept. steps: only these. n: sequences per pool.
    All checkpoints see the same prompts. Raises `InputError` for an empty folder, a step it does not have,
    an unknown measure, or a model that cannot be folded.
    """
    files = checkpoints(folder)
    if steps is not None:
        wanted = sorted(set(steps))
        if missing := [step for step in wanted if step not in files]:
            raise InputError(f"{folder} has no checkpoint of step {missing[0]}")
        if not wanted:
            raise InputError(f"no checkpoints of {folder} are left to measure: choose other steps")
        files = {step: files[step] for step in wanted}
    named = chosen(m for m in measures if isinstance(m, str)) if measures is not None else chosen()
    taken = [*named, *(m for m in measures or () if isinstance(m, Measure))]
    prompts: Prompts | None = None
    rows = []
    for done, path in enumerate(files.values(), 1):
        with naming(path):
            row, prompts = _measured(path, taken, prompts, n, seed, hints, cache)
        rows.append(row)
        on_checkpoint(done, len(files))
    lacking: dict[str, dict[int, str]] = {}
    for step, row in zip(files, rows, strict=True):
        reasons = {name: why for measure in taken for name, why in measure.missing(row).items()}
        for name in reasons.keys() & row.keys():
            lacking.setdefault(name, {})[step] = reasons[name]
            row[name] = Estimate(math.nan, math.nan, math.nan, 0)
    names = [name for name in rows[0] if all(name in row for row in rows)]
    values = {name: tuple(row[name] for row in rows) for name in names}
    return Series(tuple(files), values, Path(folder).name, lacking)


def _measured(
    path: Path,
    measures: Sequence[Measure],
    prompts: Prompts | None,
    n: int,
    seed: int,
    hints: Hints | None,
    cache: str | os.PathLike[str] | None,
) -> tuple[dict[str, Estimate], Prompts | None]:
    """Return a checkpoint's values and the prompts used; nothing is loaded where all of them are cached."""
    options = json.dumps([n, seed, asdict(hints) if hints else None])
    keys = {measure.name: f"{measure.name}@{measure.version} {options}" for measure in measures}
    kept_in = None if cache is None else Path(cache) / f"{sha256(path)[:32]}.json"
    kept = _read_cache(kept_in)
    if missing := [measure for measure in measures if keys[measure.name] not in kept]:
        checkpoint = load_checkpoint(path, hints)
        if not isinstance(checkpoint.task, AssignAdd):
            raise InputError(
                f"{path}: the measures of a series are defined for assign-add models, this one was made for"
                f" {task_to_dict(checkpoint.task)['name']}"
            )
        prompts = prompts or Prompts(checkpoint.task, n=n, n_cell=max(1, n // 10), seed=seed)
        subject = Subject.of(checkpoint, prompts)
        for measure in missing:
            kept[keys[measure.name]] = dict(measure.take(subject))
        if kept_in is not None:
            plain = {
                key: {name: e.as_dict() for name, e in values.items()}
                for key, values in kept.items()
            }
            write_json(kept_in, plain)
    return {name: e for m in measures for name, e in kept[keys[m.name]].items()}, prompts


def _read_cache(path: Path | None) -> dict[str, dict[str, Estimate]]:
    """Return what is cached; a damaged file counts as nothing, as it can be measured again."""
    if path is None or not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {
            key: {name: Estimate(**fields) for name, fields in values.items()}
            for key, values in found.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
