"""`mechint-arith convert`: between our checkpoints and TransformerLens state dicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError


def convert(
    ckpt: o.OneCkpt,
    out: Annotated[
        Path,
        typer.Option(
            help=".safetensors: our checkpoint, which says what it is; .pth or .pt: a HookedTransformer state dict."
        ),
    ],
    task: o.TaskName = None,
    p: o.P = None,
    train_share: o.TrainShare = None,
    split_seed: o.SplitSeed = None,
    never_left: o.NeverLeft = None,
    never_right: o.NeverRight = None,
) -> None:
    """Turn a checkpoint into TransformerLens' form, or an outside file into ours.

    A state dict gets every bias and, for a layer without an MLP, one of zeros, so that any HookedTransformer of
    its size loads it strictly. Options say what an outside file does not.

    Example: `mechint-arith convert --ckpt model.safetensors --out model.pth`
    """
    from rich.console import Console

    from mechint_arith.models.checkpoint import save
    from mechint_arith.models.load import load_checkpoint

    if out.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"--out {out}: expected a name that ends in .safetensors, .pth or .pt")
    o.require_writable(None, out)
    checkpoint = load_checkpoint(
        ckpt,
        o.hints(
            task=task,
            p=p,
            train_share=train_share,
            split_seed=split_seed,
            never_left=never_left,
            never_right=never_right,
        ),
    )
    if out.suffix == ".safetensors":
        save(out, checkpoint)
    else:
        import torch

        from mechint_arith.files import replacing
        from mechint_arith.models.bridge import state_dict

        tensors = state_dict(checkpoint.config, checkpoint.weights)
        with replacing(out) as temporary:
            torch.save(tensors, temporary)
    Console().print(f"written: {out}", highlight=False)
