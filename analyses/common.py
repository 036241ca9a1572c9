"""What every analysis script needs: the checkpoints it reads, its options, and where its results go.

No measurement and no figure is made here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import torch

from mechint_arith.dynamics import Series, checkpoints, measure_series
from mechint_arith.errors import InputError
from mechint_arith.figures.export import save
from mechint_arith.files import write_json
from mechint_arith.measures.subject import Prompts, Subject
from mechint_arith.models.load import load_checkpoint

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent / "checkpoints" / "assign_add_p59"
RELEASED = HERE.parents[1] / "shared" / "reference" / "assign_and_add"

Story = dict[str, Any]
"""What a script found: name -> plain JSON value."""

chosen: dict[str, Path] = {}
"""The folder given with `--run`, if one was."""


def folder() -> Path:
    """Return the checkpoints to analyse: `--run`, else the shipped run, else the released one beside this checkout."""
    for place in (chosen.get("run"), SHIPPED, RELEASED):
        if place is not None and place.is_dir() and any(place.glob("*step_*")):
            return place
    raise InputError(
        "no checkpoints to analyse: expected checkpoints/assign_add_p59, or give --run FOLDER"
    )


def subject(step: int | None = None, *, n: int = 500) -> Subject:
    """Return the checkpoint nearest to a step (by default the last one), ready to be measured."""
    files = checkpoints(folder())
    nearest = max(files) if step is None else min(files, key=lambda s: abs(s - step))
    checkpoint = load_checkpoint(files[nearest])
    return Subject.of(checkpoint, Prompts(checkpoint.task, n=n, n_cell=50))  # type: ignore[arg-type]


def series(out: Path, smoke: bool, measures: Iterable[str], *, n: int = 1000) -> Series:
    """Measure the folder's checkpoints, kept in `out`; smoke: three of them, few sequences."""
    steps = list(checkpoints(folder()))
    steps = [steps[0], steps[len(steps) // 2], steps[-1]] if smoke else steps
    kept = out / "cache"
    return measure_series(folder(), measures, cache=kept, steps=steps, n=100 if smoke else n)


def finish(
    out: Path, name: str, values: Mapping[str, Any], figures: Mapping[str, go.Figure]
) -> Story:
    """Write what a script found as JSON and its figures as HTML, and return the former."""
    found = {"run": folder().name, **values}
    write_json(out / f"{name}.json", found)
    for title, figure in figures.items():
        save(figure, out / f"{name}_{title}.html")
    return found


def begin(main: Callable[[Path, bool], Story]) -> None:
    """Parse `--out`, `--run` and `--smoke` and call a script's main."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/analyses"), help="folder for results")
    parser.add_argument(
        "--run", type=Path, help="folder of checkpoints; the shipped run by default"
    )
    parser.add_argument("--smoke", action="store_true", help="as small as possible, to see it run")
    options = parser.parse_args()
    if options.run is not None:
        chosen["run"] = options.run
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, value in main(options.out, options.smoke).items():
        print(f"{name}: {value}")
