"""Training runs: memorised first, generalised later, the restricted loss falling before the held-out loss."""

from pathlib import Path

import pytest
import torch

from mechint_arith.cli.train_modular import run_modular
from mechint_arith.errors import InputError
from mechint_arith.grokking import grokking
from mechint_arith.models.checkpoint import read, step_path
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.series import checkpoint_files
from mechint_arith.report.fourier import report
from mechint_arith.runs import RunFolder, read_metrics
from mechint_arith.tasks.modular import ModularTask
from mechint_arith.training import Recipe, closed_forward, start, train

SHIPPED = Path(__file__).parents[1] / "checkpoints" / "modular_add_p53"


@pytest.fixture(scope="module")
def shipped():
    return grokking([read(path) for path in checkpoint_files(SHIPPED)])


def test_the_shipped_run_memorises_then_generalises(shipped):
    assert shipped.frequencies == (13, 16, 22)
    assert shipped.memorised == 200
    assert shipped.generalised == 5000
    half = shipped.half
    assert half["restricted"] == 1000
    assert half["held"] == 4000


def test_the_shipped_run_forms_then_cleans_up(shipped):
    excluded = [s.progress.excluded.together for s in shipped.steps]
    weights = [s.progress.squared_weights for s in shipped.steps]
    by_step = {s.step: i for i, s in enumerate(shipped.steps)}
    assert excluded[by_step[200]] < excluded[by_step[1000]] < excluded[by_step[3000]]
    assert weights[by_step[1000]] > 2 * weights[by_step[6000]]
    sparsity = [s.progress.gini_embedding for s in shipped.steps]
    assert sparsity[by_step[1000]] < sparsity[by_step[4000]] < sparsity[by_step[8000]]


def test_mirrored_pairs_are_half_known(shipped):
    step = next(s for s in shipped.steps if s.step == 1000)
    assert step.accuracy["held, mirror seen"].value > 0.8
    assert step.accuracy["held, mirror held"].value < 0.05


def test_the_shipped_run_is_what_its_command_makes():
    first, later = (read(step_path(SHIPPED, step)) for step in (0, 100))
    recipe = Recipe(steps=100, batch=0, betas=(0.9, 0.98), weight_decay=1.0, loss_float64=True)
    state = start(first.weights, recipe)
    batch = first.task.train()
    train(state, recipe, lambda n, rng: batch, closed_forward(first.config, 2), seed=0)
    for name, weight in later.weights.items():
        torch.testing.assert_close(state.weights[name].detach(), weight, rtol=1e-3, atol=1e-4)


def folder_at(path, *, steps):
    task = ModularTask(p=29, train_share=0.6)
    config = ModelConfig(
        d_vocab=30,
        d_vocab_out=29,
        n_ctx=3,
        n_layers=1,
        n_heads=2,
        d_model=48,
        d_head=24,
        d_mlp=(96,),
    )
    recipe = Recipe(
        steps=steps, batch=0, lr=3e-3, betas=(0.9, 0.98), weight_decay=1.0, loss_float64=True
    )
    return RunFolder(path, config, task, recipe, 0)


def test_a_fresh_run_groks(tmp_path):
    """p = 29, 60 % of the pairs, seed 0: about five seconds of one core."""
    folder = folder_at(tmp_path, steps=1100)
    run_modular(folder, every=100, resume=False)
    found = grokking([read(path) for path in checkpoint_files(tmp_path)])
    memorised = next(s for s in found.steps if s.step == found.memorised)
    assert memorised.step <= 200
    assert memorised.accuracy["held"].value < 0.7
    assert max(s.accuracy["held"].value for s in found.steps) > 0.95
    assert found.half["restricted"] < found.half["held"]
    assert read_metrics(tmp_path)[-1]["accuracy_seen"] == 1.0
    assert "Memorised by step" in report(found, "run")


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path):
    whole = run_modular(folder_at(tmp_path / "whole", steps=20), every=10, resume=False)
    run_modular(folder_at(tmp_path / "half", steps=10), every=10, resume=False)
    half = run_modular(folder_at(tmp_path / "half", steps=20), every=10, resume=True)
    for name, weight in whole.weights.items():
        assert torch.equal(weight, half.weights[name])


def test_a_series_of_strangers_is_refused():
    with pytest.raises(InputError, match="at least one"):
        grokking([])
    first = read(step_path(SHIPPED, 0))
    with pytest.raises(InputError, match="no key frequency"):
        grokking([first])
