"""Tables of length generalisation: many training runs from one file, each measured once, and their summary.

A table is a TOML file. `[task]`, `[model]` and `[recipe]` hold what all cells share, `[encoding.NAME]` what a
position encoding changes in the model; each `[[cell]]` has `name`, `group`, `encoding`, `seeds`, `question`,
optionally its `round`, and its own `task`, `model` and `recipe` on top. Runs are done round by round
(0 first), and within a round every cell's first seed before anyone's second.

Every run has the folder OUT/<cell>/seed<seed>, and there `length.json` (a `LengthReport`, with the settings it was
`made_of` and the pairs `drawn` per length) once it is measured; what has one of the same settings is never done again. Runs that only a summary knows count as done as well, as long as the cell
has the same task, model and recipe (`runs_of_summary`): folders may go, numbers stay. The summary is the table as JSON:

    command, n            how it was made; pairs per length
    cells[]  name, group, question, encoding, task, model, recipe (full options)
             missing       seeds that were not run
             verdicts      region -> {verdict: number of runs}
             truncated     {verdict: number of runs} on the truncated function; empty where positions are not absolute
             lengths[]     length, region, predicted, truncated; runs: how many converged; over those:
                           accuracy and agreement per run, and mean_accuracy, mean_agreement across runs
                           (Student's t, the run is the unit; null for fewer than two)
             runs[]        seed, in_domain, converged, verdicts, length -> accuracy and agreement
                           (value, low, high, n), and curve: step, in_domain and truncated (length ->
                           agreement) every 500 steps of training, on 300 pairs each

The training itself is `digit_training`, the judgement `length`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mechint_arith.digit_training import DigitsRecipe
from mechint_arith.errors import InputError
from mechint_arith.fields import wrong_types
from mechint_arith.files import write_json
from mechint_arith.length import LengthThresholds, forecast, measure, truncated_verdict
from mechint_arith.models.checkpoint import read, step_path
from mechint_arith.models.config import ModelConfig
from mechint_arith.runs import RunFolder, read_metrics
from mechint_arith.settings import read_toml, require_file_name
from mechint_arith.stats import seeds as across_runs
from mechint_arith.tasks import task_to_dict
from mechint_arith.tasks.digits import DigitsTask

REPORT = "length.json"
CURVE_EVERY = 500
TOP = {"task": dict, "model": dict, "recipe": dict, "encoding": dict, "cell": list}
OPTIONS = {"task": dict, "model": dict, "recipe": dict}
CELL = {"name", "group", "encoding", "seeds", "question", "round", *OPTIONS}
OF_THE_TASK = ("d_vocab", "d_vocab_out", "n_ctx")
"""Sizes of a model that its task decides."""
RUN = {"seed", "in_domain", "converged", "verdicts", "lengths", "curve"}
"""What a summary says of a run."""


@dataclass(frozen=True)
class Cell:
    """One setting, trained with several seeds."""

    name: str
    group: str
    """Which part of the table it belongs to."""
    question: str
    """What it is there to tell."""
    encoding: str
    """Name of its `[encoding.NAME]`."""
    seeds: tuple[int, ...]
    round: int
    """Runs of lower rounds are done first."""
    task: DigitsTask
    config: ModelConfig
    recipe: DigitsRecipe


@dataclass(frozen=True)
class CellRun:
    """One cell with one seed, and where it lies on disk."""

    cell: Cell
    folder: RunFolder

    @property
    def name(self) -> str:
        """Cell and seed, for people."""
        return f"{self.cell.name} seed {self.folder.seed}"

    @property
    def report(self) -> Path:
        """Where its measurement lies."""
        return self.folder.path / REPORT

    def measured(self, n: int) -> dict[str, Any] | None:
        """Return its report if there is one of these very settings with n pairs per length, else None."""
        try:
            found = json.loads(self.report.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        same = isinstance(found, dict) and found.get("made_of") == _plain(self.cell)
        return found if same and found.get("drawn") == n else None


@dataclass(frozen=True)
class Table:
    """All cells of a file, in its order."""

    cells: tuple[Cell, ...]

    def only(self, names: Sequence[str]) -> Table:
        """Return the cells whose name or group is listed; all for no names. Raises `InputError` for unknown ones."""
        known = {c.name for c in self.cells} | {c.group for c in self.cells}
        if unknown := sorted(set(names) - known):
            raise InputError(
                f"no cell or group {', '.join(unknown)}; there are {', '.join(sorted(known))}"
            )
        return Table(tuple(c for c in self.cells if not names or {c.name, c.group} & set(names)))

    def runs(self, out: Path) -> list[CellRun]:
        """Return every run, in the order in which they are done."""
        every = [
            (c.round, i, cell_run(c, seed, out))
            for c in self.cells
            for i, seed in enumerate(c.seeds)
        ]
        return [run for *_, run in sorted(every, key=lambda entry: entry[:2])]


def cell_run(cell: Cell, seed: int, out: Path) -> CellRun:
    """Return the run of a cell and seed below a table's folder."""
    path = out / cell.name / f"seed{seed}"
    return CellRun(cell, RunFolder(path, cell.config, cell.task, cell.recipe, seed))


def read_table(path: Path) -> Table:
    """Read a table of cells. Raises `InputError` naming the cell and what is wrong with it."""
    values = read_toml(path, TOP)
    cells = []
    for i, given in enumerate(values.get("cell", []), 1):
        if not isinstance(given, dict):
            raise InputError(f"{path}: each [[cell]] is a table, not {given!r:.40}")
        try:
            cells.append(_cell(values, given))
        except (InputError, TypeError) as error:
            name = given.get("name", f"number {i}")
            raise InputError(f"{path}, cell {name!r:.60}: {error}") from error
    names = Counter((c.name, s) for c in cells for s in c.seeds)
    if twice := [f"{name} seed {seed}" for (name, seed), times in names.items() if times > 1]:
        raise InputError(f"{path}: listed twice: {', '.join(twice)}")
    if not cells:
        raise InputError(f"{path} has no [[cell]]")
    return Table(tuple(cells))


def _cell(top: Mapping[str, Any], given: Mapping[str, Any]) -> Cell:
    if unknown := sorted(set(given) - CELL):
        raise InputError(f"unknown options {', '.join(unknown)}; known: {', '.join(sorted(CELL))}")
    if missing := [key for key in ("name", "encoding", "seeds") if key not in given]:
        raise InputError(f"{missing[0]!r} is missing")
    for name in OPTIONS:
        if not isinstance(given.get(name, {}), dict):
            raise InputError(f"{name} must be a table, not {given[name]!r:.40}")
    encodings = top.get("encoding", {})
    encoding = encodings.get(given["encoding"]) if isinstance(given["encoding"], str) else None
    if not isinstance(encoding, dict):
        raise InputError(f"encoding {given['encoding']!r:.40} is none of {', '.join(encodings)}")
    options: dict[str, Any] = {**top.get("task", {}), **given.get("task", {})}
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    task = DigitsTask(**options)
    model = {**top.get("model", {}), **encoding, **given.get("model", {})}
    if decided := [name for name in OF_THE_TASK if name in model]:
        raise InputError(f"{', '.join(decided)} cannot be chosen: the task decides")
    seeds = given["seeds"]
    cell = Cell(
        name=given["name"],
        group=given.get("group", ""),
        question=given.get("question", ""),
        encoding=given["encoding"],
        seeds=tuple(seeds) if isinstance(seeds, list) else seeds,
        round=given.get("round", 0),
        task=task,
        config=digits_config(task, **model),
        recipe=DigitsRecipe(**{**top.get("recipe", {}), **given.get("recipe", {})}),
    )
    if problems := list(wrong_types(cell)):
        raise InputError("; ".join(problems))
    require_file_name(cell.name)
    if below := [seed for seed in cell.seeds if seed < 0]:
        raise InputError(f"seeds cannot be negative: {below[0]}")
    return cell


def digits_config(task: DigitsTask, **options: Any) -> ModelConfig:
    """Return the model of a digits task: its sizes, heads that share d_model, biases in the MLPs.

    options: fields of `ModelConfig`; n_layers MLPs of 4 d_model neurons unless `d_mlp` says otherwise.
    """
    layers, heads = options.get("n_layers", 1), options.get("n_heads", 4)
    d_model = options.get("d_model", 64)
    return ModelConfig(
        **{
            "d_vocab": len(task.vocab),
            "d_vocab_out": task.d_vocab_out,
            "n_ctx": task.length,
            "n_layers": layers,
            "n_heads": heads,
            "d_model": d_model,
            "d_head": d_model // max(heads, 1),
            "d_mlp": (4 * d_model,) * max(layers, 0),
            "mlp_bias": True,
            **options,
        }
    )


Known = Mapping[tuple[str, int], dict[str, Any]]
"""(cell, seed) -> the run's entry in a summary."""


def runs_of_summary(table: Table, path: Path, *, n: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the runs an earlier summary holds of cells that are still what they were; none where it does not exist.

    n: pairs per length, which must be those of the summary. Raises `InputError` for a file that is no summary,
    or one measured with another n.
    """
    if not path.exists():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        earlier = {entry["name"]: entry for entry in values["cells"]}
        drawn = values["n"]
        same = [
            (cell, earlier[cell.name]["runs"])
            for cell in table.cells
            if cell.name in earlier
            and all(earlier[cell.name][key] == value for key, value in _plain(cell).items())
        ]
        known = {
            (cell.name, run["seed"]): {key: run[key] for key in run if key in RUN}
            for cell, runs in same
            for run in runs
            if run["seed"] in cell.seeds
        }
        if not all(set(run) >= RUN for run in known.values()):
            raise KeyError
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a summary of cells; give another --summary") from error
    if drawn != n:
        raise InputError(f"{path} was measured with --n {drawn}, not {n}; give another --summary")
    return known


def finish(run: CellRun, *, n: int) -> None:
    """Measure a trained run with n pairs per length and write its report, with what it was made of."""
    checkpoint = read(step_path(run.folder.path, run.folder.recipe.steps))
    made_of = {"made_of": _plain(run.cell), "drawn": n}
    write_json(run.report, measure(checkpoint, n=n).as_dict() | made_of)


def summarise(
    table: Table, out: Path, *, source: str, n: int, known: Known | None = None
) -> dict[str, Any]:
    """Return the table as plain JSON values, from the runs that are finished or known from a summary."""
    folder = out.name if out.is_absolute() else out
    command = f"mechint-arith cells {source} --out {folder} --n {n}"
    cells = [_rounded(_summary(cell, out, n, known or {})) for cell in table.cells]
    return {"command": command, "n": n, "cells": cells}


def _rounded(value: Any) -> Any:
    """Return plain values with their numbers rounded to five decimals."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return round(value, 5) if isinstance(value, float) else value


def _plain(cell: Cell) -> dict[str, Any]:
    """Return what makes a cell's runs what they are, as JSON holds it."""
    made_of = {
        "task": task_to_dict(cell.task),
        "model": cell.config.as_dict(),
        "recipe": asdict(cell.recipe),
    }
    plain: dict[str, Any] = json.loads(json.dumps(made_of))
    return plain


def _summary(cell: Cell, out: Path, n: int, known: Known) -> dict[str, Any]:
    runs = []
    for seed in cell.seeds:
        run = cell_run(cell, seed, out)
        if report := run.measured(n):
            runs.append(_run_summary(run, report))
        elif (cell.name, seed) in known:
            runs.append(known[cell.name, seed])
    verdicts: dict[str, Counter[str]] = {}
    for entry in runs:
        for region, verdict in entry["verdicts"].items():
            verdicts.setdefault(region, Counter())[verdict] += 1
    truncated = Counter(_truncated(cell, entry) for entry in runs)
    done = {entry["seed"] for entry in runs}
    return {
        "name": cell.name,
        "group": cell.group,
        "question": cell.question,
        "encoding": cell.encoding,
        **_plain(cell),
        "missing": [seed for seed in cell.seeds if seed not in done],
        "verdicts": {region: dict(counts) for region, counts in verdicts.items()},
        "truncated": {verdict: n for verdict, n in truncated.items() if verdict},
        "lengths": _lengths(cell, [entry for entry in runs if entry["converged"]]),
        "runs": runs,
    }


def _truncated(cell: Cell, entry: Mapping[str, Any]) -> str | None:
    """Return a run's verdict on the truncated function, None where the theory does not speak of it."""
    upward = [
        row["agreement"]["value"]
        for length, row in entry["lengths"].items()
        if int(length) > cell.task.digits
    ]
    if cell.config.positions != "absolute" or not upward:
        return None
    return truncated_verdict(upward, converged=entry["converged"], thresholds=LengthThresholds())


def _run_summary(run: CellRun, report: Mapping[str, Any]) -> dict[str, Any]:
    lengths = {
        str(row["length"]): {key: row[key] for key in ("accuracy", "agreement")}
        for row in report["lengths"]
    }
    kept = {key: report[key] for key in ("in_domain", "converged", "verdicts")}
    return {
        "seed": run.folder.seed,
        **kept,
        "lengths": lengths,
        "curve": _curve(run.folder.path),
    }


def _curve(folder: Path) -> list[dict[str, Any]]:
    """Return agreement with the truncated function over training, as it was logged."""
    prefix, points = "truncated ", []
    for row in read_metrics(folder):
        if row["step"] % CURVE_EVERY == 0 and "in_domain" in row:
            kept = {k.removeprefix(prefix): v for k, v in row.items() if k.startswith(prefix)}
            points.append({"step": row["step"], "in_domain": row["in_domain"], "truncated": kept})
    return points


def _lengths(cell: Cell, converged: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if not converged:
        return rows
    lengths = [int(length) for length in converged[0]["lengths"]]
    for expected in forecast(cell.task, cell.config.positions, lengths):
        row: dict[str, Any] = {
            "length": expected.length,
            "region": expected.region,
            "predicted": None if expected.accuracy is None else float(expected.accuracy),
            "truncated": None if expected.truncated is None else float(expected.truncated),
            "runs": len(converged),
        }
        for key in ("accuracy", "agreement"):
            values = [entry["lengths"][str(expected.length)][key]["value"] for entry in converged]
            row[key] = values
            row[f"mean_{key}"] = across_runs(values).as_dict() if len(values) > 1 else None
        rows.append(row)
    return rows
