"""`mechint-arith ask`: one prompt in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mechint_arith.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from mechint_arith.asking import Answer


@o.outside_files()
def ask(
    prompt: Annotated[str, typer.Argument(help="Such as '7 + 12 =' or 'a 7 b 12 + a b ='.")],
    ckpt: o.OneCkpt,
    top: Annotated[int, typer.Option(help="How many answers to show.")] = 5,
    figure: Annotated[
        Path | None, typer.Option(help="Also write the attention figure: .html.")
    ] = None,
    as_json: o.AsJson = False,
    *,
    hints: o.Hints,
) -> None:
    """Ask a model one thing: its answers, where it looks from `=`, and what each part adds.

    Example: `mechint-arith ask --ckpt checkpoints/assign_add_small/step_006000.safetensors "a 3 b 5 + a b ="`
    """
    from dataclasses import asdict

    from rich.console import Console

    from mechint_arith.asking import ask as run_ask
    from mechint_arith.models.load import load_checkpoint

    o.require_writable(None, figure)
    o.set_threads(1)
    checkpoint = load_checkpoint(ckpt, hints)
    answer = run_ask(checkpoint, prompt, top=top)
    if figure is not None:
        from mechint_arith.figures.export import save

        save(answer.figure(), figure)
    if as_json:
        attention = {name: row.tolist() for name, row in answer.attention.items()}
        source = checkpoint.meta.get("source")
        o.print_json({**asdict(answer), "attention": attention, "source": source})
        return
    console = Console()
    if "source" in checkpoint.meta:
        from mechint_arith.cli.fourier_summary import how_read

        console.print(how_read(checkpoint), style="dim", highlight=False, markup=False)
    _print(console, answer)


def _print(console: Console, answer: Answer) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = " ".join(token for token in answer.tokens if token != "PAD")
    mark = (
        ("right", "bold green")
        if answer.is_right
        else (f"wrong, {answer.right} is right", "bold red")
    )
    console.print(Text.assemble(f"{shown} ", (str(answer.answer), "bold"), "  ", mark))
    answers = Table("answer", "probability", "logit", box=None, header_style="bold", pad_edge=False)
    for value, probability, logit in answer.top:
        answers.add_row(str(value), f"{probability:.4f}", f"{logit:.2f}")
    console.print(answers)
    console.print()
    attention = Table(
        "attention from =", *answer.attention, box=None, header_style="bold", pad_edge=False
    )
    bar = "#" if console.options.ascii_only else "█"
    for i, token in enumerate(answer.tokens):
        row = [float(weights[i]) for weights in answer.attention.values()]
        if token != "PAD" or max(row) >= 0.01:
            bars = (f"{w:.3f} {bar * round(20 * w):<20}" for w in row)
            attention.add_row(f"{i:>2} {token}", *bars)
    console.print(attention)
    console.print()
    parts = Table("part", "adds to the margin", box=None, header_style="bold", pad_edge=False)
    for name, adds in answer.parts:
        parts.add_row(name, f"{adds:8.2f}")
    parts.add_row(Text("margin", style="bold"), Text(f"{answer.margin:8.2f}", style="bold"))
    console.print(parts)
