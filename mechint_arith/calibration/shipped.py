"""How often the verdict of this version is wrong, as `probe` and its report quote it.

`shipped.json` beside this file holds a few numbers of analyses/results/calibration.json. After a new calibration:

    python -m mechint_arith.calibration.shipped analyses/results/calibration.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from mechint_arith.files import write_json
from mechint_arith.verdict import Thresholds

FILE = "shipped.json"
KEPT = ("n_controls", "n_bases", "seed", "thresholds")
FALSE_SHARED = "planted separate, called shared (controls)"
FALSE_SEPARATE = "planted shared, called separate (controls)"


def excerpt(calibration: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a calibration."""
    rates = {name: calibration["false_calls"][name] for name in (FALSE_SHARED, FALSE_SEPARATE)}
    return {**{name: calibration[name] for name in KEPT}, "false_calls": rates}


def shipped() -> dict[str, Any]:
    """Return the excerpt that comes with the package."""
    text = resources.files("mechint_arith.calibration").joinpath(FILE).read_text(encoding="utf-8")
    return json.loads(text)


def error_rate(thresholds: Thresholds) -> str:
    """Return one sentence on the verdict's error rate; with other thresholds than calibrated there is none."""
    found = shipped()
    if asdict(thresholds) != found["thresholds"]:
        return "Error rate: not measured with these thresholds."
    rates = found["false_calls"]
    return (
        f"Error rate on {found['n_controls']} control models with planted truth, made from"
        f" {found['n_bases']} networks: {_rate(rates[FALSE_SHARED])} of those planted separate were called"
        f" shared, {_rate(rates[FALSE_SEPARATE])} of those planted shared were called separate"
        " (docs/calibration.md)."
    )


def _rate(e: dict[str, float]) -> str:
    """`0 of 70 (95 % interval 0 to .052)`."""
    hits = round(e["value"] * e["n"])
    return f"{hits} of {e['n']:g} (95 % interval {_short(e['low'])} to {_short(e['high'])})"


def _short(x: float) -> str:
    return f"{x:.3f}".lstrip("0") if round(x, 3) else "0"


if __name__ == "__main__":
    calibration = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    write_json(Path(__file__).with_name(FILE), excerpt(calibration))
