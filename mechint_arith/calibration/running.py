"""Run the trials of a calibration on worker processes; finished ones are read, not run again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mechint_arith.calibration.grid import Trial
from mechint_arith.errors import InputError
from mechint_arith.files import sha256, write_json


def record_path(out: Path, trial: Trial) -> Path:
    """Where the record of a trial lies."""
    return out / "controls" / f"{trial.name}.json"


def finished(trial: Trial, out: Path, base_sha: str) -> dict[str, Any] | None:
    """Return the record of a trial that was run before with these settings on this base, or None."""
    path = record_path(out, trial)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    wanted = json.loads(json.dumps(trial.as_dict()))
    same = record.get("trial") == wanted and record["base"]["sha256"] == base_sha
    return record if same else None


def base_files(paths: Sequence[Path]) -> list[Path]:
    """Return the base networks: files as given, folders by their checkpoints in order.

    Raises `InputError` where there is none or a path does not exist.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.glob("*.safetensors"))
        elif path.exists():
            found.append(path)
        else:
            raise InputError(f"no base network {path}: give --base FILE or a folder of them")
    if not found:
        raise InputError(f"no base networks in {', '.join(map(str, paths))}")
    return found


def tasks_of(bases: Sequence[Path]) -> list[tuple[int, int, int]]:
    """Return what each base network reads: modulus, number of variables, length.

    Raises `InputError` for a network that no control can be made of.
    """
    from mechint_arith.models.controls.draft import Draft
    from mechint_arith.models.load import load_checkpoint

    tasks = [Draft.of(load_checkpoint(path)).task for path in bases]
    return [(task.p, task.n_vars, task.length) for task in tasks]


def run_trials(
    trials: Sequence[Trial],
    bases: Sequence[Path],
    out: Path,
    *,
    workers: int = 2,
    on_record: Callable[[dict[str, Any]], Any] = lambda record: None,
) -> list[dict[str, Any]]:
    """Run what is not finished; return all records in the order of the trials.

    workers: processes of one thread each; 0 runs in this one. Every record is written as it ends, so a
    stopped calibration goes on where it was. Raises the first error of a trial, once the others have ended.
    """
    from mechint_arith.sweeps import dask_client

    hashes = [sha256(path) for path in bases]
    records = {trial.name: finished(trial, out, hashes[trial.base]) for trial in trials}
    for record in records.values():
        if record is not None:
            on_record(record)
    waiting = [trial for trial in trials if records[trial.name] is None]
    paths = [str(path.resolve()) for path in bases]

    def keep(trial: Trial, record: dict[str, Any]) -> None:
        write_json(record_path(out, trial), record)
        records[trial.name] = record
        on_record(record)

    with dask_client(workers=min(workers, len(waiting))) as client:
        if client is None:
            for trial in waiting:
                keep(trial, _one(trial, paths))
        else:
            from distributed import as_completed

            futures = {client.submit(_one, trial, paths, pure=False): trial for trial in waiting}
            failed: BaseException | None = None
            for future in as_completed(futures):
                if future.status == "error":
                    failed = failed or future.exception()
                    continue
                keep(futures[future], future.result())
            if failed is not None:
                raise failed
    return [record for record in records.values() if record is not None]


def _one(trial: Trial, bases: list[str]) -> dict[str, Any]:
    import torch

    from mechint_arith.calibration.trial import run_trial

    torch.set_num_threads(1)
    return run_trial(trial, bases)
