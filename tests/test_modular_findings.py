"""Modular checkpoints: the published numbers, what is claimed, and what is not claimed at chance."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint, read
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.modular_findings import measure
from mechint_arith.report.fourier import report
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.modular import ModularTask

SHIPPED = Path(__file__).parents[1] / "checkpoints" / "modular_add_p53"


def untrained(task, **options):
    config = ModelConfig(
        d_vocab=len(task.vocab),
        d_vocab_out=task.d_vocab_out,
        n_ctx=task.length,
        n_layers=1,
        n_heads=2,
        d_model=16,
        d_head=8,
        **{"d_mlp": (24,), **options},
    )
    return Checkpoint(config, initial_weights(config, 0), task, 0, 0)


@pytest.mark.parametrize(
    ("name", "symmetricity", "irrelevance", "kind"),
    [("model_p99zdpze5l.pt", 0.99, 0.17, "pizza"), ("model_l8k1hzciux.pt", 0.33, 0.85, "clock")],
)
def test_the_named_clock_and_pizza(reference, name, symmetricity, irrelevance, kind):
    found = measure(load_checkpoint(reference / "modular" / name))
    assert found.circuit.symmetricity.mean.value == pytest.approx(symmetricity, abs=0.03)
    assert found.circuit.distance_irrelevance.mean.value == pytest.approx(irrelevance, abs=0.03)
    assert found.circuit.kind == kind
    assert found.accuracy["all"].value == 1.0
    assert "held" not in found.accuracy
    assert found.progress.excluded is None
    alone, removed = (
        next(e for e in found.effects if e.site == "neurons" and e.keep is keep)
        for keep in (True, False)
    )
    assert alone.accuracy.value > 0.99
    assert removed.accuracy.value < 0.2
    assert removed.control > 0.99


@pytest.mark.parametrize(
    ("name", "strongest"),
    [
        ("C113_T_seed1.pt", (16, 30, 56, 1, 32)),
        ("low_precision_mod_addition.pth", (23, 6, 39, 3, 35)),
    ],
)
def test_the_strongest_frequencies_of_outside_files(reference, name, strongest):
    found = measure(load_checkpoint(reference / "modular" / name), quick=True)
    assert found.frequencies.strongest == strongest
    assert set(found.frequencies.embedding_key.frequencies) <= set(strongest)
    assert found.as_dict()["frequencies"] == list(strongest)
    assert found.as_dict()["circuit"]["reason"] == "left out with --quick"


@pytest.mark.parametrize(
    "task",
    [
        ModularTask(p=13, train_share=0.5),
        ModularTask(p=13, op="mul", train_share=0.5),
        ModularTask(p=10, op="sub", train_share=0.5, equals=False),
        ModularTask(p=10, op="mul", train_share=0.5, diff_vocab=True),
        ModularTask(p=7, labels="random", train_share=0.5),
    ],
    ids=["add", "mul", "sub even no =", "mul composite", "random answers"],
)
def test_no_circuit_is_claimed_at_chance(task):
    found = measure(untrained(task))
    values = found.as_dict()
    assert values["circuit"]["claimed"] is False
    assert values["circuit"]["key_frequencies"] == []
    assert values["circuit"]["neuron_clusters"] == {}
    assert values["circuit"]["clock_or_pizza"] is None
    assert values["circuit"]["reason"]
    json.dumps(values, allow_nan=False)
    assert (
        "no circuit" in report(found, "file")
        or "rule" in report(found, "file")
        or found.order is None
    )


def test_weights_without_any_variance_are_no_error():
    checkpoint = untrained(ModularTask(p=7, train_share=0.5))
    zeros = {name: torch.zeros_like(w) for name, w in checkpoint.weights.items()}
    found = measure(Checkpoint(checkpoint.config, zeros, checkpoint.task, 0, 0))
    assert found.frequencies is None
    assert "constant" in found.no_circuit
    assert "Accuracy over all pairs" in report(found, "file")


def test_a_memorised_model_is_not_competent():
    found = measure(read(SHIPPED / "step_000200.safetensors"))
    assert found.accuracy["seen"].value == 1.0
    assert found.circuit is None
    assert "accuracy on held pairs" in found.no_circuit


def test_the_shipped_model_is_found_out():
    found = measure(read(SHIPPED / "step_008000.safetensors"))
    assert found.accuracy["held"].value == 1.0
    assert found.frequencies.key == (13, 16, 22)
    assert found.kind == "clock"
    assert set(found.clusters) == {13, 16, 22}
    assert sum(found.clusters.values()) > 200
    assert found.progress.restricted.held < found.loss["held"]
    assert found.progress.excluded.together > 3
    assert found.progress.logit_form.variance_explained(found.frequencies.key) > 0.95
    page = report(found, "step_008000.safetensors")
    assert "Clock or pizza" in page
    json.dumps(found.as_dict(), allow_nan=False)


def test_attention_alone_has_no_neurons():
    found = measure(untrained(ModularTask(p=7, train_share=0.5), d_mlp=(0,)))
    assert found.neurons is None
    assert found.progress.trig_neurons is None


def test_frequencies_of_a_planted_embedding_are_found_in_any_order():
    task = ModularTask(p=23, op="mul", train_share=0.5)
    checkpoint = untrained(task)
    from mechint_arith.tasks.additive import additive_view

    view = additive_view(task)
    w_e = torch.randn(24, 16, generator=torch.Generator().manual_seed(0)) * 0.05
    angle = 2 * np.pi * 3 * np.arange(22) / 22
    w_e[view.lhs, 0] = torch.from_numpy(np.cos(angle)).float()
    w_e[view.lhs, 1] = torch.from_numpy(np.sin(angle)).float()
    weights = {**checkpoint.weights, "embed.W_E": w_e}
    found = measure(Checkpoint(checkpoint.config, weights, task, 0, 0))
    assert found.frequencies.embedding_key.frequencies == (3,)
    assert found.order.startswith("numbers in the order of their logarithm")


def test_other_tasks_are_refused():
    task = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
    with pytest.raises(InputError, match="no modular model"):
        measure(Checkpoint(untrained(ModularTask(p=7)).config, {}, task))
