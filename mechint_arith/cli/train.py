"""`mechint-arith train …`: one command per task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli.remembered import Told, remembered

if TYPE_CHECKING:
    from mechint_arith.runs import RunFolder

app = typer.Typer(
    no_args_is_help=True,
    help="Train a small model; a stopped run goes on with --out FOLDER --resume.",
)

Out = Annotated[Path, typer.Option(help="Folder for checkpoints and metrics.jsonl.")]
Steps = Annotated[int, typer.Option(help="Optimiser steps.")]
Seed = Annotated[int, typer.Option(help="Seed of initial weights and training data.")]
Every = Annotated[
    int, typer.Option(help="Keep a checkpoint every so many steps (early ones are dense).")
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on from where a run in --out was stopped; it knows its options."
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, …")]
Threads = Annotated[int, typer.Option(help="CPU threads; 0: torch's default.")]


@app.command("assign-add")
@remembered("assign-add")
def assign_add(
    out: Out,
    steps: Steps = 30_000,
    seed: Seed = 42,
    p: Annotated[int, typer.Option("--p", help="Modulus.")] = 59,
    n_vars: Annotated[int, typer.Option(help="Number of variables.")] = 12,
    length: Annotated[int, typer.Option(help="Tokens per sequence.")] = 16,
    d_model: Annotated[int, typer.Option(help="Width of the residual stream.")] = 128,
    d_head: Annotated[
        int | None, typer.Option(help="Width of a head; d_model / heads by default.")
    ] = None,
    heads: Annotated[int, typer.Option(help="Heads per layer.")] = 1,
    d_mlp: Annotated[
        int | None, typer.Option(help="Neurons of the last MLP; 4 d_model by default.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Sequences per step.")] = 512,
    lr: Annotated[float, typer.Option(help="AdamW's learning rate.")] = 1e-3,
    weight_decay: Annotated[
        float, typer.Option(help="AdamW's weight decay, on all tensors.")
    ] = 0.02,
    train_share: Annotated[
        float, typer.Option(help="Share of number pairs seen in training.")
    ] = 0.7,
    split_seed: Annotated[int, typer.Option(help="Seed of the split of the pairs.")] = 42,
    never_left: Annotated[int, typer.Option(help="How many last variables never stand left.")] = 2,
    never_right: Annotated[
        int, typer.Option(help="How many first variables never stand right.")
    ] = 2,
    two_var_frequency: Annotated[
        float, typer.Option(help="How often two-variable rows occur, relative to the full mixture.")
    ] = 1.0,
    two_var_rule: Annotated[
        str, typer.Option(help="weight (pairs stay covered) or rows (the paper's fixed subset).")
    ] = "weight",
    every: Every = 1000,
    resume: Resume = False,
    device: Device = "cpu",
    threads: Threads = 1,
    *,
    told: Told,
) -> None:
    """Learn `x=7, y=12, x+y=?` modulo p, as in arXiv 2605.31497.

    The defaults are the paper's model (p = 59, 281,216 parameters): about 20 ms a step on one CPU core.

    Example: `mechint-arith train assign-add --steps 30000 --seed 42 --out runs/seed42`
    """
    from mechint_arith.cli.run import run_assign_add
    from mechint_arith.models.config import ModelConfig, head_width
    from mechint_arith.runs import RunFolder
    from mechint_arith.tasks.assign_add import AssignAdd
    from mechint_arith.training import Recipe

    width = head_width(d_model, heads, d_head, d_mlp=d_mlp, batch=batch)
    task = AssignAdd(
        p=p,
        n_vars=n_vars,
        length=length,
        never_right=never_right,
        never_left=never_left,
        train_share=train_share,
        split_seed=split_seed,
        two_var_frequency=two_var_frequency,
        two_var_rule=two_var_rule,
    )
    config = ModelConfig(
        d_vocab=len(task.vocab),
        d_vocab_out=task.d_vocab_out,
        n_ctx=task.length,
        n_heads=heads,
        d_model=d_model,
        d_head=width,
        d_mlp=(0, d_mlp or 4 * d_model),
    )
    recipe = Recipe(steps=steps, batch=batch, lr=lr, weight_decay=weight_decay)
    folder: RunFolder = RunFolder(out, config, task, recipe, seed, told)
    run_assign_add(folder, every=every, resume=resume, device=device, threads=threads)
