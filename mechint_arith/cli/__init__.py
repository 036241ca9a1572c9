"""The command line: parse, call, write. Every import of weight happens inside a command, so `--help` is instant."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, NoReturn

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
from mechint_arith.memory import is_shortage

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


UsageError: Any = typer.BadParameter.__base__
"""Unknown options and commands, missing and impossible values."""
STOPPED = {
    "cells": "; the same command goes on where it was",
    "sweep": "; the same command goes on where it was",
}


def main() -> None:
    """Run the command line; what a user can mend is one line on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not know every sign printed
    arguments = sys.argv[1:]
    command = typer.main.get_command(app)
    try:
        if "" in arguments:
            raise InputError(
                "an argument is empty, which would stand for the current folder: is a variable of your shell unset?"
            )
        with command.make_context("mechint-arith", list(arguments)) as context:
            command.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # whose making printed the help
            sys.exit(2)
        _fail(_usage(error, command, arguments))
    except InputError as error:
        _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error):
            raise
        _fail("the memory is not enough: choose smaller sizes, or a machine with more")
    except KeyboardInterrupt as stop:
        name = next((word for word in arguments if not word.startswith("-")), "")
        print(f"stopped{STOPPED.get(name, ''.join(map(str, stop.args)))}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None or error.errno != errno.ENOSPC:
            raise
        _discard_output()
        _fail(f"cannot write the output: {error.strerror}")
    sys.exit(0)


def _discard_output() -> None:
    """Let what is left to flush go nowhere: Python flushes once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def _usage(error: Any, command: Any, arguments: list[str]) -> str:
    """Return in one line what is wrong with the arguments, and where to look them up."""
    path = ["mechint-arith"]
    for word in arguments:
        if (command := getattr(command, "commands", {}).get(word)) is None:
            break
        path.append(word)
    text = " ".join(error.format_message().split()).removesuffix(".")
    return f"{text[:1].lower()}{text[1:]} (see {' '.join(path)} --help)"
