"""The loop, the run folder, and a run that is killed and taken up again."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import read, step_path
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.runs import RunFolder, keeps, read_metrics
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.pools import Mixture
from mechint_arith.training import Recipe, folded_forward, loss_of, start, train

TASK = AssignAdd(p=5, n_vars=3, length=8, never_left=1, never_right=1)
CONFIG = ModelConfig(
    d_vocab=len(TASK.vocab), d_vocab_out=5, n_ctx=8, d_model=8, d_head=4, d_mlp=(0, 12)
)
RECIPE = Recipe(steps=12, batch=16)
OPTIONS = [
    "--p",
    "5",
    "--n-vars",
    "3",
    "--length",
    "8",
    "--never-left",
    "1",
    "--never-right",
    "1",
    "--d-model",
    "8",
    "--batch",
    "16",
]


def run_for(steps: int, state=None, seed: int = 1):
    state = state or start(initial_weights(CONFIG, seed), RECIPE)
    recipe = Recipe(steps=steps, batch=16)
    return train(state, recipe, Mixture(TASK).sample, folded_forward(CONFIG, 7), seed=seed)


def command(*args: str, **options) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "mechint_arith", *args]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, **options)


def test_a_step_is_adamw_on_the_plain_models_gradient():
    state = start(initial_weights(CONFIG, 1), RECIPE)
    network = Transformer(CONFIG, initial_weights(CONFIG, 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.02)
    for step in range(3):
        batch = Mixture(TASK).sample(16, np.random.default_rng((1, step)))
        logits = network(torch.from_numpy(batch.tokens))[:, batch.read]
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch.labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    run_for(3, state)
    for name, w in network.named_parameters():
        torch.testing.assert_close(state.weights[name], w, rtol=0, atol=1e-4)


def test_the_loss_falls_and_training_touches_no_global_state():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    state = run_for(150)
    assert np.mean(state.losses[-10:]) < np.mean(state.losses[:10])
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


def test_resuming_in_memory_and_on_disk_is_bit_identical(tmp_path):
    straight = run_for(12)
    folder = RunFolder(tmp_path, CONFIG, TASK, RECIPE, 1)
    folder.keep(run_for(5))
    resumed = folder.resume()
    assert resumed.step == 5
    run_for(12, resumed)
    for name, w in straight.weights.items():
        assert torch.equal(w, resumed.weights[name]), name


def test_a_run_with_other_settings_is_not_resumed(tmp_path):
    RunFolder(tmp_path, CONFIG, TASK, RECIPE, 1).keep(run_for(2))
    with pytest.raises(InputError, match="another seed"):
        RunFolder(tmp_path, CONFIG, TASK, RECIPE, 2).resume()
    with pytest.raises(InputError, match="another recipe"):
        RunFolder(tmp_path, CONFIG, TASK, Recipe(steps=12, batch=17), 1).resume()


def test_checkpoint_steps_are_dense_early():
    assert [step for step in range(2501) if keeps(step, steps=2500, every=1000)] == [
        0, 1, 10, 30, 100, 200, 300, 500, 700, 1000, 2000, 2500,
    ]  # fmt: skip


def test_float64_loss_sees_what_float32_does_not():
    logits, labels = torch.zeros(1, 3), torch.tensor([0])
    logits[0, 0] = 30.0
    assert loss_of(logits, labels).item() == 0
    assert loss_of(logits, labels, float64=True).item() == pytest.approx(2 * np.exp(-30), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"steps": 0}, "steps must be"),
        ({"lr": 0.0}, "lr must be"),
        ({"batch": -1}, "batch cannot"),
        ({"weight_decay": -0.1}, "weight_decay cannot"),
        ({"weight_decay": float("nan")}, "weight_decay must be a number"),
        ({"betas": (0.9, 1.0)}, "betas must be two"),
        ({"betas": (0.9,)}, "betas must be two"),
        ({"steps": 2.5}, "steps must be a whole number"),
    ],
)
def test_impossible_recipes(options, complaint):
    with pytest.raises(InputError, match=complaint):
        Recipe(**options)


def test_a_diverging_run_stops_with_a_reason():
    state = start(initial_weights(CONFIG, 1), Recipe(lr=1e30, steps=5))
    with pytest.raises(InputError, match="lower --lr"):
        train(
            state,
            Recipe(lr=1e30, steps=5, batch=16),
            Mixture(TASK).sample,
            folded_forward(CONFIG, 7),
            seed=0,
        )


def test_killed_command_resumes_to_the_same_weights(tmp_path):
    """kill -9 in the middle of a run; --resume ends with the weights of an unbroken run."""
    common = ["train", "assign-add", *OPTIONS, "--steps", "240", "--every", "20"]
    whole = command(*common, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    out = tmp_path / "broken"
    process = subprocess.Popen(
        [sys.executable, "-m", "mechint_arith", *common, "--out", str(out)],
        stderr=subprocess.DEVNULL,
    )
    while not step_path(out, 60).exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    refused = command(*common, "--out", str(out))
    if not step_path(out, 240).exists():
        assert refused.returncode == 2
        assert "add --resume" in refused.stderr
    again = command(*common, "--out", str(out), "--resume")
    assert again.returncode == 0, again.stderr
    one, two = (read(step_path(tmp_path / name, 240)) for name in ("whole", "broken"))
    assert one.meta["recipe"] == two.meta["recipe"]
    for name, w in one.weights.items():
        assert torch.equal(w, two.weights[name]), name
    steps = [row["step"] for row in read_metrics(out)]
    assert steps == sorted(set(steps))
    assert not [path for path in out.iterdir() if path.suffix == ".tmp"]


def test_unwritable_folders_and_other_peoples_checkpoints_are_left_alone(tmp_path):
    common = ["train", "assign-add", *OPTIONS, "--steps", "2", "--out"]
    (tmp_path / "file").write_text("x")
    done = command(*common, str(tmp_path / "file"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    kept = tmp_path / "step_000000.safetensors"
    kept.write_bytes(b"precious")
    done = command(*common, str(tmp_path))
    assert done.returncode == 2
    assert "holds checkpoints or metrics, but no state.safetensors" in done.stderr
    assert kept.read_bytes() == b"precious"
