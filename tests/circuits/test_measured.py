"""Circuits of real and of rewritten models: what is known of them must be found, and what is not must be refused."""

import inspect

import numpy as np
import pytest
import torch

from mechint_arith import probing
from mechint_arith.circuits import graph_file
from mechint_arith.circuits.graph import common
from mechint_arith.circuits.measured import N_PAIRS, measure
from mechint_arith.circuits.places import masks, positions_of
from mechint_arith.circuits.routes import circuits_of
from mechint_arith.cli.diagram import diagram
from mechint_arith.errors import InputError
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.controls.exact import split
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched

N = 50


def network(checkpoint):
    return Transformer(checkpoint.config, checkpoint.weights).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def released(reference):
    def load(step):
        path = reference / "assign_and_add" / f"checkpoint_step_{step}.pth"
        return load_checkpoint(path)

    return load


@pytest.mark.parametrize("route", ROUTES)
def test_positions_cover_each_prompt_once(route, rng):
    task = AssignAdd()
    batch = matched(task, rng.integers(0, task.p**2, 50), rng)[route]
    at = masks(batch, route)
    assert set(at) == {place.name for place in positions_of(route)}
    total = torch.stack(list(at.values())).long().sum(0)
    assert (total == 1).all()
    tokens = torch.from_numpy(batch.tokens)
    np.testing.assert_array_equal(tokens[at["value of lhs"]], batch.factors["a"])
    np.testing.assert_array_equal(tokens[at["value of rhs"]], batch.factors["b"])


def test_the_released_model_looks_variables_up_in_layer_0_and_adds_behind_layer_1(released):
    checkpoint = released(30001)
    direct, both = circuits_of(
        network(checkpoint), checkpoint.task, ("direct", "both"), n_pairs=N, name="released"
    )
    for one in (direct, both):
        assert one.accuracy.value == 1
        assert 0.9 < one.faithfulness.alone.value < 1.15
        assert abs(one.faithfulness.without.value) < 0.05
        assert one.faithfulness.gap < 0.15
        assert one.faithfulness.accuracy.value > 0.95
        assert one.faithfulness.n_edges == len(one.circuit.edges) < one.faithfulness.n_all
    shared = common(direct.circuit, both.circuit).edges
    assert {
        ("embedding value of lhs", "head 1.0"),
        ("embedding value of rhs", "head 1.0"),
        ("head 1.0", "shared neurons"),
        ("shared neurons", "logits"),
    } <= shared
    own = {edge.ends for edge in both.circuit.edges} - shared
    assert {
        ("embedding variable of lhs", "head 0.0 value of lhs"),
        ("embedding lhs", "head 0.0 equals"),
        ("head 0.0 equals", "head 1.0"),
        ("head 0.0 value of rhs", "head 1.0"),
    } <= own
    whole = measure(network(checkpoint), checkpoint.task, "direct", n_pairs=N, name="released")
    near = [e for e in whole.circuit.edges if e.low <= 0.05 < e.high or e.low <= -0.05 < e.high]
    assert whole.pruned(0.05).n_unsure == len(near)
    written = both.as_dict()
    assert graph_file.from_json(written["circuit"]) == both.circuit
    assert written["faithfulness"]["alone"]["n"] == both.faithfulness.alone.n


def test_a_planted_split_shows_as_neurons_of_their_own(released):
    checkpoint = split(released(30001), seed=3)
    direct, both = circuits_of(
        network(checkpoint), checkpoint.task, ("direct", "both"), n_pairs=40, threshold=0.2
    )
    shared = common(direct.circuit, both.circuit)
    assert not {n.id for n in direct.circuit.nodes if n.kind == "neurons"} & shared.nodes
    for one, query in ((direct, "7 + 12"), (both, "x + y")):
        strong = {edge.ends for edge in one.circuit.edges if edge.effect > 0.5}
        assert (f"neurons for {query} only", "logits") in strong


def test_early_direct_addition_takes_one_number_through_layer_0(released):
    checkpoint = released(501)
    (found,) = circuits_of(network(checkpoint), checkpoint.task, ("direct",), n_pairs=N)
    effects = {edge.ends: edge.effect for edge in found.circuit.edges}
    assert effects["embedding value of rhs", "head 0.0 equals"] > 0.5
    assert effects["head 0.0 equals", "mlp 1"] > 0.5
    assert effects["embedding value of lhs", "head 1.0"] > 0.5


def test_the_report_and_the_command_measure_on_the_same_pairs():
    defaults = [
        inspect.signature(function).parameters[name].default
        for function, name in ((circuits_of, "n_pairs"), (diagram, "pairs"))
    ]
    assert defaults == [N_PAIRS, N_PAIRS]
    assert "n_pairs=" not in inspect.getsource(probing._circuits)


def test_no_circuit_is_claimed_without_competence(released):
    checkpoint = released(5001)
    with pytest.raises(InputError, match=r"no circuit is claimed for the left route: accuracy 0\."):
        measure(network(checkpoint), checkpoint.task, "left", n_pairs=N)


def test_chance_level_and_misuse_are_one_line_each():
    task = AssignAdd(p=7, n_vars=5, length=12, never_left=1, never_right=1)
    config = ModelConfig(len(task.vocab), task.p, task.length, d_model=16, d_head=8, d_mlp=(0, 8))
    model = Transformer(config, initial_weights(config, 0)).eval()
    with pytest.raises(InputError, match="no circuit is claimed for the direct route"):
        circuits_of(model, task, ("direct", "both"), n_pairs=20)
    with pytest.raises(InputError, match="no route 'up'"):
        measure(model, task, "up")
    with pytest.raises(InputError, match="one route or two different ones"):
        circuits_of(model, task, ("both", "both"))
    with pytest.raises(InputError, match="measured by denoising or noising"):
        measure(model, task, "both", direction="up", n_pairs=10)
    with pytest.raises(InputError, match="no edge of the both route has an effect of 1e"):
        measure(model, task, "both", n_pairs=10, competent=0.0).pruned(1e9)
