"""`mechint-arith train digits`: options to task, model and recipe, and the measurements shown meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli.remembered import Told, remembered
from mechint_arith.cli.train import Device, Every, Out, Resume, Seed, Steps, Threads

if TYPE_CHECKING:
    from mechint_arith.runs import RunFolder
    from mechint_arith.training import State

TESTED = 300
"""Pairs per length that are measured in training."""


@remembered("digits")
def digits(
    out: Out,
    op: Annotated[str, typer.Option(help="add or mul.")] = "add",
    mod: Annotated[int | None, typer.Option(help="Modulus; none: the plain result.")] = None,
    n_digits: Annotated[int, typer.Option("--digits", help="Longest operands in training.")] = 3,
    to: Annotated[int, typer.Option(help="Longest operands in tests.")] = 6,
    base: Annotated[int, typer.Option(help="Base of the digits.")] = 10,
    order: Annotated[str, typer.Option(help="Operands' order: lsd or msd.")] = "lsd",
    arrangement: Annotated[str, typer.Option(help="blocks, interleaved or repeated.")] = "blocks",
    separators: Annotated[bool, typer.Option(help="Write the operator and `=`.")] = False,
    single_b: Annotated[bool, typer.Option(help="n-digit by 1-digit multiplication.")] = False,
    train_on: Annotated[
        str, typer.Option(help="Mixture kind:digits:share,… of uniform, longer and both.")
    ] = "",
    positions: Annotated[
        str, typer.Option(help="absolute, relative, rotary or none.")
    ] = "relative",
    content: Annotated[
        bool | None,
        typer.Option(help="Attention by content too; by default all but relative positions."),
    ] = None,
    sink: Annotated[bool, typer.Option(help="A learned sink per head.")] = True,
    scale: Annotated[float, typer.Option(help="Factor on the position bias.")] = 30.0,
    norm: Annotated[str, typer.Option(help="none or rms, before each layer.")] = "rms",
    embed_norm: Annotated[bool, typer.Option(help="Unit-RMS token embeddings.")] = True,
    embed_noise: Annotated[float, typer.Option(help="Noise on embeddings in training.")] = 0.1,
    layers: Annotated[int, typer.Option(help="Layers, each with an MLP.")] = 1,
    heads: Annotated[int, typer.Option(help="Heads per layer.")] = 2,
    d_model: Annotated[int, typer.Option(help="Width of the residual stream.")] = 64,
    d_mlp: Annotated[int | None, typer.Option(help="Neurons per MLP; 4 d_model.")] = None,
    steps: Steps = 2000,
    batch: Annotated[int, typer.Option(help="Sequences per step.")] = 128,
    lr: Annotated[float, typer.Option(help="AdamW's learning rate.")] = 2e-3,
    weight_decay: Annotated[float, typer.Option(help="AdamW's, on all tensors.")] = 0.1,
    cosine: Annotated[bool, typer.Option(help="Let the rate fall along a half cosine.")] = True,
    seed: Seed = 42,
    every: Every = 1000,
    resume: Resume = False,
    device: Device = "cpu",
    threads: Threads = 1,
    *,
    told: Told,
) -> None:
    """Learn arithmetic over digits, to see what happens at other lengths.

    The defaults are addition on three digits with relative positions, about a minute on one CPU core.

    Example: `mechint-arith train digits --mod 300 --positions absolute --out runs/mod300`
    """
    from mechint_arith.cells import digits_config
    from mechint_arith.digit_training import DigitsRecipe
    from mechint_arith.models.config import head_width
    from mechint_arith.runs import RunFolder
    from mechint_arith.tasks.digits import DigitsTask

    width = head_width(d_model, heads, d_mlp=d_mlp, layers=layers, batch=batch)
    task = DigitsTask(
        op=op,
        digits=n_digits,
        longest=to,
        modulus=mod,
        base=base,
        order=order,
        arrangement=arrangement,
        separators=separators,
        single_b=single_b,
        train_on=parse_mixture(train_on),
    )
    config = digits_config(
        task,
        positions=positions,
        attn_content=positions != "relative" if content is None else content,
        attn_sink=sink,
        relative_scale=scale,
        norm=norm,
        embed_norm=embed_norm,
        n_layers=layers,
        n_heads=heads,
        d_model=d_model,
        d_head=width,
        d_mlp=(d_mlp or 4 * d_model,) * layers,
    )
    recipe = DigitsRecipe(
        steps=steps,
        batch=batch,
        lr=lr,
        weight_decay=weight_decay,
        cosine=cosine,
        embed_noise=embed_noise,
    )
    folder = RunFolder(out, config, task, recipe, seed, told)
    run_digits(folder, every=every, resume=resume, device=device, threads=threads)


def parse_mixture(text: str) -> tuple[tuple[str, int, float], ...]:
    """Read `both:3:0.8,both:2:0.2`; the share may be left out of a single part. Raises `InputError`."""
    from mechint_arith.errors import InputError

    parts = []
    for part in filter(None, text.split(",")):
        kind, *numbers = part.split(":")
        try:
            n_digits, share = int(numbers[0]), float(numbers[1]) if len(numbers) > 1 else 1.0
        except (ValueError, IndexError) as error:
            raise InputError(f"--train-on is kind:digits:share,…; cannot read {part!r}") from error
        parts.append((kind, n_digits, share))
    return tuple(parts)


def run_digits(
    folder: RunFolder,
    *,
    every: int,
    resume: bool,
    device: str = "cpu",
    threads: int = 1,
    measure_every: int = 500,
    title: str = "train",
) -> State:
    """Train a digits model, measuring accuracy and agreement with the truncated function at every length.

    metrics.jsonl gets `in_domain`, `length m` and `truncated m` (300 pairs each, so ± 3 points at worst).
    """
    from mechint_arith.answers import matches
    from mechint_arith.cli.run import run
    from mechint_arith.digit_training import DigitsRecipe, Lessons
    from mechint_arith.footprint import require_memory
    from mechint_arith.length import test_sets
    from mechint_arith.models.transformer import Transformer
    from mechint_arith.tasks.digits import DigitsTask, truncated_labels

    task, recipe = folder.task, folder.recipe
    assert isinstance(task, DigitsTask)
    assert isinstance(recipe, DigitsRecipe)
    require_memory(
        folder.config, batch=max(recipe.batch, TESTED), n_logits=task.answer_slots, device=device
    )
    lessons = Lessons(task, folder.config, recipe)
    in_domain, tests = test_sets(task, range(1, task.longest + 1), TESTED, folder.seed)

    def measure(state: State) -> dict[str, float]:
        weights = {name: w.detach().cpu() for name, w in state.weights.items()}
        model = Transformer(folder.config, weights)
        found = {"in_domain": float(matches(model, task, in_domain).mean())}
        for m, test in tests.items():
            found[f"length {m}"] = float(matches(model, task, test).mean())
            truncated = truncated_labels(task, test)
            found[f"truncated {m}"] = float(matches(model, task, test, truncated).mean())
        return found

    return run(
        folder,
        lessons.sample,
        lessons.forward,
        measure,
        every=every,
        resume=resume,
        device=device,
        threads=threads,
        measure_every=measure_every,
        headline=("in_domain", *(f"length {m}" for m in tests)),
        title=title,
    )
