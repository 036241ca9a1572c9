"""Measures without outside files: against the hooked-free plain pass, planted cases, and errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mechint_arith.circuits.weights import (
    Table,
    logit_table,
    qk0,
    qk0_positions,
    qk1_variables,
    score_terms,
)
from mechint_arith.errors import InputError
from mechint_arith.measures import attention, paths, readouts, structure
from mechint_arith.measures.catalogue import MEASURES, chosen
from mechint_arith.measures.subject import Prompts, Subject
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.assign_add import AssignAdd

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
PROMPTS = Prompts(TASK, n=60, n_cell=5)


def checkpoint(*, heads=1, seed=0, task=TASK):
    config = ModelConfig(
        len(task.vocab), task.p, task.length, n_heads=heads, d_model=16, d_head=8, d_mlp=(0, 24)
    )
    return Checkpoint(config, initial_weights(config, seed, dtype=torch.float64), task)


@pytest.fixture(scope="module", params=[1, 2])
def made(request):
    return checkpoint(heads=request.param)


@pytest.fixture(scope="module")
def subject(made):
    return Subject.of(made, PROMPTS)


def test_every_measure_runs_on_an_untrained_model(subject):
    for measure in MEASURES.values():
        for name, estimate in measure.take(subject).items():
            assert estimate.low <= estimate.value <= estimate.high or "overlap" in name, name
            estimate.as_dict()


def test_tables_are_the_products_of_the_weights(made, subject):
    w, c = made.weights, made.config
    e, pos = w["embed.W_E"], w["pos_embed.W_pos"]
    for h in range(c.n_heads):
        q0, k0 = w["blocks.0.attn.W_Q"][h], w["blocks.0.attn.W_K"][h]
        scores = pos @ q0 @ k0.T @ pos.T / c.d_head**0.5
        np.testing.assert_allclose(qk0_positions(subject.model).values[h], scores, atol=1e-9)
        v = TASK.variable_ids
        for moved_by in range(c.n_heads):
            y = e[v] @ w["blocks.0.attn.W_V"][moved_by] @ w["blocks.0.attn.W_O"][moved_by]
            m = y @ w["blocks.1.attn.W_Q"][h] @ w["blocks.1.attn.W_K"][h].T @ y.T
            table = qk1_variables(subject.model, TASK).at(moved_by=moved_by, head=h)
            np.testing.assert_allclose(table.values, m, atol=1e-9)
    logits = w["blocks.1.mlp.W_out"] @ w["unembed.W_U"]
    np.testing.assert_allclose(logit_table(subject.model, TASK).values, logits, atol=1e-9)
    table = qk0(subject.model, TASK).at(query_row="=", key_row="a", head=0)
    place = TASK.vocab.ids
    expected = (
        e[place["="]] @ w["blocks.0.attn.W_Q"][0] @ w["blocks.0.attn.W_K"][0].T @ e[place["a"]]
    )
    assert table.values == pytest.approx(float(expected) / c.d_head**0.5)


def test_a_table_says_what_it_has():
    table = Table(np.eye(2), ("query", "key"), {"key": ("a", "b")}, "score")
    assert table.at(key="b").values.tolist() == [0, 1]
    with pytest.raises(InputError, match="choose from a, b"):
        table.at(key="c")
    with pytest.raises(InputError, match="has query, key"):
        table.at(head=0)
    with pytest.raises(ValueError, match="do not fit"):
        Table(np.eye(2), ("query", "key"), {"key": ("a",)}, "score")


def test_score_terms_add_up_to_the_plain_scores(made, subject):
    batch = PROMPTS.pools["2var_seen"]
    tokens = torch.from_numpy(batch.tokens)
    seen = {}
    network = Transformer(made.config, made.weights)
    network.blocks[1].attn.hook_attn_scores.register_forward_hook(
        lambda _module, _inputs, output: seen.__setitem__("scores", output)
    )
    with torch.no_grad():
        network(tokens)
    terms = score_terms(subject.model, tokens)
    assert terms.shape[2:4] == (3, 3)
    torch.testing.assert_close(terms.sum((2, 3)), seen["scores"][:, :, batch.read])


LHS, RHS, EQUALS = (TASK.places[name] for name in ("lhs", "rhs", "equals"))


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("bare_accuracy_deleted", [(EQUALS, LHS), (EQUALS, RHS)]),
        ("bare_accuracy_without_relay", [(RHS, LHS)]),
        ("bare_accuracy_without_both", [(EQUALS, LHS), (EQUALS, RHS), (RHS, LHS)]),
    ],
)
def test_deleting_edges_is_the_same_by_hooks(made, subject, name, edges):
    batch = PROMPTS.bare
    network = Transformer(made.config, made.weights)

    def delete(_module, _inputs, pattern):
        changed = pattern.clone()
        for query, key in edges:
            changed[:, :, query, key] = 0
        return changed

    network.blocks[0].attn.hook_pattern.register_forward_hook(delete)
    with torch.no_grad():
        answers = network(torch.from_numpy(batch.tokens))[:, batch.read].argmax(-1).numpy()
    found = paths.edge_deletion(subject) | paths.relay_deletion(subject)
    assert found[name].value == pytest.approx((answers == batch.labels).mean())


def test_a_planted_diagonal_is_identity_and_a_planted_shift_is_not():
    made = checkpoint()
    n, c = TASK.n_vars, made.config
    weights = dict(made.weights)
    for name in (
        "blocks.1.attn.W_Q",
        "blocks.1.attn.W_K",
        "blocks.0.attn.W_V",
        "blocks.0.attn.W_O",
    ):
        weights[name] = torch.zeros_like(weights[name])
    # Layer 0's OV copies the first n residual dimensions, which hold the variable one-hot.
    copy = torch.eye(c.d_head)[:, :n]
    weights["embed.W_E"] = torch.zeros_like(weights["embed.W_E"])
    weights["embed.W_E"][TASK.variable_ids, :n] = torch.eye(n, dtype=torch.float64)
    weights["blocks.0.attn.W_V"][0, :n, :n] = torch.eye(n)
    weights["blocks.0.attn.W_O"][0, : c.d_head, :n] = copy
    weights["blocks.1.attn.W_Q"][0, :n, :n] = torch.eye(n)
    for shift, expected in ((0, 1.0), (1, 0.0)):
        weights["blocks.1.attn.W_K"][0, :n, :n] = torch.eye(n).roll(shift, 1)
        planted = Subject.of(replace(made, weights=weights), PROMPTS)
        found = structure.qk1_identity(planted)
        assert found["qk1_identity"].value == expected
        assert found["qk1_margin"].value == pytest.approx(1.0 if not shift else -1.0)


def test_attention_shares_by_brute_force(subject):
    found = attention.attn1_values(subject)
    batch, run = subject.route("both")
    weights = run.patterns[1].mean(1).numpy()
    right, mass = [], []
    for row, w in enumerate(weights):
        places = {int(batch.positions[f"value of {o}"][row]) for o in ("lhs", "rhs")}
        right.append(set(np.argsort(w)[-2:].tolist()) == places)
        mass.append(sum(w[place] for place in places))
    assert found["attn1_values_both"].value == pytest.approx(np.mean(right))
    assert found["attn1_values_mass_both"].value == pytest.approx(np.mean(mass))
    before = attention.attn0_previous(subject)
    batch, run = subject.route("left")
    first, hits = run.patterns[0].mean(1).numpy(), []
    for row, tokens in enumerate(batch.tokens):
        for at in range(TASK.places["plus"]):
            if tokens[at] < TASK.p:
                hits.append(first[row, at].argmax() == at - 1)
    assert before["attn0_previous_left"].value == pytest.approx(np.mean(hits))
    assert before["attn0_previous_left"].n == len(hits)


def test_probed_activations_are_those_of_the_plain_pass(made, subject):
    batch, run = PROMPTS.pools["1var_seen"], subject.run("1var_seen")
    x, variable, row = readouts._values(subject, batch, run.patterns[0])
    seen = {}
    network = Transformer(made.config, made.weights)
    network.blocks[0].hook_resid_mid.register_forward_hook(
        lambda _module, _inputs, output: seen.__setitem__("mid", output)
    )
    with torch.no_grad():
        network(torch.from_numpy(batch.tokens))
    rows, at = np.nonzero(batch.tokens[:, : TASK.places["plus"]] < TASK.p)
    np.testing.assert_allclose(x, seen["mid"][rows, at].numpy(), atol=1e-9)
    assert (rows == row).all()
    assert (TASK.variable_ids[variable] == batch.tokens[rows, at - 1]).all()


def test_errors_say_what_to_do(subject):
    with pytest.raises(InputError, match="no measure 'speed': choose from accuracy"):
        chosen(["speed"])
    other = AssignAdd(p=5, n_vars=4, length=10, never_left=1, never_right=1)
    with pytest.raises(InputError, match="one task"):
        Subject.of(checkpoint(task=other), PROMPTS)
    one_layer = ModelConfig(len(TASK.vocab), 7, 10, n_layers=1, d_model=16, d_head=8, d_mlp=(24,))
    small = Checkpoint(one_layer, initial_weights(one_layer, 0), TASK)
    with pytest.raises(InputError, match="two layers"):
        structure.qk0_previous(Subject.of(small, PROMPTS))
