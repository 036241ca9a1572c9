"""`mechint-arith train modular`: the grokking set-up, on a one-layer model's closed form where it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli.remembered import Told, remembered
from mechint_arith.cli.train import Device, Out, Resume, Seed, Threads

if TYPE_CHECKING:
    from mechint_arith.runs import RunFolder
    from mechint_arith.training import State


@remembered("modular")
def modular(
    out: Out,
    p: Annotated[int, typer.Option("--p", help="Modulus.")] = 113,
    op: Annotated[str, typer.Option(help="add, sub, mul or div.")] = "add",
    steps: Annotated[int, typer.Option(help="Optimiser steps; every one sees all pairs.")] = 25_000,
    seed: Seed = 0,
    train_share: Annotated[float, typer.Option(help="Share of pairs seen in training.")] = 0.3,
    split_seed: Annotated[int, typer.Option(help="Seed of the split of the pairs.")] = 0,
    labels: Annotated[
        str, typer.Option(help="rule, or random: answers that can only be memorised.")
    ] = "rule",
    equals: Annotated[
        bool, typer.Option("--equals/--no-equals", help="Whether sequences end in =.")
    ] = True,
    layers: Annotated[int, typer.Option(help="Layers, each with an MLP.")] = 1,
    heads: Annotated[int, typer.Option(help="Heads per layer.")] = 4,
    d_model: Annotated[int, typer.Option(help="Width of the residual stream.")] = 128,
    d_mlp: Annotated[int | None, typer.Option(help="Neurons per MLP; 4 d_model.")] = None,
    attn_coeff: Annotated[
        float, typer.Option(help="c of an attention mix c softmax + (1 - c); 1: softmax.")
    ] = 1.0,
    lr: Annotated[float, typer.Option(help="AdamW's learning rate.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="AdamW's, on all tensors.")] = 1.0,
    beta2: Annotated[float, typer.Option(help="AdamW's second beta.")] = 0.98,
    every: Annotated[
        int, typer.Option(help="Keep a checkpoint every so many steps (early ones are dense).")
    ] = 500,
    resume: Resume = False,
    device: Device = "cpu",
    threads: Threads = 1,
    *,
    told: Told,
) -> None:
    """Learn `a b =` modulo p until it groks: memorised first, generalised later (arXiv 2301.05217).

    Full batch, float64 loss. The defaults are the paper's model (p = 113, 226,816 parameters): about 60 ms a
    step on one CPU core. metrics.jsonl gets loss and accuracy on seen and held-out pairs every 100 steps.

    Example: `mechint-arith train modular --p 59 --d-model 64 --train-share 0.4 --out runs/grok59`
    """
    from mechint_arith.models.config import ModelConfig, head_width
    from mechint_arith.runs import RunFolder
    from mechint_arith.tasks.modular import ModularTask
    from mechint_arith.training import Recipe

    width = head_width(d_model, heads, layers=layers)
    task = ModularTask(
        p=p,
        op=op,
        train_share=train_share,
        split_seed=split_seed,
        labels=labels,
        equals=equals,
    )
    config = ModelConfig(
        d_vocab=len(task.vocab),
        d_vocab_out=task.d_vocab_out,
        n_ctx=task.length,
        n_layers=layers,
        n_heads=heads,
        d_model=d_model,
        d_head=width,
        d_mlp=(4 * d_model if d_mlp is None else d_mlp,) * layers,
        attn_mix=attn_coeff,
    )
    recipe = Recipe(
        steps=steps,
        batch=0,
        lr=lr,
        betas=(0.9, beta2),
        weight_decay=weight_decay,
        loss_float64=True,
    )
    folder: RunFolder = RunFolder(out, config, task, recipe, seed, told)
    run_modular(folder, every=every, resume=resume, device=device, threads=threads)


def run_modular(
    folder: RunFolder,
    *,
    every: int,
    resume: bool,
    device: str = "cpu",
    threads: int = 1,
    measure_every: int = 100,
) -> State:
    """Train a modular model on its full batch, measuring loss and accuracy on seen and held-out pairs."""
    import torch

    from mechint_arith.cli.run import run
    from mechint_arith.footprint import require_memory
    from mechint_arith.metrics import correct, loss
    from mechint_arith.tasks.modular import ModularTask
    from mechint_arith.training import closed_forward

    task = folder.task
    assert isinstance(task, ModularTask)
    rows = int(task.p**2 * max(task.train_share, (1 - task.train_share) / 2))
    read = 1 if folder.config.n_layers == 1 else task.length
    require_memory(folder.config, batch=rows, n_logits=read, device=device)
    forward = closed_forward(folder.config, task.length - 1)
    seen, held = task.train(), task.held()

    def measure(state: State) -> dict[str, float]:
        found = {}
        for name, batch in (("seen", seen), ("held", held)):
            labels = torch.from_numpy(batch.labels).to(device)
            with torch.no_grad():
                logits = forward(state.weights, torch.from_numpy(batch.tokens).to(device), 1)
            found[f"accuracy_{name}"] = float(correct(logits, labels).float().mean())
            found[f"loss_{name}"] = float(loss(logits, labels).mean())
        return found

    return run(
        folder,
        lambda n, rng: seen,
        forward,
        measure,
        every=every,
        resume=resume,
        device=device,
        threads=threads,
        measure_every=measure_every,
        headline=("accuracy_seen", "accuracy_held"),
        title=f"train {task.op} mod {task.p}",
    )
