"""`fourier`, `decode` and `train modular` as a user meets them."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.modular import ModularTask

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "modular_add_p53"
LAST = SHIPPED / "step_008000.safetensors"


def test_results_and_report_of_one_checkpoint(run, tmp_path):
    code, out, _ = run("fourier", "--ckpt", LAST, "--out", tmp_path / "out", "--quick")
    assert code == 0
    assert "key in W_E             13 16 22" in out
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["accuracy"]["all"] == {**found["accuracy"]["all"], "value": 1.0, "n": 53 * 53}
    assert found["layout"] == "mechint-arith"
    assert found["ignored_keys"] == []
    assert found["frequencies"][:3] == [13, 16, 22]
    assert "<html" in (tmp_path / "out" / "report.html").read_text()[:200].lower()


def test_a_folder_is_a_training_run(run, tmp_path):
    for step in ("000200", "004000", "008000"):
        shutil.copy(SHIPPED / f"step_{step}.safetensors", tmp_path)
    code, out, _ = run("fourier", "--ckpt", tmp_path, "--json")
    assert code == 0
    found = json.loads(out)
    assert [s["step"] for s in found["steps"]] == [200, 4000, 8000]
    assert (found["memorised"], found["generalised"]) == (200, 8000)


def test_probe_reads_modular_checkpoints_too(run):
    code, out, _ = run("probe", "--ckpt", SHIPPED / "step_000200.safetensors", "--quick", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["kind"] == "modular"
    assert found["circuit"]["claimed"] is False


def test_probe_of_a_modular_checkpoint_says_what_is_decodable(run, tmp_path):
    out = tmp_path / "out"
    code, _, _ = run("probe", "--ckpt", SHIPPED / "step_000200.safetensors", "--out", out)
    assert code == 0
    found = json.loads((out / "results.json").read_text())["decoding"]
    assert found["reason"] is None
    assert {d["quantity"] for d in found["decodings"]} == {"a", "b", "sum"}
    assert "Holm over" in (out / "report.html").read_text()


def test_where_pairs_are_too_few_for_linear_probes_the_report_says_so(run, tmp_path):
    task = ModularTask(p=2, train_share=0.5)
    config = ModelConfig(3, 2, 3, n_layers=1, d_model=8, d_head=4, d_mlp=(8,))
    path = tmp_path / "p2.safetensors"
    save(path, Checkpoint(config, initial_weights(config, 0), task, 4, 0))
    code, _, _ = run("probe", "--ckpt", path, "--out", tmp_path / "out")
    assert code == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["decoding"]
    assert "too few" in found["reason"]
    assert f"Not given: {found['reason']}" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("command", ["fourier", "decode", "probe"])
def test_logits_that_overflow_are_one_line_that_names_the_file(run, tmp_path, command):
    task = ModularTask(p=7)
    config = ModelConfig(8, 7, 3, n_layers=1, d_model=8, d_head=4, d_mlp=(8,))
    huge = {name: torch.full_like(w, 1e6) for name, w in initial_weights(config, 0).items()}
    save(tmp_path / "huge.safetensors", Checkpoint(config, huge, task, 4, 0))
    code, _, err = run(command, "--ckpt", tmp_path / "huge.safetensors")
    assert code == 2
    assert "huge.safetensors: the logits are NaN or infinite" in err
    assert err.count("\n") == 1


def test_outside_files_with_their_json(run, reference, tmp_path):
    code, out, _ = run(
        "fourier", "--ckpt", reference / "modular" / "model_p99zdpze5l.pt", "--quick", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert found["accuracy"]["all"]["value"] == 1.0
    assert found["layout"] == "attention-mix"
    assert found["model"]["attn_mix"] == 0.0
    alone = tmp_path / "alone.pt"
    shutil.copy(reference / "modular" / "model_p99zdpze5l.pt", alone)
    code, _, err = run("fourier", "--ckpt", alone)
    assert code == 2
    assert err.count("\n") == 1
    assert "--attn-coeff" in err
    config = reference / "modular" / "config_p99zdpze5l.json"
    code, out, _ = run("fourier", "--ckpt", alone, "--config", config, "--quick", "--json")
    assert json.loads(out)["source"]["config"] == "config_p99zdpze5l.json"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--p", 1), "at least 2"),
        (("--p", 10, "--op", "pow"), "add, sub, mul, div"),
        (("--p", 4, "--op", "div", "--train-share", 0.05), "leaves a side empty"),
        (("--p", 7, "--d-model", 0), "d_model"),
        (("--p", 7, "--steps", 0), "steps"),
    ],
)
def test_train_modular_refuses_in_one_line(run, tmp_path, options, said):
    code, _, err = run("train", "modular", "--out", tmp_path / "run", *options)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("p", [2, 4, 9])
def test_train_modular_takes_even_and_composite_moduli(run, tmp_path, p):
    options = ("--p", p, "--op", "mul", "--train-share", 0.5, "--steps", 2, "--d-model", 8)
    code, _, _ = run("train", "modular", "--out", tmp_path / "run", *options)
    assert code == 0
    assert (tmp_path / "run" / "step_000002.safetensors").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<!DOCTYPE html>", "HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git-LFS pointer"),
        (b"", "is empty"),
    ],
)
def test_what_is_no_checkpoint_exits_with_one_line(run, tmp_path, content, said):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    code, _, err = run("fourier", "--ckpt", path)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_file_of_losses_says_so(run, tmp_path):
    torch.save({"train_losses": [1.0], "test_losses": [1.0]}, tmp_path / "losses.pth")
    code, _, err = run("fourier", "--ckpt", tmp_path / "losses.pth")
    assert code == 2
    assert "holds no model, only: train_losses, test_losses" in err
