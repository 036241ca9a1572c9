"""The measured cells of length generalisation as Markdown: the sixteen first, then every cell by group.

mechint-arith cells analyses/length_cells.toml --out runs/cells --summary analyses/results/length_cells.json
python analyses/length_table.py --out analyses/results
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mechint_arith.files import write_text

MEASURED = Path(__file__).parent / "results" / "length_cells.json"
SIXTEEN = "sixteen"
VERDICTS = ("as predicted", "not as predicted", "not converged")
NOTE = """\
Exact match in %, up to {n:,} pairs per length and run; means over converged runs (in domain 99 % or more), with every
run's value in brackets; a value without brackets is one run's. Agreement: exact match with the truncated function, which
says something only for absolute positions (for a misaligned modulus a model that is wrong now and then agrees now and
then). Verdicts: runs as predicted / not as predicted / not converged. An upward accuracy of 0 is easily predicted, as
whatever is broken has it: the last column judges what the theory says of absolute positions, that the truncated function
is computed (99 % agreement at every length upward). First runs: what was run first, and shorter; groups and questions are
in `analyses/length_cells.toml`."""


def main(out: Path, smoke: bool = False) -> str:
    """Write `length_cells.md` from `length_cells.json`; smoke: of the first three cells."""
    values = json.loads(MEASURED.read_text(encoding="utf-8"))
    cells = [cell for cell in values["cells"] if cell["runs"]]
    cells = cells[:3] if smoke else cells
    lines = [f"Made by `{values['command']}` and `python analyses/length_table.py`.", ""]
    lines += [NOTE.format(n=values["n"]), "", "## The sixteen cells", ""]
    lines += [
        "| task | encoding | region | digits | predicted | measured | agreement | verdicts | truncated function |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    for cell in cells:
        if cell["group"] == SIXTEEN:
            lines += [_cell(cell, region) for region in ("downward", "upward")]
    for group in dict.fromkeys(cell["group"] for cell in cells):
        lines += ["", f"## Runs: {group}", ""]
        lines += [
            "| cell | in domain | downward | upward | digits | predicted | measured | agreement |"
        ]
        lines += ["|---|---|---|---|---|---|---|---|---|"]
        for cell in cells:
            lines += _rows(cell) if cell["group"] == group else []
    missing = [f"{c['name']} seed {s}" for c in values["cells"] for s in c["missing"]]
    lines += ["", "Not run: " + (", ".join(missing) or "nothing") + "."]
    text = "\n".join(lines) + "\n"
    write_text(out / "length_cells.md", text)
    return text


def _cell(cell: dict[str, Any], region: str) -> str:
    """One of the sixteen: a region of a task and an encoding, its lengths side by side."""
    rows = [row for row in cell["lengths"] if row["region"] == region]
    lengths = ", ".join(str(row["length"]) for row in rows)
    predicted = ", ".join(_predicted(row) for row in rows)
    shares = (", ".join(_mean(row[key]) for row in rows) for key in ("accuracy", "agreement"))
    told = (_task(cell["task"]), cell["encoding"], region, lengths, predicted, *shares)
    truncated = _counts(cell["truncated"]) if region == "upward" and cell["truncated"] else ""
    return f"| {' | '.join(told)} | {_verdicts(cell, region)} | {truncated} |"


def _task(task: dict[str, Any]) -> str:
    name = {"add": "addition", "mul": "multiplication"}[task["op"]]
    modulus = f" mod {task['modulus']}" if task["modulus"] else ""
    return f"{name}{modulus}, base {task['base']}, n = {task['digits']}"


def _rows(cell: dict[str, Any]) -> list[str]:
    in_domain = " ".join(f"{100 * run['in_domain']['value']:.1f}" for run in cell["runs"])
    down, up = (_verdicts(cell, region) for region in ("downward", "upward"))
    truncated = _counts(cell["truncated"]) if cell["truncated"] else ""
    head = f"| {cell['name']} | {in_domain} | {down} | {up} | {truncated} |"
    upward = [row for row in cell["lengths"] if row["region"] == "upward"]
    if not upward:
        return [f"{head} | | | |"]
    rows = []
    for row in upward:
        shares = " | ".join(_values(row[key]) for key in ("accuracy", "agreement"))
        rows.append(f"{head} {row['length']} | {_predicted(row)} | {shares} |")
        head = "| | | | | |"
    return rows


def _verdicts(cell: dict[str, Any], region: str) -> str:
    return _counts(cell["verdicts"].get(region, {}))


def _counts(verdicts: dict[str, int]) -> str:
    return " / ".join(str(verdicts.get(v, 0)) for v in VERDICTS)


def _predicted(row: dict[str, Any]) -> str:
    return "not 100" if row["predicted"] is None else f"{100 * row['predicted']:.2f}"


def _mean(shares: list[float]) -> str:
    return f"{100 * sum(shares) / len(shares):.1f}"


def _values(shares: list[float]) -> str:
    every = ", ".join(f"{100 * x:.1f}" for x in shares)
    return _mean(shares) if len(shares) == 1 else f"{_mean(shares)} ({every})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("analyses/results"))
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    main(options.out, options.smoke)
