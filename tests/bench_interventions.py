"""Speed of interventions against TransformerLens and hooked loops, as ratios measured in one run.

Patch sweep: the released assign-and-add architecture with random weights (speed does not depend on them) and
clean/corrupted prompts of two variables. `one value` differs in the left operand's value, `unrelated` in
everything, so that no shortcut applies. Single-neuron ablation: a loop of hooked runs over 32 of the neurons,
scaled to all.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable

import numpy as np
import torch

from mechint_arith.interventions.neurons import ablate_neurons
from mechint_arith.interventions.patching import sweep
from mechint_arith.metrics import logit_difference, mean_margin
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd, matched
from mechint_arith.tasks.batch import Batch

TASK = AssignAdd()


def prompts(n: int, *, unrelated: bool) -> tuple[Batch, Batch]:
    """Clean and corrupted two-variable prompts with different answers."""
    rng = np.random.default_rng(0)
    clean = matched(TASK, rng.integers(0, TASK.p**2, n), rng)["both"]
    a, b = clean.factors["a"], clean.factors["b"]
    other = (a + rng.integers(1, TASK.p, n)) % TASK.p
    if unrelated:
        b = rng.integers(0, TASK.p, n)
        other = (clean.labels - b + rng.integers(1, TASK.p, n)) % TASK.p
        return clean, matched(TASK, other * TASK.p + b, rng)["both"]
    tokens = clean.tokens.copy()
    tokens[np.arange(n), clean.positions["value of lhs"]] = other
    factors = {**clean.factors, "a": other}
    return clean, Batch(tokens, (other + b) % TASK.p, clean.read, clean.positions, factors)


def fastest(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def rows() -> list[tuple[str, float, str]]:
    """Return (name, ratio, goal): how many times as fast as the other way."""
    from transformer_lens import patching

    from mechint_arith.models.hooked import HookedTransformer

    config = ModelConfig(len(TASK.vocab), TASK.p, TASK.length)
    model = HookedTransformer(config, initial_weights(config, 0), task=TASK).eval()
    found = []
    for n, repeats, goal in ((8, 7, ">= 5"), (256, 2, ">= 2")):
        for unrelated in (False, True):
            clean, corrupted = prompts(n, unrelated=unrelated)
            tokens = [torch.from_numpy(batch.tokens) for batch in (clean, corrupted)]
            y, other = (torch.from_numpy(batch.labels) for batch in (clean, corrupted))

            def theirs(tokens=tokens, y=y, other=other) -> object:
                with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
                    _, cache = model.run_with_cache(tokens[0])
                    return patching.get_act_patch_resid_pre(
                        model,
                        tokens[1],
                        cache,
                        lambda z: logit_difference(z[:, -1], y, other),
                        reduce="none",
                    )

            def ours(clean=clean, corrupted=corrupted) -> object:
                options = {"positions": "absolute", "direction": "denoising"}
                return sweep(model, clean, corrupted, "resid_pre", **options)

            theirs(), ours()
            ratio = fastest(theirs, repeats) / fastest(ours, repeats)
            kind = "unrelated" if unrelated else "one value"
            name = f"resid_pre sweep against TransformerLens, {n} prompts ({kind})"
            found.append((name, ratio, goal))

    batch = prompts(64, unrelated=True)[0]
    tokens, y = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)

    def loop() -> None:
        for n in range(32):

            def zeroed(x: torch.Tensor, hook: object, n: int = n) -> torch.Tensor:
                x = x.clone()
                x[..., n] = 0
                return x

            with torch.no_grad():
                z = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.mlp.hook_post", zeroed)])
                mean_margin(z[:, -1], y)

    ablate_neurons(model, batch)
    exact = fastest(lambda: ablate_neurons(model, batch), 5)
    ratio = fastest(loop, 2) * config.d_mlp[1] / 32 / exact
    found.append(("all single-neuron ablations against hooked runs, 64 prompts", ratio, ">= 100"))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, ratio, goal in rows():
        print(f"{name:70} {ratio:8.1f}  (goal {goal})")
