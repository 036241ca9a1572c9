"""One row per checkpoint that `probe` measured: whole for a file, narrow for a terminal or a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from mechint_arith.modular_findings import ModularFindings
    from mechint_arith.probing import Findings
    from mechint_arith.stats import Estimate

    Found = Findings | ModularFindings

NAMES = ("folder", "file", "step", "seed")
TEXTS = ("folder", "file", "verdict", "circuit", "key frequencies")
POOLS = ("all", "seen", "held")


def write_tables(found: Sequence[Found], paths: Sequence[Path], files: Sequence[Path]) -> None:
    """Write the table into every file: all columns as CSV, those that fit a page as LaTeX."""
    from mechint_arith.tables import write_table

    frame = summary_table(found, paths)
    for file in files:
        write_table(narrow(frame, limits=True) if file.suffix == ".tex" else frame, file)


def print_tables(console: Console, found: Sequence[Found], paths: Sequence[Path]) -> None:
    """Print one table per kind of task, as kinds have other columns, narrow enough for 80 of them."""
    for kind in dict.fromkeys(type(one) for one in found):
        chosen = [i for i, one in enumerate(found) if type(one) is kind]
        frame = narrow(summary_table([found[i] for i in chosen], [paths[i] for i in chosen]))
        grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
        for column in frame.columns:
            grid.add_column(column, justify="left" if column in TEXTS else "right", overflow="fold")
        for values in frame.itertuples(index=False):
            grid.add_row(
                *("–" if v != v else f"{v:.3f}" if isinstance(v, float) else str(v) for v in values)
            )
        console.print(grid)


def summary_table(found: Sequence[Found], paths: Sequence[Path]) -> pd.DataFrame:
    """One row per checkpoint: where it is, step, seed, accuracies, and the verdict or the circuit with its numbers.

    Every accuracy has its interval and n beside it. Two kinds of task in one table leave each other's columns empty.
    """
    import pandas as pd

    from mechint_arith.modular_findings import ModularFindings

    rows = []
    for one, path in zip(found, paths, strict=True):
        row = {
            "folder": str(path.parent),
            "file": path.name,
            "step": one.checkpoint.step,
            "seed": one.checkpoint.seed,
        }
        row |= _modular_row(one) if isinstance(one, ModularFindings) else _assign_add_row(one)
        rows.append(row | {"sha256": one.provenance["sha256"][:12]})
    frame = pd.DataFrame(rows)
    for name in frame.columns:  # else pandas would turn whole numbers beside missing ones into 4.0
        if name in ("step", "seed") or name.endswith(" n"):
            frame[name] = pd.Series([row.get(name) for row in rows], dtype=object)
    return frame[[*(name for name in frame.columns if name != "sha256"), "sha256"]]


def narrow(frame: pd.DataFrame, *, limits: bool = False) -> pd.DataFrame:
    """Return the columns that a terminal or a page has room for, with short names on two lines.

    Of folder, file, step and seed only those that tell the rows apart. limits: the index with its limits.
    """
    ends = (" low", " high", " n")
    columns = [
        name for name in frame.columns if name not in (*NAMES, "sha256") and not name.endswith(ends)
    ]
    chosen = frame[[*_telling_apart(frame), *columns]].copy()
    if limits and "index" in chosen:
        rows = frame[["index", "index low", "index high"]].itertuples(index=False)
        chosen["index"] = [_folded(*row) for row in rows]
    return chosen.rename(columns=short)


def short(name: str) -> str:
    """Return a pool's name on two lines: `0v seen`, `2v r1`, …"""
    return name.replace("var_", "v\n").replace("restricted_", "r").replace("restricted", "restr")


def _telling_apart(frame: pd.DataFrame) -> list[str]:
    """Return the fewest names by which every row is another one."""
    for names in (["step"], ["seed", "step"], ["folder", "step"], ["file"]):
        known = frame[names].notna().all(axis=None)
        if known and not frame.duplicated(names).any():
            return names
    return ["folder", "file"]


def _folded(value: float, low: float, high: float) -> str:
    if value != value:
        return "–"
    return re.sub(r"\b0\.", ".", f"{value:.3f} [{low:.3f}, {high:.3f}]")


def _accuracies(
    found: Mapping[str, Estimate], names: Sequence[str], *, keep: bool
) -> dict[str, Any]:
    """Return value, limits and n of every pool; keep: also of pools that were not measured, as missing."""
    row: dict[str, Any] = {}
    for name in names:
        e = found.get(name)
        if e is not None:
            row |= {name: e.value, f"{name} low": e.low, f"{name} high": e.high, f"{name} n": e.n}
        elif keep:
            row |= dict.fromkeys((name, f"{name} low", f"{name} high"), float("nan"))
            row[f"{name} n"] = None
    return row


def _assign_add_row(found: Findings) -> dict[str, Any]:
    from mechint_arith.tasks.pools import PAPER_POOLS

    row = _accuracies(found.accuracy, PAPER_POOLS, keep=False)
    index, name = found.verdict.index, found.verdict.name
    known = name != "not competent"  # an untrained network scores high
    row["verdict"] = name
    for end, value in (("", index.value), (" low", index.low), (" high", index.high)):
        row[f"index{end}"] = value if known else float("nan")
    return row


def _modular_row(found: ModularFindings) -> dict[str, Any]:
    row = _accuracies(found.accuracy, POOLS, keep=True)
    key = () if found.frequencies is None else found.frequencies.key
    return row | {"circuit": found.kind, "key frequencies": " ".join(map(str, key))}
