"""What the report says of linear probes: which quantity is decodable where, beside control tasks."""

from __future__ import annotations

from dataclasses import asdict

from mechint_arith.decoding import Decodings
from mechint_arith.report.page import Claim, Section, TableView, making, render, with_interval


def decoding_report(found: Decodings, name: str) -> str:
    """Return the HTML report of linear probes."""
    task = asdict(found.checkpoint.task)  # type: ignore[call-overload]
    sections = [decoding_section(found), making({**found.provenance, "task": task})]
    return render(f"{name}: what is decodable where", f"tested on {found.split}", sections)


def rows(found: Decodings) -> list[tuple[str, ...]]:
    """Return one row per site, quantity, route fitted on and route tested on, as text."""
    return [
        (
            d.site,
            d.quantity,
            fitted if fitted == tested else f"{fitted} → {tested}",
            with_interval(p.accuracy),
            with_interval(p.control),
            f"{p.chance:.3f}",
            ("yes" if d.decisions[fitted].decodable else "no") if fitted == tested else "",
            "yes" if p.converged else "no",
        )
        for d in found.found
        for (fitted, tested), p in d.probes.items()
    ]


DECODABLE = "Decodable quantities"
COLUMNS = ("site", "quantity", "route", "accuracy", "control", "chance", "decodable", "converged")


def decoding_section(found: Decodings) -> Section:
    """Return the section on linear probes."""
    n = sum(len(d.decisions) for d in found.found)
    claim = Claim(
        "A quantity counts as decodable if its probe passes the declared rule; that the model uses it does not"
        " follow.",
        (
            f"tested on {found.split}",
            f"Holm over {n} probes, error rate .05",
            "control: a random label per pair, learned in the same way",
        ),
    )
    caption = "An arrow: fitted on one route, tested on the other."
    table = TableView(COLUMNS, tuple(rows(found)), caption)
    return Section(DECODABLE, claims=(claim,), tables=(table,))
