"""Interventions on the released assign-and-add run: published and measured values. Needs `../shared/reference`."""

import numpy as np
import pytest
import torch

from mechint_arith.interventions.ablation import ablate
from mechint_arith.interventions.alignment import Search, learn
from mechint_arith.interventions.counterfactual import addition, predicted
from mechint_arith.interventions.edges import knock_out
from mechint_arith.interventions.interchange import interchange
from mechint_arith.interventions.patching import patch, sweep
from mechint_arith.interventions.path import path_patch
from mechint_arith.interventions.site import Site
from mechint_arith.models.hooked import HookedTransformer
from mechint_arith.models.load import load_checkpoint
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.assign_add import build, matched

LATE = (10001, 20001, 30001)


@pytest.fixture(scope="module")
def load(reference):
    def loaded(step, kind=Transformer):
        path = reference / "assign_and_add" / f"checkpoint_step_{step}.pth"
        checkpoint = load_checkpoint(path)
        return kind(checkpoint.config, checkpoint.weights).eval(), checkpoint.task

    return loaded


@pytest.mark.parametrize("step", LATE)
def test_a_direct_runs_mlp_output_answers_an_indirect_query(load, step):
    model, task = load(step)
    rng = np.random.default_rng(step)
    base, source = (matched(task, rng.permutation(59**2)[:600], rng) for _ in range(2))
    for route in ("left", "right", "both"):
        site = Site("mlp_out", 1, "equals")
        found = interchange(model, base[route], source["direct"], site, controls=("placebo",))
        assert found.accuracy.value >= 0.99
        assert found.controls["placebo"].value <= 0.05
        zeroed = ablate(model, base[route], site, "zero", "correct")
        assert zeroed.patched.mean() <= 0.06


@pytest.mark.parametrize(("step", "low", "high"), [(501, 0, 0.05), (14001, 0.99, 1)])
def test_early_addition_needs_the_layer_0_edges_and_late_addition_does_not(load, step, low, high):
    """Direct prompts without assignments; measured .021 (renormalised .018) and .998 (.998)."""
    model, task = load(step)
    rng = np.random.default_rng(0)
    a, b = np.divmod(rng.permutation(59**2)[:1000], 59)
    none = np.zeros(1000, int)
    bare = build(task, none, a, b, none - 1, none - 1, none, rng)
    found = knock_out(model, bare, Site("pattern", 0, "equals", key=("lhs", "rhs")))
    for share in found.patched.mean(-1)[:, 0]:
        assert low <= share <= high


def test_the_two_variants_differ_halfway(load):
    """Step 5001: .443 not renormalised, .502 renormalised (standard error .011)."""
    model, task = load(5001)
    rng = np.random.default_rng(0)
    a, b = np.divmod(np.arange(59**2), 59)
    none = np.zeros(59**2, int)
    bare = build(task, none, a, b, none - 1, none - 1, none, rng)
    found = knock_out(model, bare, Site("pattern", 0, "equals", key=("lhs", "rhs")))
    cut, refilled = found.patched.mean(-1)[:, 0]
    assert cut == pytest.approx(0.443, abs=0.02)
    assert refilled == pytest.approx(0.502, abs=0.02)


def test_the_circuit_of_an_indirect_query(load):
    """The operand's value travels through layer 1's values into the MLP, selected by layer 0's head."""
    model, task = load(30001)
    rng = np.random.default_rng(1)
    clean, corrupted = (matched(task, rng.permutation(59**2)[:60], rng)["both"] for _ in range(2))
    values = tuple(Site("v", 1, f"value of {x}") for x in ("lhs", "rhs"))
    found = patch(model, clean, corrupted, [values, Site("mlp_in", 1, "equals")], "correct")
    assert (found.select(direction="denoising").patched.mean(-1) >= 0.95).all()
    paths = path_patch(
        model, clean, corrupted, Site("attn_out", 1), [Site("mlp_in", 1), Site("resid_post", 1)]
    )
    share = paths.select(direction="denoising", sender="attn_out 1").summary().value
    assert share[0] > 0.9
    assert abs(share[1]) < 0.1


def test_interchange_of_one_operand_gives_the_counterfactual_sum(load):
    model, task = load(20001)
    rng = np.random.default_rng(2)
    base, source = (matched(task, rng.permutation(59**2)[:300], rng) for _ in range(2))
    for side, name in (("left", "lhs"), ("right", "rhs")):
        site = Site("v", 1, f"value of {name}")
        found = interchange(model, base["both"], source["direct"], site, side)
        assert found.accuracy.value >= 0.97
        assert all(control.value <= 0.06 for control in found.controls.values())


def test_a_learned_subspace_of_the_mlp_input_holds_the_sum(load):
    model, task = load(20001, HookedTransformer)
    rng = np.random.default_rng(3)
    base, source = (matched(task, rng.permutation(59**2)[:400], rng)["both"] for _ in range(2))
    site = Site("mlp_in", 1, "equals")
    targets = torch.from_numpy(predicted(base, source, "sum", addition(59))[:250])
    search = Search(rank=24, epochs=6, batch_size=64, rate=0.03)
    basis, _ = learn(model, base[:250], source[:250], site, targets, search)
    held = [batch[250:] for batch in (base, source)]
    found = interchange(
        model, *held, Site("mlp_in", 1, "equals", subspace=basis), controls=("random basis",)
    )
    assert found.accuracy.value >= 0.75
    assert found.controls["random basis"].value <= 0.06


def test_a_sweep_finds_the_places_that_matter(load):
    model, task = load(30001)
    rng = np.random.default_rng(4)
    batches = [matched(task, rng.permutation(59**2)[:60], rng)["direct"] for _ in range(2)]
    found = sweep(model, *batches, "resid_pre", direction="denoising").select(direction="denoising")
    first = found.select(layer=0).to_dataframe().set_index("position").effect
    assert first["lhs"] + first["rhs"] > 0.7
    assert first["plus"] == 0
