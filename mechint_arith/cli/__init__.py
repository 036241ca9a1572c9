"""The command line: parse, call, write. Every import of weight happens inside a command, so `--help` is instant."""

from __future__ import annotations

import sys

import typer

from mechint_arith.cli import (
    ask,
    calibrate,
    cells,
    convert,
    decode,
    diagram,
    fourier,
    length,
    probe,
    series,
    sweep,
    theory,
    train,
    train_digits,
    train_modular,
)
from mechint_arith.errors import InputError

app = typer.Typer(
    name="mechint-arith",
    help="Mechanistic interpretability of small transformers that do arithmetic.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
train.app.command("digits")(train_digits.digits)
train.app.command("modular")(train_modular.modular)
app.command("probe")(probe.probe)
app.command("ask")(ask.ask)
app.command("convert")(convert.convert)
app.command("diagram")(diagram.diagram)
app.command("fourier")(fourier.fourier)
app.command("decode")(decode.decode)
app.add_typer(train.app, name="train")
app.command("series")(series.series)
app.command("sweep")(sweep.sweep)
app.command("length")(length.length)
app.command("cells")(cells.cells)
app.command("theory")(theory.theory)
app.command("calibrate")(calibrate.calibrate)


def main() -> None:
    """Run the command line; what a user can mend is one line on stderr and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped; a training run continues with --resume", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
