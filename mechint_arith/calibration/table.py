"""A calibration as JSON and as Markdown tables. Numbers are made in `scoring`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mechint_arith.calibration.scoring import GOALS, Scores
from mechint_arith.stats import Estimate
from mechint_arith.verdict import NAMES, Thresholds


def as_dict(scores: Scores, thresholds: Thresholds, provenance: dict[str, Any]) -> dict[str, Any]:
    """Return plain JSON values: the schema of `calibration.json`."""
    return {
        "schema": 1,
        "kind": "calibration",
        **provenance,
        "thresholds": asdict(thresholds),
        "n_controls": scores.n_controls,
        "n_bases": scores.n_bases,
        "confusion": {"pairs": _nested(scores.pairs), "models": _nested(scores.models)},
        "false_calls": {n: None if e is None else e.as_dict() for n, e in scores.rates.items()},
        "sigma_error": {
            kind: {**asdict(error), "goal_met": error.met} for kind, error in scores.sigma.items()
        },
        "branches": dict(scores.branches),
        "largest_loss_of_accuracy": scores.accuracy_lost,
        "largest_logit_change": scores.logit_change,
        "unexpected": [asdict(pair) for pair in scores.wrong],
    }


def markdown(scores: Scores, command: str) -> str:
    """Return the tables as Markdown."""
    parts = [
        f"{scores.n_controls} control models from {scores.n_bases} base networks, made and judged by `{command}`.",
        "Rows: what was planted. Columns: the verdict on each pair of routes.",
        _confusion(scores.pairs),
        "The same for the verdict on the model.",
        _confusion(scores.models),
        "False calls, with Wilson intervals.",
        _rates(scores),
        "SIGMA minus the planted share of effect.",
        _sigma(scores),
        "How often each branch of the rule decided.",
        _rows(("branch", "pairs"), [(name, str(n)) for name, n in scores.branches.items()]),
        "Largest change against the base network, by kind.",
        _rows(
            ("kind", "logit", "loss of accuracy on a route"),
            [
                (kind, f"{change:.1e}", f"{scores.accuracy_lost[kind]:.3f}")
                for kind, change in scores.logit_change.items()
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _nested(counts: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    rows = [name for name in NAMES if any(expected == name for expected, _ in counts)]
    return {row: {name: counts[row, name] for name in NAMES} for row in rows}


def _confusion(counts: Counter[tuple[str, str]]) -> str:
    table = _nested(counts)
    return _rows(
        ("planted", *NAMES),
        [(row, *(str(found[name]) for name in NAMES)) for row, found in table.items()],
    )


def _rates(scores: Scores) -> str:
    def text(e: Estimate | None) -> tuple[str, str, str]:
        if e is None:
            return "–", "–", "0"
        return f"{e.value:.4f}", f"{e.low:.4f} – {e.high:.4f}", str(e.n)

    rows = [(name, *text(estimate)) for name, estimate in scores.rates.items()]
    return _rows(("call", "rate", "interval", "n"), rows)


def _sigma(scores: Scores) -> str:
    def number(x: float | None) -> str:
        return "–" if x is None else f"{x:.3f}"

    words = {True: "met", False: "missed", None: "–"}
    rows = [
        (
            kind,
            str(e.n),
            f"{e.mean:+.3f}",
            number(e.mean_absolute),
            number(e.largest),
            str(e.n_between),
            number(e.mean_absolute_between),
            number(GOALS.get(kind)),
            words[e.met],
        )
        for kind, e in scores.sigma.items()
    ]
    header = ("kind", "pairs", "mean", "mean size", "largest", "strictly between 0 and 1")
    return _rows((*header, "their mean size", "goal for the largest", ""), rows)


def _rows(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
