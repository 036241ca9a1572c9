"""Probes at model level: what is there is found, noise and untold sums are not, routes are held against each other."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mechint_arith import decoding
from mechint_arith.decoding import decode
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint, read
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.report.decoding import decoding_report, rows
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.digits import DigitsTask

SHIPPED = Path(__file__).parents[1] / "checkpoints" / "modular_add_p53"


@pytest.fixture(autouse=True)
def _fewer_penalties(monkeypatch):
    monkeypatch.setattr(decoding, "PENALTIES", (1e-2,))


def by_name(found):
    return {(d.site, d.quantity): d for d in found.found}


def test_a_grokked_model_holds_the_sum_in_its_neurons():
    found = by_name(decode(read(SHIPPED / "step_008000.safetensors"), n_controls=1))
    sums = found["neurons at =", "sum"]
    before = found["resid_mid at =", "sum"]
    assert sums.decisions["all"].decodable
    assert sums.probes["all", "all"].accuracy.value > 0.6
    assert before.probes["all", "all"].accuracy.value < sums.probes["all", "all"].accuracy.value / 2


@pytest.fixture(scope="module")
def assign_add():
    task = AssignAdd(p=11, n_vars=4, length=10, never_left=1, never_right=1)
    config = ModelConfig(
        d_vocab=len(task.vocab), d_vocab_out=11, n_ctx=10, d_model=16, d_head=8, d_mlp=(0, 24)
    )
    return Checkpoint(config, initial_weights(config, 0), task, 0, 0)


def test_variables_and_values_where_their_tokens_stand(assign_add):
    result = decode(assign_add, n_controls=1)
    found = by_name(result)
    assert found["lhs before the last layer", "left variable"].decisions["both"].decodable
    assert found["value of lhs before the last layer", "a"].decisions["both"].decodable
    assert set(found["neurons at =", "sum"].probes) == {
        ("direct", "direct"),
        ("direct", "both"),
        ("both", "direct"),
        ("both", "both"),
    }
    assert not found["resid_pre at =", "sum"].decisions["direct"].decodable
    json.dumps(result.as_dict(), allow_nan=False)
    assert len(rows(result)) == sum(len(d.probes) for d in result.found)
    assert "Decodable quantities" in decoding_report(result, "file")


def test_noise_with_random_labels_is_not_decodable(assign_add, monkeypatch):
    noise = np.random.default_rng(1)

    def random_sites(checkpoint, batch):
        return {"noise": noise.standard_normal((len(batch), 8))}

    def random_labels(batch, name):
        return np.random.default_rng(len(name)).integers(0, 5, len(batch))

    monkeypatch.setattr(decoding, "_sites", random_sites)
    monkeypatch.setattr(decoding, "_quantity", random_labels)
    found = decode(assign_add, n_controls=1)
    assert not any(d.decodable for one in found.found for d in one.decisions.values())


def test_an_iterative_fit_says_whether_it_converged(assign_add, monkeypatch):
    monkeypatch.setattr(decoding, "_questions", lambda task, sites: [("resid_mid at =", "a")])
    found = decode(assign_add, kind="logistic", n_controls=1)
    assert all(isinstance(p.converged, bool) for p in found.found[0].probes.values())


def test_outside_files_are_split_at_random_and_other_tasks_refused():
    ours = read(SHIPPED / "step_000000.safetensors")
    foreign = replace(ours, meta={"source": {"split_known": False}})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decoding, "_questions", lambda task, sites: [("resid_mid at =", "a")])
        assert "at random" in decode(foreign, n_controls=1).split
    with pytest.raises(InputError, match="modular and assign-and-add"):
        decode(Checkpoint(ours.config, {"w": torch.ones(1)}, DigitsTask()))
