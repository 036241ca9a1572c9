"""The measures on the released checkpoints give the values that were measured on them."""

import json

import numpy as np
import pytest
import torch

from mechint_arith.circuits.weights import score_terms
from mechint_arith.measures import attention, paths, readouts, structure
from mechint_arith.measures.subject import Prompts, Subject
from mechint_arith.models.load import load_checkpoint
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.prompts import from_text

STEPS = (1, 501, 1001, 2001, 3001, 4001, 5001, 5301, 5401, 6001)
STEPS += (8001, 10001, 14001, 14501, 15201, 16001, 20001, 30001)
PROMPTS = Prompts(AssignAdd())


@pytest.fixture(scope="module")
def subject(reference):
    kept = {}

    def at(step):
        if step not in kept:
            path = reference / "assign_and_add" / f"checkpoint_step_{step}.pth"
            kept[step] = Subject.of(load_checkpoint(path), PROMPTS)
        return kept[step]

    return at


@pytest.mark.parametrize("step", STEPS)
def test_weight_measures(reference, subject, step):
    values = json.loads((reference / "assign_and_add" / "values.json").read_text())
    expected = values["steps"][str(step)]["measures"]
    found = structure.ov1_mlp1(subject(step)) | structure.qk0_previous(subject(step))
    found |= structure.qk1_identity(subject(step))
    for name in ("ov1_mlp1", "qk0_previous_strict", "qk0_previous_published"):
        assert found[name].value == pytest.approx(expected[name], abs=1e-4), name
    assert abs(found["qk1_identity"].value - expected["qk1_identity"]) < 1 / 12 + 1e-4
    assert found["qk1_margin"].value == pytest.approx(expected["qk1_margin"], abs=1e-2)


@pytest.mark.parametrize("step", [6001, 14001])
def test_positions_alone_do_not_select_the_token_before(subject, step):
    found = structure.qk0_previous(subject(step))
    assert found["qk0_previous_published"].value == found["qk0_previous_strict"].value == 1
    assert 0.08 < found["qk0_previous_with_self"].value < 0.19


@pytest.mark.parametrize("step", [501, 5301, 6001, 20001])
def test_pool_accuracies(reference, subject, step):
    values = json.loads((reference / "assign_and_add" / "values.json").read_text())
    found = readouts.accuracy(subject(step))
    for pool, expected in values["steps"][str(step)]["accuracy"].items():
        assert found[pool].value == pytest.approx(expected, abs=0.045), pool
        assert found[pool].low <= found[pool].value <= found[pool].high


@pytest.mark.parametrize(
    ("step", "bare", "lhs", "rhs", "deleted", "renormalised"),
    [
        (501, 0.902, 1.000, 0.000, 0.021, 0.018),
        (2001, 0.983, 0.982, 0.008, 0.074, 0.080),
        (5001, 0.999, 0.662, 0.237, 0.443, 0.502),
        (6001, 0.999, 0.634, 0.351, 0.954, 0.310),
        (14001, 0.998, 0.443, 0.402, 0.998, 0.998),
    ],
)
def test_early_addition_runs_on_another_route(subject, step, bare, lhs, rhs, deleted, renormalised):
    found = attention.attn1_direct(subject(step)) | paths.edge_deletion(subject(step))
    expected = {
        "bare_accuracy": bare,
        "attn1_direct_lhs": lhs,
        "attn1_direct_rhs": rhs,
        "bare_accuracy_deleted": deleted,
        "bare_accuracy_renormalised": renormalised,
    }
    assert {name: found[name].value for name in expected} == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("step", "seen", "held"), [(501, 0.80, 0.38), (1001, 0.93, 0.61)])
def test_strata(subject, step, seen, held):
    found = readouts.strata(subject(step))
    assert found["0var_held mirror seen"].value == pytest.approx(seen, abs=0.045)
    assert found["0var_held mirror held"].value == pytest.approx(held, abs=0.045)


def test_mlp_input_is_a_sum_of_ov_images(subject):
    found = readouts.mlp_input(subject(30001))
    expected = {
        "mlp_input_cosine": 0.981,
        "mlp_input_cosine_mismatched": 0.129,
        "mlp_input_cosine_centred": 0.996,
        "mlp_input_cosine_centred_mismatched": 0.0,
        "ov_sum_r2": 0.979,
        "ov_sum_scale": 0.385,
    }
    assert {name: found[name].value for name in expected} == pytest.approx(expected, abs=0.02)


def test_neurons_are_seldom_pure(subject):
    found = readouts.frequencies(subject(30001))
    assert found["active_neurons"].value == 478
    assert found["frequency_pure_neurons"].value == pytest.approx(8 / 478, abs=1e-6)
    assert found["frequency_median_fraction"].value == pytest.approx(0.530, abs=0.002)
    shares = {k: found[f"frequency_{k}"].value for k in range(1, 30)}
    strongest = sorted(shares, key=lambda k: -shares[k])[:10]
    assert sorted(strongest) == [1, 2, 4, 5, 11, 15, 19, 20, 22, 27]


@pytest.mark.parametrize(("step", "right", "left"), [(14001, 0.107, 0.421), (16001, 0.283, 0.305)])
def test_b_on_the_right(subject, step, right, left):
    model, task = subject(step).model, PROMPTS.task
    batch = from_text(task, ["PAD*3 b 7 PAD*7 + 9 b =", "PAD*3 b 7 PAD*7 + b 9 ="])
    tokens = torch.from_numpy(batch.tokens)
    run = model(tokens)
    value = batch.positions["value of rhs"][0]
    assert run.patterns[1][:, 0, value].tolist() == pytest.approx([right, left], abs=0.02)
    terms = score_terms(model, tokens)
    whole = terms.sum((2, 3)).softmax(-1)
    assert torch.allclose(whole, run.patterns[1], atol=1e-4)
    answer = run.logits.softmax(-1)[:, 16]
    expected = [0.171, 1.0] if step == 14001 else [1.0, 1.0]
    assert answer.tolist() == pytest.approx(expected, abs=0.02)


def test_identity_is_matched_late_and_not_early(subject):
    late, early = (paths.identity_swap(subject(step)) for step in (30001, 501))
    assert late["identity_swap"].low > 0.95
    assert late["identity_swap_unchanged"].high < 0.05
    assert early["identity_swap"].high < 0.3


def test_variable_probe_has_its_control(subject):
    found = readouts.probe_variable(subject(30001))
    assert found["probe_variable"].low > 0.95
    assert found["probe_variable_control"].high < 0.2
    assert found["probe_variable_selectivity"].low > 0.7


def test_attention_measures_late(subject):
    found = attention.attn0_operands(subject(20001)) | attention.attn0_previous(subject(20001))
    found |= attention.attn1_values(subject(20001))
    for route in ("direct", "left", "right", "both"):
        for name in ("attn0_operands", "attn0_previous", "attn1_values"):
            assert found[f"{name}_{route}"].low > 0.9
            mass = found[f"{name}_mass_{route}"]
            assert 0.4 < mass.value < 1
    pooled = [found[f"attn1_values_{route}"] for route in ("direct", "left", "right", "both")]
    n = np.array([e.n for e in pooled])
    mean = float(np.average([e.value for e in pooled], weights=n))
    assert found["attn1_values_published"].value == pytest.approx(mean)


def test_sharing_late_and_not_early(subject):
    late, early = (paths.sharing(subject(step)) for step in (20001, 501))
    assert late["sharing_index"].value > 0.95
    assert late["shared_direct_left"].value == late["shared_direct_both"].value == 1
    assert early["shared_direct_left"].value == 0
    assert late["interchange_direct_both"].value > 0.98


def test_mlp_outputs_are_exchangeable_and_the_mlp_is_enough(subject):
    found = subject(30001)
    model, p = found.model, PROMPTS.task.p
    direct, indirect = (found.run(f"template_{name}") for name in ("direct", "indirect"))
    labels = torch.from_numpy(found.batch("template_direct").labels)
    other = torch.from_numpy(np.random.default_rng(0).permutation(p * p))
    swapped = model.logits_from(indirect.resid_mid, direct.post[other]).argmax(-1)
    assert float((swapped == labels[other]).double().mean()) == pytest.approx(0.998, abs=0.02)
    zeroed = model.logits_from(indirect.resid_mid, 0 * indirect.post).argmax(-1)
    assert float((zeroed == labels).double().mean()) == pytest.approx(0.03, abs=0.02)
    alone = (indirect.post @ model.w_logit).argmax(-1)
    assert float((alone == labels).double().mean()) == pytest.approx(0.998, abs=0.02)
