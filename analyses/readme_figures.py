"""The static pictures of the README: sharing, circuits, spectra, and training where a series is at hand.

    python analyses/readme_figures.py --ckpt checkpoints/assign_add_p59/step_023100.safetensors \\
        --series out/series/series.json --out docs/pictures

The series is what `mechint-arith series` writes. No browser is needed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mechint_arith.dynamics import read_series
from mechint_arith.figures import printed
from mechint_arith.figures.diagram import save as save_diagram
from mechint_arith.files import sha256
from mechint_arith.models.load import load_checkpoint
from mechint_arith.probing import probe
from mechint_arith.sharing import JUDGED

CKPT = Path("checkpoints/assign_add_p59/step_023100.safetensors")
OUT = Path("docs/pictures")
CURVES = {
    "0var_held": "no variable, held-out pairs",
    "1var_held": "one variable, held-out pairs",
    "2var_held": "two variables, held-out pairs",
    "1var_restricted": "one variable, on a side never shown",
    "2var_restricted_2": "two variables, both on such sides",
}
"""Pools whose accuracy is drawn over training -> what they are called."""


def main(ckpt: Path, series: Path | None, out: Path) -> list[Path]:
    """Write the pictures into a folder; return their paths."""
    checkpoint = load_checkpoint(ckpt)
    found = probe(checkpoint, provenance={"file": ckpt.name, "sha256": sha256(ckpt)})
    routes = found.evidence.routes
    written = [out / "sharing.png"]
    effects = {name: route.effect / abs(route.effect).sum() for name, route in routes.items()}
    pairs = [tuple(name.split("-")) for name in JUDGED]
    panels = {(a, b): (effects[a], effects[b]) for a, b in pairs}
    chosen = {name: route.chosen for name, route in routes.items()}
    printed.save(printed.scatter(panels, chosen), written[-1])
    if found.circuits:
        written.append(out / "circuits.svg")
        save_diagram([one.circuit for one in found.circuits], written[-1], width=17)
    if found.frequencies:
        written.append(out / "spectra.svg")
        shares = {name: f.shares[1:] for name, f in found.frequencies.items()}
        key = {name: f.frequencies for name, f in found.frequencies.items()}
        printed.save(printed.spectra(shares, key), written[-1])
    if series is not None:
        written.append(out / "training.svg")
        printed.save(training(series), written[-1])
    return written


def training(path: Path) -> printed.Print:
    """Return accuracy over training with the start of each phase."""
    series = read_series(path)
    names = {name: label for name, label in CURVES.items() if name in series.values}
    values, low, high = (
        {label: series.curve(name, field) for name, label in names.items()}
        for field in ("value", "low", "high")
    )
    points = json.loads(path.read_text(encoding="utf-8"))["change_points"]
    starts = [point["step"] for point in points]
    return printed.curves(series.steps, values, low=low, high=high, starts=starts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ckpt", type=Path, default=CKPT)
    parser.add_argument("--series", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    for path in main(options.ckpt, options.series, options.out):
        print(path)
