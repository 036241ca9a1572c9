"""Tables as files for papers and spreadsheets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mechint_arith.errors import InputError
from mechint_arith.files import write_text

if TYPE_CHECKING:
    import pandas as pd


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or as a LaTeX tabular (booktabs), by the file's suffix."""
    if path.suffix == ".csv":
        write_text(path, frame.to_csv(index=False))
    elif path.suffix == ".tex":
        write_text(path, latex(frame))
    else:
        raise InputError(f"cannot write a table to {path}: expected .csv or .tex")


def latex(frame: pd.DataFrame) -> str:
    """Return a booktabs tabular in small type, with three decimals and escaped text; names may have two lines."""
    numeric = [str(dtype).startswith(("float", "int")) for dtype in frame.dtypes]
    lines = [
        "% needs \\usepackage{booktabs}",
        "{\\footnotesize\\setlength{\\tabcolsep}{2pt}%",
        "\\begin{tabular}{" + "".join("r" if n else "l" for n in numeric) + "}",
        "\\toprule",
        " & ".join(_name(str(name)) for name in frame.columns) + r" \\",
        "\\midrule",
    ]
    for row in frame.itertuples(index=False):
        lines.append(" & ".join(_cell(value) for value in row) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}}", ""])


def _name(text: str) -> str:
    lines = [_escaped(line) for line in text.split("\n")]
    return lines[0] if len(lines) == 1 else r"\shortstack{" + r"\\".join(lines) + "}"


def _cell(value: object) -> str:
    if value is None or value != value:
        return "--"
    if isinstance(value, float):
        return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"
    return _escaped(str(value))


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special["–"] = "--"
    special |= {c: "\\" + c for c in "&%$#_{}"}
    return "".join(special.get(c, c) for c in text)
