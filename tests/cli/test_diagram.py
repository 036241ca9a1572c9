"""`diagram` as a user meets it: four formats from a bare machine, numbers beside them, one line for refusals."""

import json

import pytest

from mechint_arith.circuits import graph_file
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.modular import ModularTask

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
CONFIG = ModelConfig(len(TASK.vocab), 7, 10, d_model=12, d_head=6, d_mlp=(0, 20))


@pytest.fixture
def ckpt(tmp_path):
    path = tmp_path / "step_000004.safetensors"
    save(path, Checkpoint(CONFIG, initial_weights(CONFIG, 0), TASK, 4, 0))
    return path


def test_two_routes_side_by_side_without_browser_or_system_programs(
    reference, run, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    released = reference / "assign_and_add" / "checkpoint_step_30001.pth"
    out, numbers = tmp_path / "pair.pdf", tmp_path / "pair.json"
    code, said, _ = run(
        "diagram", "--ckpt", released, "--out", out, "--json", numbers, "--pairs", 50
    )
    assert code == 0
    assert "direct: 7 of 30 edges" in said
    assert "the circuit alone (all else corrupted) keeps" in said
    assert out.read_bytes().startswith(b"%PDF")
    written = json.loads(numbers.read_text())
    circuits = [graph_file.from_json(entry["circuit"]) for entry in written["routes"]]
    assert [circuit.about.route for circuit in circuits] == ["direct", "both"]
    assert {circuit.about.model for circuit in circuits} == {written["sha256"]}
    assert {circuit.about.threshold for circuit in circuits} == {0.05}


def test_one_measurement_is_drawn_in_every_format(reference, run, tmp_path):
    released = reference / "assign_and_add" / "checkpoint_step_30001.pth"
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".tikz": b"%"}
    files = {tmp_path / f"indirect{suffix}": start for suffix, start in starts.items()}
    outs = [word for file in files for word in ("--out", file)]
    options = ("--route", "indirect", "--pairs", 40, "--threshold", 0.2)
    code, said, _ = run("diagram", "--ckpt", released, *outs, *options)
    assert code == 0
    assert said.startswith("both: ")
    for file, start in files.items():
        assert file.read_bytes().startswith(start)
        assert str(file) in said


def test_a_chance_level_model_gets_no_circuit(ckpt, run, tmp_path):
    code, _, said = run("diagram", "--ckpt", ckpt, "--out", tmp_path / "x.pdf")
    assert code == 2
    assert said.startswith(f"error: {ckpt}: no circuit is claimed for the direct route: accuracy")
    assert said.count("\n") == 1
    assert not (tmp_path / "x.pdf").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--route", "up"), "choose from direct, left, right, indirect, both"),
        (("--out", "x.gif"), "should end in .svg"),
        (("--pairs", 0), "--pairs must be at least 1"),
    ],
)
def test_refusals_are_one_line(ckpt, run, options, message):
    code, _, said = run("diagram", "--ckpt", ckpt, *options)
    assert code == 2
    assert message in said
    assert said.count("\n") == 1


def test_models_of_other_tasks_are_refused(run, tmp_path):
    task = ModularTask(p=7)
    config = ModelConfig(
        len(task.vocab), 7, task.length, n_layers=1, d_model=12, d_head=6, d_mlp=(20,)
    )
    path = tmp_path / "modular.safetensors"
    save(path, Checkpoint(config, initial_weights(config, 0), task, 4, 0))
    code, _, said = run("diagram", "--ckpt", path, "--out", tmp_path / "x.pdf")
    assert code == 2
    assert "need an assign-and-add model" in said
