"""Does one gradient step in layer 1's free query-key matrix make it match variable identities?

Along the run: with layer 0 as it is (`tokens`) and with its work done by hand (`supplied`); null: scrambled MLPs.
"""

from pathlib import Path

from common import Story, begin, finish, folder

from mechint_arith.dynamics import checkpoints, measure_series
from mechint_arith.emergence import VERSIONS, step_from
from mechint_arith.figures.curves import curves
from mechint_arith.figures.heatmap import heat_map
from mechint_arith.models.load import load_checkpoint
from mechint_arith.tasks.vocab import variable_names

SCRAMBLES = 3
SHOWN = 4000
"""The state looked at closely: addition is learned, binding is not."""


def main(out: Path, smoke: bool) -> Story:
    """Take the step from every checkpoint up to the end of assignment and hold it against real training."""
    files = {step: path for step, path in checkpoints(folder()).items() if step <= 6100}
    shown = min(files, key=lambda step: abs(step - SHOWN))
    files = {shown: files[shown]} if smoke else files
    real = measure_series(
        folder(), ["qk1_identity", "accuracy"], steps=files, n=100 if smoke else 1000
    )
    rows, figures = [], {}
    for i, (step, path) in enumerate(files.items()):
        checkpoint = load_checkpoint(path)
        row = {
            "step": step,
            "identity in real training": real["qk1_identity"][i].value,
            "1var_held": real["1var_held"][i].value,
        }
        for version in VERSIONS:
            found = step_from(checkpoint, version=version)
            scrambles = range(0 if smoke else SCRAMBLES)
            null = [
                step_from(checkpoint, version=version, scrambled=True, seed=s) for s in scrambles
            ]
            row[version] = {
                "identity": found.identity.value,
                "contrast": found.contrast.value,
                "diagonal": float(found.structure.diagonal().mean()),
                "p": found.p_value,
                "found": {kind: e.as_dict() for kind, e in found.found.items()},
                "n prompts": found.n_prompts,
                "scrambled diagonal": [float(s.structure.diagonal().mean()) for s in null],
                "scrambled identity": [s.identity.value for s in null],
                "scrambled contrast": [s.contrast.value for s in null],
            }
            if step == shown:
                names = variable_names(len(found.structure))
                figures[version] = heat_map(
                    found.structure, rows=names, columns=names, signed=True, unit="nats",
                    title=f"One step at {step}, {version}",
                )  # fmt: skip
        rows.append(row)
    if len(rows) > 1:
        lines = {f"one step, {v}": [row[v]["identity"] for row in rows] for v in VERSIONS}
        lines["real training"] = [row["identity in real training"] for row in rows]
        figures["identity"] = curves(list(files), lines, unit="share of variables on the diagonal")
    return finish(out, "emergence", {"steps": rows}, figures)


if __name__ == "__main__":
    begin(main)
