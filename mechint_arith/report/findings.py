"""What the report of an assign-and-add probe says: sections made from `Findings`, no measuring here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from mechint_arith.figures.diagram import draw
from mechint_arith.figures.drawing.svg import svg
from mechint_arith.figures.heatmap import heat_map
from mechint_arith.figures.intervals import intervals
from mechint_arith.figures.sharing import sharing_scatter
from mechint_arith.figures.spectra import spectrum
from mechint_arith.probing import Findings
from mechint_arith.report.page import (
    Claim,
    Diagram,
    Picture,
    Section,
    TableView,
    making,
    render,
    with_interval,
)
from mechint_arith.report.verdict import verdict_section
from mechint_arith.sharing import JUDGED
from mechint_arith.tasks.assign_add import ROUTES, SIDES

BLIND = (
    "None of these can see a separate module, so none of them decides: a model with two disjoint copies of the"
    " addition passes them as well as a model with one."
)


def findings_report(findings: Findings) -> str:
    """Return the HTML report of a probe."""
    where = findings.provenance.get("file", "checkpoint")
    step = findings.checkpoint.step
    p = findings.evidence.p
    subtitle = f"assign-and-add modulo {p}" + ("" if step is None else f", step {step}")
    subtitle += f" · sha256 {str(findings.provenance.get('sha256', ''))[:16]}"
    return render(f"{where}: {findings.verdict.name}", subtitle, sections(findings))


def sections(findings: Findings) -> list[Section]:
    """Return the report's sections, the verdict first."""
    return [
        verdict_section(findings),
        _accuracy(findings),
        _cells(findings),
        _need(findings),
        _sharing(findings),
        _neurons(findings),
        _circuit(findings),
        _frequencies(findings),
        _blind(findings),
        _making(findings),
    ]


def _command(findings: Findings) -> str:
    return str(findings.provenance.get("command", "mechint_arith.probe"))


def _accuracy(findings: Findings) -> Section:
    pools = intervals(
        {"accuracy": findings.accuracy_with_diagonal},
        unit="share right",
        marks=((1 / findings.evidence.p, "chance"),),
        span=(-0.02, 1.02),
    )
    names = list(dict.fromkeys(s for found in findings.strata.values() for s in found))
    strata = intervals(
        {name: {r: found.get(name) for r, found in findings.strata.items()} for name in names},
        unit="share right",
        span=(-0.02, 1.02),
    )
    worst = min(findings.accuracy, key=lambda name: findings.accuracy[name].value)
    claim = Claim(
        f"The lowest of the {len(findings.accuracy)} pools on this checkpoint is {worst}:"
        f" {with_interval(findings.accuracy[worst])}.",
        (
            "Wilson intervals, 95 %",
            f"n = {findings.accuracy[worst].n} sequences a pool",
            _command(findings),
        ),
    )
    return Section(
        "Accuracy",
        claims=(claim,),
        pictures=(
            Picture(
                pools,
                "Accuracy by pool. held: number pairs never seen; a + a: its sums of one number with itself;"
                " restricted: variables on a side where training never shows them.",
            ),
            Picture(
                strata,
                "Held-out pairs by stratum. Addition commutes, so a pair whose mirror was seen is nearly a training point.",
            ),
        ),
    )


def _cells(findings: Findings) -> Section:
    variables = list(dict.fromkeys(name.rsplit(" ", 1)[0] for name in findings.cells))
    values = np.array([[findings.cells[f"{v} {side}"].value for v in variables] for side in SIDES])
    columns = variables
    picture = heat_map(
        values,
        rows=list(SIDES),
        columns=columns,
        row_name="side",
        column_name="variable",
        unit="share right",
        low=0.0,
        high=1.0,
    )
    restricted = [findings.cells[name] for name in findings.restricted]
    text = ", ".join(
        f"{name} {with_interval(e)}"
        for name, e in zip(findings.restricted, restricted, strict=True)
    )
    claims = (
        (Claim(f"Cells that training never shows: {text}.", ("n = 200 sequences a cell",)),)
        if text
        else ()
    )
    return Section(
        "Cells",
        claims=claims,
        pictures=(
            Picture(picture, "Accuracy of one-variable queries on seen pairs, variable by side."),
        ),
    )


def _need(findings: Findings) -> Section:
    routes = findings.evidence.routes
    kinds = {
        "intact": "accuracy",
        "MLP zeroed": "zeroed",
        "neurons at their mean on this route": "mean_own",
        "neurons at their mean over all routes": "mean_pooled",
        "neurons of another pair, same route": "resampled",
        "only the MLP, skip dropped": "mlp_only",
        "only the neurons of S(.95)": "keep_set",
    }
    groups = {route: {k: getattr(routes[route], f) for k, f in kinds.items()} for route in ROUTES}
    picture = intervals(groups, unit="share right", span=(-0.02, 1.02))
    worst = max(max(r.zeroed.value, r.mean_pooled.value) for r in routes.values())
    claim = Claim(
        f"Without the last MLP (zeroed, or neurons at their pooled mean) accuracy is at most {worst:.3f}"
        " on any route of this checkpoint.",
        (f"{findings.evidence.n_prompts} matched prompts a route", "pairs a = b left out"),
    )
    return Section(
        "Is the MLP needed?",
        claims=(claim,),
        pictures=(Picture(picture, "Accuracy after ablating the last MLP, per route."),),
    )


def _sharing(findings: Findings) -> Section:
    e, t = findings.evidence, findings.verdict.thresholds
    groups: dict[str, dict[str, Any]] = {
        name: {pair: getattr(found, field) for pair, found in e.pairs.items()}
        for name, field in (
            ("SIGMA", "sigma"),
            ("SWAP", "swap"),
            ("OVERLAP", "overlap"),
            ("ACT", "act"),
        )
    }
    picture = intervals(
        groups,
        unit="index, 1 = shared, 0 = separate",
        marks=((t.shared, "shared from"), (t.separate, "separate to")),
        span=(-0.05, 1.1),
    )
    rows = tuple(
        (
            name,
            findings.verdict.pairs[name].name,
            with_interval(pair.sigma),
            with_interval(pair.swap),
            with_interval(pair.overlap),
            f"{pair.overlap_null:.3f}",
            with_interval(pair.act),
            f"{pair.shared_count:.3f}",
        )
        for name, pair in e.pairs.items()
    )
    columns = (
        "routes",
        "verdict",
        "SIGMA",
        "SWAP",
        "OVERLAP",
        "OVERLAP by chance",
        "ACT",
        "same set, by count",
    )
    return Section(
        "Sharing",
        claims=(
            Claim(
                "SIGMA compares the damage on one route by the neurons that carry the other with the damage by its"
                " own; SWAP moves one route's activations of these neurons into the other; OVERLAP compares the two"
                " routes' shares of effect neuron by neuron.",
                (
                    "95 % basic bootstrap, both routes resampled together",
                    f"n = {e.n_pairs} unordered number pairs",
                    f"{e.n_resamples} resamples",
                    "null: neurons of one route relabelled (OVERLAP by chance)",
                ),
            ),
        ),
        pictures=(Picture(picture, "The indices with their intervals, for every pair of routes."),),
        tables=(TableView(columns, rows),),
    )


def _neurons(findings: Findings) -> Section:
    pictures = []
    routes = findings.evidence.routes
    if not len(routes["direct"].effect):
        return Section("Neurons", claims=(Claim("None: the last layer has no MLP."),))
    for name in JUDGED:
        one, two = name.split("-")
        effects = [
            routes[r].effect / max(np.abs(routes[r].effect).sum(), 1e-30) for r in (one, two)
        ]
        labels = np.where(
            routes[one].chosen & routes[two].chosen,
            "in both sets",
            np.where(routes[one].chosen | routes[two].chosen, "in one set", "in neither"),
        )
        picture = sharing_scatter(*effects, routes=(one, two), groups=labels.tolist())
        pictures.append(
            Picture(
                picture,
                f"Share of each neuron in the effect on the mean margin, {one} against {two}.",
            )
        )
    counts = ", ".join(f"{r} {int(found.chosen.sum())}" for r, found in routes.items())
    return Section(
        "Neurons",
        claims=(
            Claim(
                f"Neurons that hold 95 % of the positive effect, of {len(routes['direct'].effect)}: {counts}.",
                ("exact zero ablation, neuron by neuron: post(x) D[y]",),
            ),
        ),
        pictures=tuple(pictures),
    )


def _frequencies(findings: Findings) -> Section:
    if findings.no_frequencies:
        return Section("Frequencies", claims=(Claim(f"Not given: {findings.no_frequencies}."),))
    pictures = tuple(
        Picture(
            spectrum(found.shares[1:], key=found.frequencies, unit="share of energy"),
            f"Logits on the {route} route over all number pairs, by frequency.",
        )
        for route, found in findings.frequencies.items()
    )
    key = "; ".join(
        f"{route} {', '.join(map(str, found.frequencies)) or 'none above the null'}"
        for route, found in findings.frequencies.items()
    )
    nulls = dict.fromkeys(f"null: {found.null}" for found in findings.frequencies.values())
    claim = Claim(f"Key frequencies of the routes' logits, strongest first: {key}.", tuple(nulls))
    rows = tuple(
        (
            name,
            with_interval(a.frequency),
            f"{a.frequency_chance:z.3f}",
            with_interval(a.phase),
            f"{a.phase_chance:z.3f}",
            with_interval(a.spectrum),
            f"{a.spectrum_chance:z.3f}",
        )
        for name, a in findings.agreement.items()
    )
    columns = (
        "routes",
        "same frequency",
        "by chance",
        "same phase",
        "by chance",
        "same spectrum",
        "by chance",
    )
    return Section(
        "Frequencies",
        claims=(claim,),
        pictures=pictures,
        tables=(
            TableView(columns, rows, "Agreement of the neurons on two routes, weighted by energy."),
        ),
    )


def _blind(findings: Findings) -> Section:
    rows = tuple(
        (name, *(with_interval(pair.interchange[site]) for site in pair.interchange))
        for name, pair in findings.evidence.pairs.items()
    )
    sites = tuple(next(iter(findings.evidence.pairs.values())).interchange)
    table = TableView(
        ("routes", *(site.replace("_", " ") for site in sites)),
        rows,
        "Interchange accuracy: another pair's activation on the other route is put in; share that then gives that"
        " pair's answer; the smaller of both directions.",
    )
    return Section("Shown, never decided on", claims=(Claim(BLIND),), tables=(table,))


def _circuit(findings: Findings) -> Section:
    if not findings.circuits:
        return Section("Circuit", claims=(Claim(f"Not given: {findings.no_circuit}."),))
    claims, rows = [], []
    for one in findings.circuits:
        f, about = one.faithfulness, one.circuit.about
        claims.append(
            Claim(
                f"On the {about.route} route {f.n_edges} of {f.n_all} edges keep"
                f" {with_interval(f.alone)} of the margin's gap when all else is corrupted;"
                f" with these edges corrupted, {with_interval(f.without)} is left.",
                (
                    f"right with the circuit alone: {with_interval(f.accuracy)}",
                    f"completeness gap at most {f.gap:.3f} (without {f.worst})",
                    f"too near the cut to be sure: {one.n_unsure} edges",
                ),
            )
        )
        table = one.circuit.table().sort_values("effect", ascending=False)
        rows += [
            (
                about.route,
                str(e.sender),
                str(e.receiver),
                f"{e.effect:.3f} [{e.low:.3f}, {e.high:.3f}]",
            )
            for e in table.itertuples()
        ]
    f, about = findings.circuits[0].faithfulness, findings.circuits[0].circuit.about
    claims.append(
        Claim(
            f"An edge is kept where its effect is at least {about.threshold:g} of the gap between the corrupted run"
            " (0) and the clean run (1).",
            (
                f"n = {f.alone.n} unordered number pairs",
                f"{about.direction}, {about.ablation} ablation",
            ),
        )
    )
    drawing = svg(draw([one.circuit for one in findings.circuits]))
    caption = (
        "What carries the answer on each route: layers upward, positions across. A box stands for an embedding, a"
        " head or a group of neurons at one position; … for all other positions. Shared neurons hold 95 % of the"
        " effect on both routes, by other prompts than these."
    )
    columns = ("route", "from", "to", "effect, share of the gap")
    return Section(
        "Circuit",
        claims=tuple(claims),
        pictures=(Diagram(drawing, caption),),
        tables=(
            TableView(columns, tuple(rows), "Every edge that is drawn, with its interval", True),
        ),
    )


def _making(findings: Findings) -> Section:
    split = asdict(findings.checkpoint.task)  # type: ignore[call-overload]
    return making({**findings.provenance, "split": split})
