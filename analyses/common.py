"""What every analysis script needs: the checkpoints it reads, its options, and where its results go.

No measurement and no figure is made here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from mechint_arith.dynamics import checkpoints
from mechint_arith.errors import InputError
from mechint_arith.measures.subject import Prompts, Subject
from mechint_arith.models.load import load_checkpoint

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent / "checkpoints" / "assign_add_p59"
RELEASED = HERE.parents[1] / "shared" / "reference" / "assign_and_add"

Story = dict[str, Any]
"""What a script found: name -> plain value, for the test and for printing."""


def story(values: Mapping[str, Any]) -> Story:
    """Print what was found, one line each, and return it."""
    for name, value in values.items():
        print(f"{name}: {value}")
    return dict(values)


def checkpoint_series(run: str | Path | None = None) -> Path:
    """Return the folder of checkpoints to analyse: the given one, the shipped one, or the released run beside it."""
    for folder in (run, SHIPPED, RELEASED):
        if folder is not None and Path(folder).is_dir() and any(Path(folder).glob("*step_*")):
            return Path(folder)
    raise InputError(
        "no checkpoints to analyse: expected checkpoints/assign_add_p59, or give --run FOLDER"
    )


def subject(step: int | None = None, run: str | Path | None = None, *, n: int = 500) -> Subject:
    """Return the checkpoint nearest to a step (by default the last one), ready to be measured."""
    files = checkpoints(checkpoint_series(run))
    nearest = max(files) if step is None else min(files, key=lambda s: abs(s - step))
    checkpoint = load_checkpoint(files[nearest])
    return Subject.of(checkpoint, Prompts(checkpoint.task, n=n, n_cell=50))  # type: ignore[arg-type]


def begin(main: Callable[..., Story]) -> None:
    """Parse `--out`, `--run` and `--smoke` and call a script's main."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/analyses"), help="folder for results")
    parser.add_argument("--smoke", action="store_true", help="as small as possible, to see it run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    main(options.out, options.smoke)
