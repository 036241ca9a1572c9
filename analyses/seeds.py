"""Claims C1–C10 over seeds of the paper's set-up: measure every run's series, judge, write numbers and page.

    mechint-arith sweep analyses/studies/seeds.toml --workers 1
    python analyses/seeds.py --out analyses/results

Runs that have not reached the last step are left out. The page `docs/claims.md` is made from the numbers.
"""

from pathlib import Path

from claims_page import page
from common import HERE, Story, begin
from common import folder as shown_run

from mechint_arith.claims import HEAVY, LIGHT, Run, judge
from mechint_arith.dynamics import checkpoints, measure_series
from mechint_arith.files import write_json, write_text
from mechint_arith.models.load import load_checkpoint
from mechint_arith.phases import orders
from mechint_arith.tasks.pools import cell_name, is_restricted

SEEDS = Path("runs/seeds")
UNTIL = 20_000
OFTEN, SELDOM = 200, 1000
SEQUENCES = 1000
CURVES = ("0var_held", "1var_held_left", "1var_held_right", "2var_held", "1var_restricted")
CURVES += ("2var_restricted_2", "bare_accuracy_deleted", "identity_swap", "qk1_identity")


def run_of(folder: Path, *, often: int, seldom: int, n: int, cache: Path | None = None) -> Run:
    """Measure one run's two series."""
    files = checkpoints(folder)
    last = max(step for step in files if step <= UNTIL)

    def steps(every: int) -> list[int]:
        return sorted({s for s in files if s % every == 0 and 0 < s <= last} | {last})

    cache = folder / "measured" if cache is None else cache
    series = [
        measure_series(folder, names, cache=cache, steps=steps(every), n=n)
        for names, every in ((LIGHT, often), (HEAVY, seldom))
    ]
    task = load_checkpoint(next(iter(files.values()))).task
    cells = range(2 * task.n_vars)
    restricted = tuple(cell_name(task, c) for c in cells if is_restricted(task, c))
    return Run(folder.name, series[0], series[1], restricted)


def main(out: Path, smoke: bool) -> Story:
    """Judge the claims over all run folders there are."""
    if smoke:
        folder = shown_run()
        step = max(1, len(checkpoints(folder)) // 3)
        every = sorted(checkpoints(folder))[step]
        runs = [run_of(folder, often=every, seldom=UNTIL, n=100, cache=out / "cache")]
    else:
        folders = [f for f in sorted(SEEDS.glob("seed_*")) if UNTIL in checkpoints(f)]
        runs = [run_of(f, often=OFTEN, seldom=SELDOM, n=SEQUENCES) for f in folders]
    claims = judge(runs)
    order = orders([run.events for run in runs])
    value = {
        "command": "python analyses/seeds.py --out analyses/results",
        "setting": f"the paper's model and data, {UNTIL} steps, {len(runs)} seeds, {SEQUENCES} sequences a pool",
        "claims": {name: claim.as_dict() for name, claim in claims.items()},
        "events": {
            run.name: {name: event.as_dict() for name, event in run.events.items()} for run in runs
        },
        "order_always_kept": [
            [o.first, o.second] for o in order if o.always and "cell" not in o.first + o.second
        ],
        "order_not_kept": [
            [o.first, o.second, o.before, o.after, o.unclear]
            for o in order
            if not o.always and "cell" not in o.first + o.second
        ],
        "curves": {run.name: _curves(run) for run in runs},
    }
    write_json(out / "seeds.json", value)
    if not smoke:
        write_text(HERE.parent / "docs" / "claims.md", page(value))
    return {name: f"{claim.verdict}: {claim.holding}" for name, claim in claims.items()}


def _curves(run: Run) -> dict[str, list[float]]:
    chosen = [i for i, step in enumerate(run.often.steps) if step % SELDOM == 0]
    found = {n: [round(run.often[n][i].value, 4) for i in chosen] for n in CURVES}
    return {"step": [run.often.steps[i] for i in chosen], **found}


if __name__ == "__main__":
    begin(main)
