"""`mechint-arith convert`: between our checkpoints and TransformerLens state dicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError, naming

if TYPE_CHECKING:
    from mechint_arith.models.checkpoint import Checkpoint


@o.outside_files()
def convert(
    ckpt: o.OneCkpt,
    out: Annotated[
        Path,
        typer.Option(
            help=".safetensors: our checkpoint, which says what it is; .pth or .pt: a HookedTransformer state dict."
        ),
    ],
    *,
    hints: o.Hints,
) -> None:
    """Turn a checkpoint into TransformerLens' form, or an outside file into ours.

    A state dict gets every bias and, for a layer without an MLP, one of zeros, so that any HookedTransformer of
    its size loads it strictly. It has no place for task, step and seed: what is left behind is printed, and so is
    what was assumed of an outside file. Options say what such a file does not.

    Example: `mechint-arith convert --ckpt model.safetensors --out model.pth`
    """
    from rich.console import Console

    from mechint_arith.cli.fourier_summary import how_read
    from mechint_arith.models.checkpoint import save
    from mechint_arith.models.load import load_checkpoint

    if out.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"--out {out}: expected a name that ends in .safetensors, .pth or .pt")
    o.require_writable(None, out)
    checkpoint = load_checkpoint(ckpt, hints)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    source = checkpoint.meta.get("source")
    if source is not None:
        split = "" if source["split_known"] else ", nor which pairs training saw"
        unknown = "" if checkpoint.step is not None else f"; it does not say step or seed{split}"
        console.print(f"read: {how_read(checkpoint)}{unknown}")
    if out.suffix == ".safetensors":
        save(out, checkpoint)
    else:
        import torch

        from mechint_arith.files import replacing
        from mechint_arith.models.bridge import state_dict

        with naming(ckpt):
            tensors = state_dict(checkpoint.config, checkpoint.weights)
        with replacing(out) as temporary:
            torch.save(tensors, temporary)
        console.print(f"not in {out}: {left_behind(checkpoint)}")
    console.print(f"written: {out}")


def left_behind(checkpoint: Checkpoint) -> str:
    """Return what a state dict cannot hold of a checkpoint, and the options that say it again."""
    from mechint_arith.models.foreign_task import SPLIT, TASKS
    from mechint_arith.tasks import task_name

    name = task_name(checkpoint.task)
    kept = "" if checkpoint.step is None else f"step {checkpoint.step}, seed {checkpoint.seed}, "
    if name not in TASKS:
        return f"{kept}task and recipe; state dicts of {name} models cannot be read back"
    source = checkpoint.meta.get("source")
    unsure = (
        set() if source is None else {*source["assumed"], *(() if source["split_known"] else SPLIT)}
    )
    options = [f"--task {name}"]
    for option in o.OUTSIDE_FILES:
        value = getattr(checkpoint.task, option, None)
        if value is None or option in unsure:
            continue
        written = option.replace("_", "-")
        if isinstance(value, bool):
            options.append(f"--{written}" if value else f"--no-{written}")
        else:
            options.append(f"--{written} {value}")
    return f"{kept}recipe and task; to read it, say {' '.join(options)}"
