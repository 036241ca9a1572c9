"""What the report of a Fourier analysis says: sections made from findings, no measuring here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mechint_arith import modular_circuit as parts
from mechint_arith.figures.curves import curves
from mechint_arith.figures.intervals import intervals
from mechint_arith.figures.spectra import spectrum
from mechint_arith.grokking import Grokking
from mechint_arith.interventions.frequencies import FrequencyEffect
from mechint_arith.modular_findings import COMPETENT, ModularFindings
from mechint_arith.report.decoding import DECODABLE, decoding_section
from mechint_arith.report.page import (
    Claim,
    Picture,
    Section,
    TableView,
    making,
    render,
    with_interval,
)
from mechint_arith.route_frequencies import RouteFindings


def report(found: ModularFindings | RouteFindings | Grokking, name: str) -> str:
    """Return the HTML report of a Fourier analysis."""
    if isinstance(found, ModularFindings):
        claimed = (
            found.no_circuit if found.circuit is None else f"{found.kind}, by the declared rule"
        )
        task: Any = found.checkpoint.task
        subtitle = f"{task.op} modulo {task.p} · circuit: {claimed}"
        return render(f"{name}: frequencies", subtitle, modular_sections(found))
    if isinstance(found, RouteFindings):
        return render(f"{name}: frequencies", "assign-and-add, per route", route_sections(found))
    return render(f"{name}: a training run", "modular, step by step", [series_section(found)])


def modular_sections(found: ModularFindings) -> list[Section]:
    """Return the sections of a modular checkpoint."""
    sections = [_accuracy(found)]
    if found.frequencies is not None:
        sections.append(_frequencies(found))
    if found.progress is not None:
        sections.append(_progress(found))
    if found.circuit is not None:
        sections += [_circuit(found), effects_section({"": found.effects})]
    sections.append(
        Section(DECODABLE, claims=(Claim(f"Not given: {found.not_decoded}."),))
        if found.decoded is None
        else decoding_section(found.decoded)
    )
    return [*sections, _making(found)]


def _accuracy(found: ModularFindings) -> Section:
    task: Any = found.checkpoint.task
    picture = intervals(
        {"accuracy": found.accuracy}, unit="share right", marks=((1 / task.p, "chance"),)
    )
    facts = ("Wilson interval, 95 %", f"n = {found.accuracy['all'].n}: every pair with an answer")
    claim = Claim(f"Accuracy over all pairs: {with_interval(found.accuracy['all'])}.", facts)
    caption = (
        "Accuracy by pairs. Where the operation commutes, a held-out pair whose mirror was seen is nearly a"
        " training point."
    )
    return Section("Accuracy", claims=(claim,), pictures=(Picture(picture, caption),))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none above the null"


def _frequencies(found: ModularFindings) -> Section:
    f = found.frequencies
    assert f is not None
    key, pairs = f.embedding_key, f.logits
    pictures = [
        Picture(
            spectrum(key.shares[1:], key=key.frequencies, null=key.floor, null_name="even share"),
            "Number embeddings by frequency; key ones in full colour.",
        ),
        Picture(
            spectrum(pairs.shares[1:], key=pairs.frequencies),
            "Logits over all pairs, without their mean over classes, by frequency.",
        ),
    ]
    if found.neurons is not None and found.neurons.energy.sum() > 0:
        energy = found.neurons.by_frequency.sum(1) / found.neurons.energy.sum()
        caption = "Neurons of the last MLP over all pairs, by frequency."
        pictures.append(Picture(spectrum(energy[1:], key=f.key), caption))
    claims = (
        Claim(
            f"Key frequencies of the embeddings: {_listed(key.frequencies)}; the strongest are"
            f" {_listed(f.strongest)}.",
            (f"null: {key.statement}", f"and at least {key.floor:.3f} of the energy"),
        ),
        Claim(
            f"Key frequencies of the logits: {_listed(pairs.frequencies)}.",
            (f"null: {pairs.lhs.statement}; and the same for b",),
        ),
    )
    return Section("Frequencies", str(found.order), claims, tuple(pictures))


def _progress(found: ModularFindings) -> Section:
    m = found.progress
    assert m is not None
    held = "–" if m.restricted.held is None else f"{m.restricted.held:.3g}"
    rows = (
        ("restricted loss, all pairs (nats)", f"{m.restricted.all:.3g}"),
        ("restricted loss, held-out pairs", held),
        (
            "excluded loss, training pairs",
            "–" if m.excluded is None else f"{m.excluded.together:.3g}",
        ),
        ("trig fraction, neurons", "–" if m.trig_neurons is None else f"{m.trig_neurons:.3f}"),
        ("trig fraction, logits", f"{m.trig_logits:.3f}"),
        ("Gini, W_E", f"{m.gini_embedding:.3f}"),
        ("Gini, W_out W_U", "–" if m.gini_neuron_logit is None else f"{m.gini_neuron_logit:.3f}"),
        ("sum of squared weights", f"{m.squared_weights:.1f}"),
        (
            "variance of the logits in sum of alpha_k cos w_k(a+b-c)",
            f"{m.logit_form.variance_explained(m.frequencies):.3f}",
        ),
    )
    caption = f"At frequencies {_listed(m.frequencies)}. A dash: the training pairs are not known."
    return Section("Progress measures", tables=(TableView(("measure", "value"), rows, caption),))


def _circuit(found: ModularFindings) -> Section:
    m = found.circuit
    assert m is not None
    clusters = tuple((str(k), str(n)) for k, n in found.clusters.items())
    claim = Claim(
        f"By the declared rule this checkpoint is: {m.kind}.",
        (
            f"gradient symmetricity {m.symmetricity.mean}",
            f"distance irrelevance {m.distance_irrelevance.mean}",
            f"circularity {m.circularity.mean:.3f}",
            f"clock: symmetricity ≤ {parts.CLOCK[0]}, irrelevance ≥ {parts.CLOCK[1]};"
            f" pizza: ≥ {parts.PIZZA[0]}, ≤ {parts.PIZZA[1]}; claimed from accuracy {COMPETENT} on",
        ),
    )
    table = TableView(
        ("frequency", "neurons"),
        clusters,
        f"Neurons with at least {parts.CLUSTERED:.0%} of their energy in one frequency.",
    )
    return Section("Clock or pizza", claims=(claim,), tables=(table,))


def effects_section(found: Mapping[str, tuple[FrequencyEffect, ...]]) -> Section:
    """Return the section on frequencies kept and removed; route (or nothing) -> effects."""
    rows = tuple(
        (
            *((route,) if route else ()),
            e.site,
            "" if e.site == "intact" else "kept alone" if e.keep else "removed",
            with_interval(e.accuracy),
            f"{e.loss.value:.3g}",
            "–" if e.control is None else f"{e.control:.3f}",
        )
        for route, effects in found.items()
        for e in effects
    )
    columns = ("site", "key frequencies", "accuracy", "loss (nats)", "random others instead")
    return Section(
        "Frequencies kept or removed",
        tables=(
            TableView(
                ("route", *columns) if all(found) else columns,
                rows,
                "The mean over pairs stays in both. Intervals: bootstrap over unordered pairs.",
            ),
        ),
    )


def route_sections(found: RouteFindings) -> list[Section]:
    """Return the sections of an assign-and-add checkpoint."""
    accuracy = Picture(
        intervals({"accuracy": found.accuracy}, unit="share right"),
        "Accuracy over all number pairs, one matched prompt a pair and route.",
    )
    claims = [
        Claim(f"Key frequencies on {route}: {_listed(f.frequencies)}.", (f"null: {f.null}",))
        for route, f in found.routes.items()
    ]
    claims += [
        Claim(
            f"{name}: neurons agree in frequency {with_interval(a.frequency)} and phase"
            f" {with_interval(a.phase)}.",
            (f"by chance {a.frequency_chance:z.3f} and {a.phase_chance:z.3f}: neurons shuffled",),
        )
        for name, a in found.agreement.items()
    ]
    if found.no_circuit:
        claims.append(Claim(found.no_circuit))
    pictures = [accuracy]
    for route, f in found.routes.items():
        picture = spectrum(f.shares[1:], key=f.frequencies, unit="share of energy")
        pictures.append(Picture(picture, f"Logits on the {route} route, by frequency."))
    headline = f"Key on every competent route: {_listed(found.common)}" if found.routes else ""
    sections = [Section("Frequencies per route", headline, tuple(claims), tuple(pictures))]
    if found.effects:
        sections.append(effects_section(found.effects))
    return [*sections, _making(found)]


def series_section(found: Grokking) -> Section:
    """Return the section on a training run."""
    steps = [s.step for s in found.steps]
    losses = {
        "held-out loss": [s.loss["held"] for s in found.steps],
        "training loss": [s.loss["seen"] for s in found.steps],
        "restricted loss": [s.progress.restricted.held or np.nan for s in found.steps],
        "excluded loss": [
            np.nan if s.progress.excluded is None else s.progress.excluded.together
            for s in found.steps
        ],
    }
    accuracy = {name: [s.accuracy[name].value for s in found.steps] for name in ("seen", "held")}
    half = found.half
    claim = Claim(
        f"Memorised by step {found.memorised}, generalised by step {found.generalised}; the restricted loss stays"
        f" below {half['level']:.2f} nats from step {half['restricted']} on, the held-out loss from step"
        f" {half['held']} on.",
        (f"key frequencies of the last step: {_listed(found.frequencies)}", "kept steps only"),
    )
    pictures = (
        Picture(
            curves(steps, accuracy, unit="share right"), "Accuracy on seen and held-out pairs."
        ),
        Picture(curves(steps, losses, unit="nats"), "Losses; restricted and excluded as defined."),
    )
    return Section("Memorised, formed, cleaned up", claims=(claim,), pictures=pictures)


def _making(found: ModularFindings | RouteFindings) -> Section:
    task = asdict(found.checkpoint.task)  # type: ignore[call-overload]
    return making({**found.provenance, "task": task})
