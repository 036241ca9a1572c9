"""What `probe` prints: a page that can be read from top to bottom, the verdict first and once more last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mechint_arith.sharing import JUDGED

if TYPE_CHECKING:
    from mechint_arith.probing import Findings
    from mechint_arith.stats import Estimate

STYLE = {
    "shared": "bold green",
    "partly shared": "bold yellow",
    "separate": "bold magenta",
    "not competent": "bold red",
    "inconclusive": "bold yellow",
}


def interval(e: Estimate | None) -> str:
    """`0.993 [0.988, 0.996]`, or a dash."""
    return "–" if e is None else f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"


def _table(title: str, *columns: str) -> Table:
    grid = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        grid.add_column(column, justify="left" if i == 0 else "right")
    return grid


def print_findings(console: Console, findings: Findings, path: Path) -> None:
    """Print one checkpoint's findings."""
    checkpoint = findings.checkpoint
    task = checkpoint.task
    console.print(Text(str(path), style="bold"))
    step = "" if checkpoint.step is None else f", step {checkpoint.step}, seed {checkpoint.seed}"
    console.print(f"assign-and-add, p = {task.vocab.n_numbers}{step}", highlight=False)
    if source := findings.provenance.get("source"):
        parts = [f"layout {source['layout']}", f"stored as {source['dtype']}"]
        if source["ignored"]:
            parts.append(f"ignored {', '.join(source['ignored'])}")
        if source["dropped"]:
            parts.append(f"dropped {', '.join(source['dropped'])}")
        console.print("; ".join(parts), style="dim", highlight=False)
    console.print()
    _verdict(console, findings)
    console.print()
    console.print(_accuracy(findings))
    console.print()
    console.print(_cells(findings))
    console.print()
    console.print(_strata(findings))
    console.print()
    console.print(_necessity(findings))
    console.print()
    console.print(_sharing(findings, JUDGED, "Do the same neurons serve both routes?"))
    console.print()
    others = [name for name in findings.evidence.pairs if name not in JUDGED]
    console.print(_sharing(findings, others, "The indirect routes among each other (not judged)"))
    console.print()
    _frequencies(console, findings)
    console.print(_called(findings))


def _called(findings: Findings) -> Text:
    name = findings.verdict.name
    return Text.assemble("Verdict on the last MLP's neurons: ", (name, STYLE[name]))


def _verdict(console: Console, findings: Findings) -> None:
    """Print the verdict, what it means, its reasons, and how far to trust it."""
    from mechint_arith.calibration.shipped import error_rate
    from mechint_arith.report.verdict import assumption

    v = findings.verdict
    console.print(_called(findings))
    console.print(Text(v.meaning, style="bold"))
    index = f"sharing index {interval(v.index)} over {findings.evidence.n_pairs} number pairs"
    for line in (*v.reasons, f"{index}; on this checkpoint"):
        console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    if findings.assumed:
        console.print(Text(assumption(findings), style="bold yellow"))
    console.print(Text(error_rate(v.thresholds)))


def _accuracy(findings: Findings) -> Table:
    grid = _table("Accuracy by pool", "pool", "share right [95 % interval]", "n")
    for name, e in findings.accuracy_with_diagonal.items():
        grid.add_row(name, interval(e), str(e.n))
    return grid


def _cells(findings: Findings) -> Table:
    grid = _table("Accuracy by cell (* never in training)", "variable", "left", "right")
    variables = list(dict.fromkeys(name.rsplit(" ", 1)[0] for name in findings.cells))
    for variable in variables:
        row = [variable]
        for side in ("left", "right"):
            cell = f"{variable} {side}"
            mark = " *" if cell in findings.restricted else "  "
            row.append(f"{findings.cells[cell].value:.3f}{mark}")
        grid.add_row(*row)
    return grid


def _strata(findings: Findings) -> Table:
    names = list(dict.fromkeys(s for found in findings.strata.values() for s in found))
    grid = _table("Held-out pairs by stratum", "route", *names)
    for route, found in findings.strata.items():
        grid.add_row(route, *(interval(found.get(name)) for name in names))
    return grid


def _necessity(findings: Findings) -> Table:
    columns: Mapping[str, str] = {
        "intact": "accuracy",
        "MLP zeroed": "zeroed",
        "own mean": "mean_own",
        "pooled mean": "mean_pooled",
        "swapped": "resampled",
        "MLP only": "mlp_only",
        "S only": "keep_set",
    }
    grid = _table(
        "Is the MLP needed? Accuracy on matched prompts (S: neurons with 95 % of the effect)",
        "route",
        *columns,
        "in S",
    )
    for name, route in findings.evidence.routes.items():
        values = [f"{getattr(route, field).value:.3f}" for field in columns.values()]
        grid.add_row(name, *values, f"{int(route.chosen.sum())}/{len(route.effect)}")
    return grid


def _sharing(findings: Findings, pairs: Sequence[str], title: str) -> Table:
    grid = _table(title, "", *pairs)
    found = [findings.evidence.pairs[name] for name in pairs]
    for name, field in (
        ("SIGMA", "sigma"),
        ("SWAP", "swap"),
        ("OVERLAP", "overlap"),
        ("ACT", "act"),
    ):
        grid.add_row(name, *(interval(getattr(pair, field)) for pair in found))
    grid.add_row("by chance", *(f"{pair.overlap_null:.3f}" for pair in found), style="dim")
    names = [findings.verdict.pairs[name].name for name in pairs]
    grid.add_row("verdict", *(Text(name, style=STYLE[name]) for name in names))
    return grid


def _frequencies(console: Console, findings: Findings) -> None:
    if findings.no_frequencies:
        console.print(f"Key frequencies: {findings.no_frequencies}", highlight=False)
    else:
        grid = _table("Key frequencies of the logits", "route", "strongest first")
        for route, f in findings.frequencies.items():
            grid.add_row(route, " ".join(map(str, f.frequencies)) or "none above the null")
        console.print(grid)
        for name, a in findings.agreement.items():
            console.print(
                f"{name}: neurons agree in frequency {a.frequency.value:.3f} (chance {a.frequency_chance:z.2f}),"
                f" phase {a.phase.value:.3f} (chance {a.phase_chance:z.2f})",
                highlight=False,
            )
    console.print()
