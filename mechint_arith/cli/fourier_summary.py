"""What `fourier` prints: how the file was read, accuracy, frequencies, and what they are good for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mechint_arith.grokking import Grokking
from mechint_arith.interventions.frequencies import FrequencyEffect
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.modular_findings import ModularFindings
from mechint_arith.report.page import with_interval
from mechint_arith.route_frequencies import RouteFindings


def print_found(
    console: Console, found: ModularFindings | RouteFindings | Grokking, path: Path
) -> None:
    """Print one result, by its kind."""
    console.print(Text(str(path), style="bold"))
    if isinstance(found, ModularFindings):
        _modular(console, found)
    elif isinstance(found, RouteFindings):
        _routes(console, found)
    else:
        _series(console, found)


def _grid(title: str, *columns: str) -> Table:
    grid = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        grid.add_column(column, justify="left" if i == 0 else "right")
    return grid


def _say(console: Console, text: str, **style: Any) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False, **style)


def _listed(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers)) or "none"


def how_read(checkpoint: Checkpoint) -> str:
    """Return one line on how a file was read."""
    source = checkpoint.meta.get("source")
    if source is None:
        return f"step {checkpoint.step}, seed {checkpoint.seed}"
    told = f" ({source['told']})" if source["told"] else ""
    parts = [f"layout {source['layout']}{told}", f"stored as {source['dtype']}"]
    parts += [f"configuration {source['config']}"] if source["config"] else []
    parts += [f"ignored {', '.join(source['ignored'])}"] if source["ignored"] else []
    parts += [f"dropped {', '.join(source['dropped'])}"] if source["dropped"] else []
    assumed = ", ".join(f"{name} {value}" for name, value in source["assumed"].items())
    parts += [f"assumed {assumed}"] if assumed else []
    return "; ".join(parts)


def _modular(console: Console, found: ModularFindings) -> None:
    task: Any = found.checkpoint.task
    c = found.checkpoint.config
    signs = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
    _say(
        console, f"a {signs[task.op]} b modulo {task.p}; {how_read(found.checkpoint)}", style="dim"
    )
    if c.attn_mix != 1 or not c.causal:
        _say(
            console,
            f"pattern = {c.attn_mix:g} softmax + {1 - c.attn_mix:g},"
            f" {'causal' if c.causal else 'not causal'}",
            style="dim",
        )
    grid = _grid("Accuracy", "pairs", "share right [95 % interval]", "loss (nats)", "n")
    for name, e in found.accuracy.items():
        loss = f"{found.loss[name]:.3g}" if name in found.loss else ""
        grid.add_row(name, with_interval(e), loss, str(e.n))
    console.print(grid)
    if (f := found.frequencies) is not None:
        _say(console, f"\nFrequencies; {found.order}")
        _say(console, f"  strongest in W_E       {_listed(f.strongest)}")
        _say(console, f"  key in W_E             {_listed(f.embedding_key.frequencies)}")
        _say(console, f"  key in the logits      {_listed(f.logits.frequencies)}")
        _say(console, f"  null: {f.embedding_key.statement}", style="dim")
    if found.progress is not None:
        _progress(console, found)
    if found.circuit is None:
        _say(console, f"\nCircuit: {found.no_circuit}")
        return
    clusters = ", ".join(f"{n} at {k}" for k, n in found.clusters.items()) or "none"
    _say(console, f"\nNeurons with at least 85 % of their energy in one frequency: {clusters}")
    _say(console, f"Circuit: {found.kind}, by the declared rule")
    m = found.circuit
    _say(console, f"  gradient symmetricity  {m.symmetricity.mean}")
    _say(console, f"  distance irrelevance   {m.distance_irrelevance.mean}")
    _say(console, f"  circularity            {m.circularity.mean:.3f}")
    console.print()
    _effects(
        console, f"Key frequencies {_listed(f.key if f else ())} kept or removed", found.effects
    )


def _progress(console: Console, found: ModularFindings) -> None:
    m = found.progress
    assert m is not None
    _say(console, f"\nProgress measures at {_listed(m.frequencies)}")
    held = "" if m.restricted.held is None else f", held-out {m.restricted.held:.3g}"
    _say(console, f"  restricted loss        {m.restricted.all:.3g} nats over all pairs{held}")
    if m.excluded is None:
        _say(console, "  excluded loss          – (the training pairs are not known)")
    else:
        _say(
            console,
            f"  excluded loss          {m.excluded.together:.3g} nats on training pairs"
            f" ({m.excluded.full:.3g} with all)",
        )
    neurons = "–" if m.trig_neurons is None else f"{m.trig_neurons:.3f}"
    _say(console, f"  trig fraction          neurons {neurons}, logits {m.trig_logits:.3f}")
    outward = "–" if m.gini_neuron_logit is None else f"{m.gini_neuron_logit:.3f}"
    _say(console, f"  Gini                   W_E {m.gini_embedding:.3f}, W_out W_U {outward}")
    _say(console, f"  sum of squared weights {m.squared_weights:.1f}")
    explained = m.logit_form.variance_explained(m.frequencies)
    _say(console, f"  logit form             explains {explained:.3f} of the variance")


def _effects(console: Console, title: str, effects: Iterable[FrequencyEffect]) -> None:
    grid = _grid(title, "site", "", "accuracy", "loss (nats)", "random others")
    for e in effects:
        verb = "" if e.site == "intact" else "kept alone" if e.keep else "removed"
        control = "" if e.control is None else f"{e.control:.3f}"
        grid.add_row(e.site, verb, with_interval(e.accuracy), f"{e.loss.value:.3g}", control)
    console.print(grid)


def _routes(console: Console, found: RouteFindings) -> None:
    _say(console, how_read(found.checkpoint), style="dim")
    strongest = _listed(found.embedding.strongest(10))
    _say(console, f"strongest in W_E {strongest}; key {_listed(found.embedding_key.frequencies)}\n")
    grid = _grid("Key frequencies of the logits", "route", "accuracy", "strongest first")
    for route, accuracy in found.accuracy.items():
        f = found.routes.get(route)
        grid.add_row(route, with_interval(accuracy), "–" if f is None else _listed(f.frequencies))
    console.print(grid)
    if found.routes:
        _say(console, f"null: {next(iter(found.routes.values())).null}", style="dim")
        _say(console, f"key on every competent route: {_listed(found.common)}")
    if found.no_circuit:
        _say(console, found.no_circuit)
    for name, a in found.agreement.items():
        _say(
            console,
            f"{name}: neurons agree in frequency {with_interval(a.frequency)} (chance"
            f" {a.frequency_chance:z.2f}), in phase {with_interval(a.phase)} (chance {a.phase_chance:z.2f})",
        )
    for route, effects in found.effects.items():
        console.print()
        _effects(console, f"{route}: its key frequencies kept or removed", effects)


def _series(console: Console, found: Grokking) -> None:
    columns = (
        "step",
        "seen",
        "held",
        "loss held",
        "restricted",
        "excluded",
        "Gini W_E",
        "weights²",
    )
    grid = _grid(
        f"Progress at {_listed(found.frequencies)}, the last step's key frequencies", *columns
    )
    for s in found.steps:
        m = s.progress
        excluded = "–" if m.excluded is None else f"{m.excluded.together:.3g}"
        grid.add_row(
            str(s.step),
            f"{s.accuracy['seen'].value:.3f}",
            f"{s.accuracy['held'].value:.3f}",
            f"{s.loss['held']:.3g}",
            "–" if m.restricted.held is None else f"{m.restricted.held:.3g}",
            excluded,
            f"{m.gini_embedding:.3f}",
            f"{m.squared_weights:.0f}",
        )
    console.print(grid)
    _say(console, f"memorised by step {found.memorised}, generalised by step {found.generalised}")
    half = found.half
    _say(
        console,
        f"held-out loss below {half['level']:.2f} nats: restricted from step {half['restricted']},"
        f" full from step {half['held']}",
    )
