"""Controls that compute something else on some routes: leaks, second algorithms, transplants, attention that adds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models import controls
from mechint_arith.models.checkpoint import Checkpoint, read
from mechint_arith.models.controls import lookup
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.flags import FORMS
from mechint_arith.models.controls.truth import effects
from mechint_arith.models.folded import fold
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched

ROOT = Path(__file__).parents[3]
TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
BASES = {
    "random": {},
    "two heads": {"n_heads": 2, "d_head": 8},
    "biases": {"attn_bias": True, "mlp_bias": True, "unembed_bias": True},
}


def test_leaking_copies_serve_every_route(random_model):
    base = helpful(random_model())
    made = controls.leaky(base, leak=0.25, flag="any", seed=1)
    truth = made.meta["planted"]["truth"]
    assert truth["left-right"]["share"] == pytest.approx(1.0)
    assert truth["direct-left"] == {
        "share": None,
        "why": "every neuron serves both routes, at different strengths",
    }
    folded = fold(made.config, made.weights, read=TASK.places["equals"])
    for batch in matched(TASK, np.arange(49), np.random.default_rng(0)).values():
        assert (folded(torch.from_numpy(batch.tokens)).post > 0).double().mean() > 0.1
    with pytest.raises(InputError, match="works against the right answer"):
        controls.leaky(helpful(base, sign=-1), seed=1)


def helpful(base: Checkpoint, *, sign: int = 1) -> Checkpoint:
    """The same network with its MLP's output turned so that it works for (or against) the answer."""
    folded = fold(base.config, base.weights, read=TASK.places["equals"])
    total = sum(e.sum() for e in effects(folded, TASK, np.random.default_rng(0)).values())
    w_out = base.weights["blocks.1.mlp.W_out"] * float(np.sign(total)) * sign
    return replace(base, weights={**base.weights, "blocks.1.mlp.W_out": w_out})


@pytest.mark.parametrize("frequencies", [None, (1, 3)])
def test_a_second_algorithm_leaves_the_routes_without_flag_alone(frequencies, random_model):
    base = random_model()
    made = controls.second_algorithm(
        base, flag="left", frequencies=frequencies, fit_steps=50, seed=1
    )
    assert clear_routes_kept(base, made, "left")
    assert made.meta["planted"]["truth"]["direct-left"]["share"] == 0
    control = made.meta["planted"]
    assert control["change"]["largest logit change"] > 1e-3
    assert control["options"]["frequencies"] == (list(frequencies) if frequencies else None)


def test_the_least_used_frequencies_can_be_taken(random_model):
    made = controls.second_algorithm(random_model(), frequencies=2, fit_steps=2, seed=1)
    chosen = made.meta["planted"]["options"]["frequencies"]
    values = Draft.of(random_model()).folded.values[0, 0, : TASK.p].numpy()
    energy = (np.abs(np.fft.rfft(values, axis=0)[1:]) ** 2).sum(1)
    assert chosen == sorted((np.argsort(energy)[:2] + 1).tolist())


def test_half_of_a_second_algorithm_can_stay_shared(random_model):
    made = controls.second_algorithm(random_model(), flag="left", share=0.5, fit_steps=50, seed=1)
    entry = made.meta["planted"]["truth"]["direct-left"]
    assert entry["direct"] == pytest.approx(0.5, abs=1e-6)
    assert 0.2 < entry["left"] < 0.8


def test_a_transplant_is_the_donors_mlp_on_its_routes(random_model):
    base, donor = random_model(), random_model(seed=9)
    made = controls.transplanted(base, donor, flag="any", seed=1)
    assert clear_routes_kept(base, made, "any")
    assert made.meta["planted"]["options"]["donor seed"] == 9
    assert made.meta["planted"]["options"]["input R2"] > 0.3
    assert len(made.meta["planted"]["gates"]) == 48


def clear_routes_kept(base: Checkpoint, made: Checkpoint, flag: str) -> bool:
    old, new = (fold(m.config, m.weights, read=TASK.places["equals"]) for m in (base, made))
    batches = matched(TASK, np.arange(49), np.random.default_rng(5))
    kept = []
    for route, is_set in zip(ROUTES, FORMS[flag].routes, strict=True):
        tokens = torch.from_numpy(batches[route].tokens)
        change = (old(tokens).logits - new(tokens).logits).abs().max()
        kept.append((change < 1e-3) != is_set)
    return all(kept)


@pytest.mark.parametrize("mlp", ["kept", "silent"])
@pytest.mark.parametrize("base", BASES)
def test_attention_adds_on_direct_queries_alone(base, mlp, random_model):
    model = random_model(**BASES[base])
    made = controls.attention_adds(model, mlp=mlp, seed=1)
    old, new = (fold(m.config, m.weights, read=TASK.places["equals"]) for m in (model, made))
    for route, batch in matched(TASK, np.arange(49), np.random.default_rng(0)).items():
        tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
        run = new(tokens)
        if route == "direct":
            without_mlp = run.logits - run.post @ new.w_logit
            assert (without_mlp.argmax(-1) == labels).all()
            assert bool((run.post == 0).all()) == (mlp == "silent")
        else:
            assert (run.logits - old(tokens).logits).abs().max() < 2e-3


def test_best_frequencies_have_the_largest_gap():
    assert lookup.best_frequencies(7, 1)[1] == pytest.approx(1 - np.cos(2 * np.pi / 7))
    chosen, gap = lookup.best_frequencies(29, 2)
    assert chosen == [3, 7]
    assert gap == pytest.approx(
        min(
            2 - np.cos(2 * np.pi * 3 * d / 29) - np.cos(2 * np.pi * 7 * d / 29)
            for d in range(1, 29)
        )
    )


def test_an_untrained_network_has_the_shape_of_its_base(random_model):
    base = random_model()
    made = controls.untrained(base, seed=4)
    assert made.config == base.config
    entry = {"share": None, "why": "the network was never trained"}
    assert list(made.meta["planted"]["truth"].values()) == [entry] * 5
    assert not torch.equal(made.weights["embed.W_E"], base.weights["embed.W_E"])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda b: controls.split(b, flag="middle", seed=0), "no flag 'middle'"),
        (lambda b: controls.shared(b, disguise="hat", seed=0), "no disguise 'hat'"),
        (lambda b: controls.partial(b, 1.5, seed=0), r"lies in \[0, 1\]; got 1.5"),
        (lambda b: controls.partial(b, 0.5, choice="best", seed=0), "no choice 'best'"),
        (lambda b: controls.cancelling(b, strength=0.0, seed=0), "need a positive strength"),
        (lambda b: controls.leaky(b, leak=1.0, seed=0), "between 0 and 1; got 1.0"),
        (lambda b: controls.second_algorithm(b, frequencies=(4,), seed=0), "from 1 to 3"),
        (lambda b: controls.second_algorithm(b, share=1.0, seed=0), "lies in"),
        (lambda b: controls.attention_adds(b, mlp="loud", seed=0), "'kept' or 'silent'"),
        (lambda b: controls.attention_adds(b, n_frequencies=4, seed=0), "1 to 3 frequencies"),
        (
            lambda b: controls.transplanted(b, replace(b, task=AssignAdd(p=7)), seed=0),
            "a donor must read the same prompts",
        ),
    ],
)
def test_faulty_options_are_named(make, reason, random_model):
    with pytest.raises(InputError, match=reason):
        make(random_model())


@pytest.mark.parametrize(
    ("make", "lost"),
    [
        (lambda b: controls.second_algorithm(b, fit_steps=300, seed=1), 0.02),
        (lambda b: controls.second_algorithm(b, frequencies=6, fit_steps=600, seed=1), 0.1),
        (lambda b: controls.leaky(b, seed=1), 0.01),
        (lambda b: controls.attention_adds(b, seed=1), 0.001),
        (lambda b: controls.attention_adds(b, mlp="silent", seed=1), 0.001),
    ],
    ids=["distilled", "other frequencies", "leaky", "attention adds", "attention alone"],
)
def test_other_controls_keep_the_accuracy_of_a_trained_network(trained, make, lost):
    change = make(trained).meta["planted"]["change"]
    assert change["largest logit change"] > 0.1
    for before, after in change["accuracy before, after"].values():
        assert before > 0.97
        assert after > before - lost


def test_a_transplant_keeps_the_accuracy_of_a_trained_network(trained):
    donor = read(ROOT / "checkpoints" / "bases" / "seed_6.safetensors")
    planted = controls.transplanted(trained, donor, flag="any", seed=1).meta["planted"]
    assert planted["options"]["input R2"] > 0.8
    for before, after in planted["change"]["accuracy before, after"].values():
        assert after > before - 0.05
