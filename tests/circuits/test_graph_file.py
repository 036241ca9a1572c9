"""Circuits survive the way through a file bit for bit; other files are refused in one line."""

import json
import math

import pytest

from mechint_arith.circuits import graph_file
from mechint_arith.circuits.graph import About, Circuit, Edge, Node, Position
from mechint_arith.errors import InputError

CIRCUIT = Circuit(
    About("direct", "ab" * 32, "mean margin", "zero", "noising", 0.1),
    (Position("lhs", "</script> \\ é \n"), Position("equals", "=")),
    (
        Node("lhs", "embedding", None, "lhs", "7"),
        Node("L0H2", "head", 0, "equals", "L0H2", 2),
        Node("logits", "logits", None, "equals", "logits"),
    ),
    (
        Edge("lhs", "L0H2", 0.1 + 0.2, -1e-300, math.pi, 3481, "logits"),
        Edge("L0H2", "logits", -0.0, -0.0, 1e22, 1, "logits"),
    ),
)


def plain(**changes):
    return {**graph_file.to_json(CIRCUIT), **changes}


def test_round_trip_is_exact(tmp_path):
    path = tmp_path / "circuit.json"
    graph_file.write(CIRCUIT, path)
    assert graph_file.read(path) == CIRCUIT
    assert repr(graph_file.read(path)) == repr(CIRCUIT)


def test_the_file_says_what_it_is():
    assert (plain()["schema"], plain()["version"]) == ("mechint_arith.circuit", 1)


def test_a_whole_number_may_stand_for_an_effect():
    value = plain()
    value["edges"][0]["effect"] = 1
    assert graph_file.from_json(value).edges[0].effect == 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected a JSON object with schema"),
        ({"schema": "other"}, "expected a JSON object with schema"),
        (plain(version=2), "circuit of version 2, this package reads version 1"),
        (plain(nodes=None), "nodes should be a list"),
        (plain(about="direct"), "about should be an object"),
        (plain(edges=[3]), r"edges\[0\] should be an object"),
        (plain(colour="red"), "unknown field 'colour'"),
        (plain(positions=[{"name": "lhs"}]), r"positions\[0\].label is missing"),
        (
            plain(positions=[{"name": "a", "label": 3}]),
            r"positions\[0\].label should be text; got 3",
        ),
        (plain(about={**plain()["about"], "seed": 1}), "about.seed is not a field"),
    ],
)
def test_other_values_are_refused(value, message):
    with pytest.raises(InputError, match=message):
        graph_file.from_json(value)


def test_every_wrong_field_is_named():
    value = plain()
    value["nodes"][0]["layer"] = "first"
    value["nodes"][1]["head"] = True
    value["edges"][0]["effect"] = None
    with pytest.raises(InputError) as caught:
        graph_file.from_json(value)
    assert "nodes[0].layer should be a whole number or null; got 'first'" in str(caught.value)
    assert "nodes[1].head should be" in str(caught.value)
    assert "edges[0].effect should be a number" in str(caught.value)


def test_what_a_circuit_refuses_a_file_cannot_hold():
    value = plain()
    value["edges"][0]["receiver"] = "ghost"
    with pytest.raises(InputError, match="hangs in the air"):
        graph_file.from_json(value)


def test_a_number_beyond_floats_is_refused():
    value = plain()
    value["edges"][0]["effect"] = 10**400
    with pytest.raises(InputError, match=r"edges\[0\]\.effect should be a number; got 1000"):
        graph_file.from_json(value)


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000, "\x00"])
def test_what_is_not_json_is_named(tmp_path, text):
    path = tmp_path / "circuit.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"circuit\.json is not JSON"):
        graph_file.read(path)


def test_a_file_with_nan_is_refused(tmp_path):
    path = tmp_path / "circuit.json"
    path.write_text(json.dumps(plain()).replace("0.30000000000000004", "NaN"))
    with pytest.raises(InputError, match="effect nan"):
        graph_file.read(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        graph_file.read(tmp_path / "none.json")
