"""`mechint-arith ask`: one prompt in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from mechint_arith.asking import Answer


@o.outside_files()
def ask(
    prompt: Annotated[
        str, typer.Argument(help="Such as '7 + 12', 'a 7 b 12 + a b' or 'a=7, b=12, a+b=?'.")
    ],
    ckpt: o.OneCkpt,
    top: Annotated[int, typer.Option(help="How many answers to show.")] = 5,
    figure: Annotated[
        Path | None, typer.Option(help="Also write the attention figure: .html.")
    ] = None,
    forms: Annotated[
        bool,
        typer.Option(
            "--forms", help="Ask all four forms of the question: 7 + 12, a + 12, 7 + b and a + b."
        ),
    ] = False,
    as_json: o.AsJson = False,
    *,
    hints: o.Hints,
) -> None:
    """Ask a model one thing: its answers, where it looks from `=`, and what each part adds.

    Example: `mechint-arith ask --ckpt checkpoints/assign_add_small/step_006000.safetensors "a=3, b=5, a+b=?"`
    """
    from rich.console import Console

    from mechint_arith.asking import ask as run_ask
    from mechint_arith.asking import ask_forms
    from mechint_arith.models.load import load_checkpoint

    if forms and figure is not None:
        raise InputError("--figure shows one prompt: leave --forms or --figure out")
    o.require_writable(None, figure)
    o.set_threads(1)
    checkpoint = load_checkpoint(ckpt, hints)
    if forms:
        answers = ask_forms(checkpoint, prompt, top=top)
    else:
        answers = {"": run_ask(checkpoint, prompt, top=top)}
    if figure is not None:
        from mechint_arith.figures.export import save

        save(answers[""].figure(), figure)
    if as_json:
        source = {"source": checkpoint.meta.get("source")}
        found = {name: _as_dict(answer) for name, answer in answers.items()}
        o.print_json({**found.get("", {"forms": found}), **source})
        return
    console = Console()
    if "source" in checkpoint.meta:
        from mechint_arith.cli.fourier_summary import how_read

        console.print(how_read(checkpoint), style="dim", highlight=False, markup=False)
    if forms:
        _print_forms(console, answers)
    else:
        _print(console, answers[""])


def _as_dict(answer: Answer) -> dict[str, Any]:
    from dataclasses import asdict

    attention = {name: row.tolist() for name, row in answer.attention.items()}
    return {**asdict(answer), "attention": attention}


MARGIN = "mean margin: the right answer's logit minus the mean of all others"


def _print_forms(console: Console, answers: dict[str, Answer]) -> None:
    from rich.table import Table

    from mechint_arith.tasks.assign_add import QUERIES

    columns = ("form", "prompt", "answer", "right", "probability", "mean margin")
    grid = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for route, a in answers.items():
        probability = f"{a.top[0][1]:.4f}"
        grid.add_row(
            QUERIES[route], _shown(a), str(a.answer), str(a.right), probability, f"{a.margin:.2f}"
        )
    console.print(grid)
    console.print(MARGIN, style="dim", highlight=False)


def _shown(answer: Answer) -> str:
    return " ".join(token for token in answer.tokens if token != "PAD")


def _print(console: Console, answer: Answer) -> None:
    from rich.table import Table
    from rich.text import Text

    mark = (
        ("right", "bold green")
        if answer.is_right
        else (f"wrong, {answer.right} is right", "bold red")
    )
    console.print(Text.assemble(f"{_shown(answer)} ", (str(answer.answer), "bold"), "  ", mark))
    answers = Table("answer", "probability", "logit", box=None, header_style="bold", pad_edge=False)
    for value, probability, logit in answer.top:
        answers.add_row(str(value), f"{probability:.4f}", f"{logit:.2f}")
    console.print(answers)
    console.print()
    _print_attention(console, answer)
    parts = Table("part", "adds to the mean margin", box=None, header_style="bold", pad_edge=False)
    for name, adds in answer.parts:
        parts.add_row(name, f"{adds:8.2f}")
    parts.add_row(Text("mean margin", style="bold"), Text(f"{answer.margin:8.2f}", style="bold"))
    console.print(parts)
    console.print(MARGIN, style="dim", highlight=False)


def _print_attention(console: Console, answer: Answer) -> None:
    """Print attention from the read position, as many heads side by side as the terminal has room for."""
    from rich.table import Table

    pads = [i for i, token in enumerate(answer.tokens) if token == "PAD"]
    rows = {f"{i:>2} {t}": [i] for i, t in enumerate(answer.tokens) if t != "PAD"}
    if pads:
        rows = {f"PAD, {len(pads)} in all": pads, **rows}
    bar = "#" if console.options.ascii_only else "█"
    heads = list(answer.attention)
    beside = max(1, (console.width - 16) // 28)
    for first in range(0, len(heads), beside):
        chosen = heads[first : first + beside]
        grid = Table("attention from =", *chosen, box=None, header_style="bold", pad_edge=False)
        for name, places in rows.items():
            weights = [float(answer.attention[head][places].sum()) for head in chosen]
            grid.add_row(name, *(f"{w:.3f} {bar * round(20 * w):<20}" for w in weights))
        console.print(grid)
        console.print()
