"""The measured cells of length generalisation as Markdown, predicted and measured side by side.

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
VERDICTS = ("as predicted", "not as predicted", "not converged")


def main(out: Path, smoke: bool = False) -> str:
    """Write `length_cells.md` from `length_cells.json`; smoke: of the first three cells."""
    values = json.loads(MEASURED.read_text(encoding="utf-8"))
    cells = [cell for cell in values["cells"] if cell["runs"]]
    lines = [
        f"Made by `{values['command']}` and `python analyses/length_table.py`.",
        "",
        f"Exact match in %, up to {values['n']:,} pairs per length and run; means over converged runs, with every"
        " run's value in brackets. Agreement: exact match with the truncated function. Verdicts: runs as predicted"
        " / not as predicted / not converged.",
    ]
    for group in dict.fromkeys(cell["group"] for cell in cells):
        chosen = [cell for cell in cells if cell["group"] == group]
        lines += ["", f"## {group}", ""]
        lines += [
            "| cell | in domain | downward | upward | digits | predicted | measured | agreement |"
        ]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for cell in chosen[:3] if smoke else chosen:
            lines += _rows(cell)
    missing = [f"{c['name']} seed {s}" for c in values["cells"] for s in c["missing"]]
    lines += ["", "Not run: " + (", ".join(missing) or "nothing") + "."]
    text = "\n".join(lines) + "\n"
    write_text(out / "length_cells.md", text)
    return text


def _rows(cell: dict[str, Any]) -> list[str]:
    in_domain = " ".join(f"{100 * run['in_domain']['value']:.1f}" for run in cell["runs"])
    counts = [
        " / ".join(str(cell["verdicts"].get(region, {}).get(v, 0)) for v in VERDICTS)
        for region in ("downward", "upward")
    ]
    head = f"| {cell['name']} | {in_domain} | {counts[0]} | {counts[1]} |"
    upward = [row for row in cell["lengths"] if row["region"] == "upward"]
    if not upward:
        return [f"{head} | | | |"]
    rows = []
    for row in upward:
        predicted = "not 100" if row["predicted"] is None else f"{100 * row['predicted']:.2f}"
        shares = " | ".join(_values(row[key]) for key in ("accuracy", "agreement"))
        rows.append(f"{head} {row['length']} | {predicted} | {shares} |")
        head = "| | | | |"
    return rows


def _values(shares: list[float]) -> str:
    mean = f"{100 * sum(shares) / len(shares):.1f}"
    return mean if len(shares) == 1 else f"{mean} ({', '.join(f'{100 * x:.1f}' for x in shares)})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("analyses/results"))
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    main(options.out, options.smoke)
