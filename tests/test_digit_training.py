"""Noise, teacher forcing, and runs that are taken up again."""

import numpy as np
import pytest
import torch

from mechint_arith.answers import answer_logits
from mechint_arith.cells import digits_config
from mechint_arith.cli.train_digits import run_digits
from mechint_arith.digit_training import DigitsRecipe, Lessons
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import read, step_path
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.runs import RunFolder, read_metrics
from mechint_arith.tasks.digits import DigitsTask
from mechint_arith.training import start, train

TASK = DigitsTask(digits=2, longest=3, base=3)
CONFIG = digits_config(
    TASK,
    n_heads=2,
    d_model=16,
    positions="relative",
    attn_content=False,
    attn_sink=True,
    embed_norm=True,
    norm="rms",
    relative_scale=10.0,
)
RECIPE = DigitsRecipe(steps=12, batch=16, embed_noise=0.1)


def trained(steps=12, recipe=RECIPE, stop=None):
    lessons = Lessons(TASK, CONFIG, recipe)
    state = start(initial_weights(CONFIG, 3), recipe)

    def on_step(state):
        if state.step == stop:
            raise KeyboardInterrupt

    return train(state, recipe, lessons.sample, lessons.forward, seed=3, on_step=on_step)


def test_training_is_reproducible_and_lowers_the_loss():
    recipe = DigitsRecipe(steps=150, batch=32, embed_noise=0.1, lr=5e-3)
    one, two = trained(recipe=recipe), trained(recipe=recipe)
    assert one.losses == two.losses
    assert all(torch.equal(one.weights[k], two.weights[k]) for k in one.weights)
    assert np.mean(one.losses[-10:]) < 0.8 * np.mean(one.losses[:10])


@pytest.mark.parametrize("positions", ["absolute", "relative", "rotary", "none"])
def test_noise_changes_the_forward_pass_and_no_noise_is_the_plain_one(positions):
    config = digits_config(TASK, n_heads=2, d_model=16, positions=positions)
    weights = {k: torch.randn_like(w) for k, w in initial_weights(config, 0).items()}
    quiet = Lessons(TASK, config, DigitsRecipe())
    tiny = Lessons(TASK, config, DigitsRecipe(embed_noise=1e-6))
    loud = Lessons(TASK, config, DigitsRecipe(embed_noise=1.0))
    logits = []
    for lessons in (quiet, tiny, loud):
        batch = lessons.sample(4, np.random.default_rng(0))
        logits.append(lessons.forward(weights, torch.from_numpy(batch.tokens), TASK.answer_slots))
    plain = answer_logits(Transformer(config, weights), torch.from_numpy(batch.tokens), 4)
    torch.testing.assert_close(logits[0], plain)
    torch.testing.assert_close(logits[1], plain, rtol=1e-2, atol=1e-2)
    assert (logits[2] - plain).abs().max() > 0.1


def folder(path, recipe=RECIPE, task=TASK):
    return RunFolder(path, CONFIG, task, recipe, 3)


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    whole = run_digits(folder(tmp_path / "whole"), every=5, resume=False, measure_every=6)
    keep = RunFolder.keep

    def killed(self, state):
        path = keep(self, state)
        if state.step == 5:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(RunFolder, "keep", killed)
    with pytest.raises(KeyboardInterrupt):
        run_digits(folder(tmp_path / "parts"), every=5, resume=True, measure_every=6)
    monkeypatch.undo()
    parts = run_digits(folder(tmp_path / "parts"), every=5, resume=True, measure_every=6)
    for name, w in whole.weights.items():
        assert torch.equal(w, parts.weights[name]), name
    last = [read(step_path(tmp_path / run, 12)) for run in ("whole", "parts")]
    assert all(torch.equal(w, last[1].weights[k]) for k, w in last[0].weights.items())
    rows = read_metrics(tmp_path / "parts")
    assert [row["step"] for row in rows] == [0, 1, 5, 6, 10, 12]
    assert rows == read_metrics(tmp_path / "whole") or rows[3]["loss"] != rows[2]["loss"]
    assert {"in_domain", "length 3", "truncated 3"} <= rows[0].keys()


def test_another_recipe_is_refused_in_a_used_folder(tmp_path):
    run_digits(folder(tmp_path), every=50, resume=False)
    with pytest.raises(InputError, match="--resume"):
        run_digits(folder(tmp_path), every=50, resume=False)
    other = DigitsRecipe(steps=12, batch=16, embed_noise=0.2)
    with pytest.raises(InputError, match="another recipe"):
        run_digits(folder(tmp_path, other), every=50, resume=True)


def test_negative_noise_is_refused():
    with pytest.raises(InputError, match="embed_noise"):
        DigitsRecipe(embed_noise=-0.1)


def test_an_empty_batch_is_refused():
    with pytest.raises(InputError, match="batch must be at least 1, not 0"):
        DigitsRecipe(batch=0)
