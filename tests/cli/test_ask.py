"""`ask` in terminals of every kind, on files of every kind."""

import json
import os
import subprocess
import sys

import pytest
import torch

from mechint_arith.models.bridge import state_dict
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.modular import ModularTask

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
CONFIG = ModelConfig(
    d_vocab=len(TASK.vocab), d_vocab_out=7, n_ctx=10, d_model=12, d_head=6, d_mlp=(0, 20)
)


@pytest.fixture
def ckpt(tmp_path):
    path = tmp_path / "a.safetensors"
    save(path, Checkpoint(CONFIG, initial_weights(CONFIG, 0), TASK, 4, 0))
    return path


def in_a_shell(arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run `mechint-arith` with redirections; its exit code is the last line of stdout or stderr."""
    command = f"{sys.executable} -m mechint_arith {arguments}"
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, **options
    )


def test_unusable_input_is_one_line(ckpt, run, tmp_path):
    os.mkfifo(tmp_path / "pipe.pth")
    large = {k: torch.full_like(w, 1e13) for k, w in initial_weights(CONFIG, 0).items()}
    save(tmp_path / "large.safetensors", Checkpoint(CONFIG, large, TASK))
    cases = [
        (("1 + 2 =", "--ckpt", tmp_path / "pipe.pth"), "pipe.pth is a pipe or a device"),
        (("1 + 2 =", "--ckpt", "/dev/zero"), "/dev/zero is a pipe or a device"),
        (("1 + 2 =", "--ckpt", tmp_path), "is a folder"),
        (("1 + 2 =", "--ckpt", tmp_path / "large.safetensors"), "large.safetensors: the logits"),
        (("PAD*999999999999 + 1 2 =", "--ckpt", ckpt), "this model reads 10 tokens"),
        (("1 - 2 =", "--ckpt", ckpt), "or '+ 7 12 ='"),
        (
            ("1 + 2 =", "--ckpt", ckpt, "--figure", "/proc/no/a.html"),
            "cannot write /proc/no/a.html",
        ),
    ]
    for args, complaint in cases:
        code, out, err = run("ask", *args)
        assert (code, out) == (2, ""), args
        assert complaint in err
        assert err.count("\n") == 1


def test_a_newcomers_prompt_is_read_as_the_direct_one(ckpt, run):
    code, out, _ = run("ask", "3 + 5 =", "--ckpt", ckpt)
    assert code == 0
    assert out == run("ask", "+ 3 5 =", "--ckpt", ckpt)[1]
    assert out.startswith("+ 3 5 =")


def test_forms_are_asked_at_once(ckpt, run):
    code, out, _ = run("ask", "--forms", "3 5", "--ckpt", ckpt)
    assert code == 0
    rows = out.splitlines()[1:5]
    assert [row.split("a 3 b 5 + ")[1].split(" =")[0] for row in rows] == [
        "3 5",
        "a 5",
        "3 b",
        "a b",
    ]
    assert "minus the mean of all others" in out
    code, out, _ = run("ask", "--forms", "3 5", "--ckpt", ckpt, "--json")
    found = json.loads(out)["forms"]
    assert list(found) == ["direct", "left", "right", "both"]
    assert found["both"]["tokens"][-4:] == ["+", "a", "b", "="]
    code, _, err = run("ask", "--forms", "3 5", "--ckpt", ckpt, "--figure", "a.html")
    assert (code, "leave --forms or --figure out" in err) == (2, True)


def test_many_heads_and_pads_fit_80_columns(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    config = ModelConfig(**{**CONFIG.as_dict(), "n_heads": 3})
    save(tmp_path / "a.safetensors", Checkpoint(config, initial_weights(config, 0), TASK))
    code, out, _ = run("ask", "3 5", "--ckpt", tmp_path / "a.safetensors")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert out.count("PAD, 6 in all") == out.count("attention from =") == 3
    assert all(f"layer {layer} head {head}" in out for layer in range(2) for head in range(3))
    assert "…" not in out


def test_an_mlp_in_the_first_layer_only(run, tmp_path):
    config = ModelConfig(**{**CONFIG.as_dict(), "d_mlp": (20, 0)})
    save(tmp_path / "a.safetensors", Checkpoint(config, initial_weights(config, 0), TASK))
    code, out, _ = run("ask", "3 + 5 =", "--ckpt", tmp_path / "a.safetensors")
    assert code == 0
    assert "MLP 0" in out


def test_outside_files_say_how_they_were_read(run, tmp_path):
    config = ModelConfig(
        d_vocab=6, d_vocab_out=5, n_ctx=3, n_layers=1, d_model=8, d_head=4, d_mlp=(8,)
    )
    path = tmp_path / "m.pth"
    torch.save(state_dict(config, initial_weights(config, 0)), path)
    assert "assumed op add" in run("ask", "3 4 =", "--ckpt", path)[1].replace("\n", " ")
    code, out, _ = run("ask", "3 * 4 =", "--ckpt", path, "--op", "mul", "--json")
    assert code == 0
    assert json.loads(out)["right"] == 2
    assert json.loads(out)["source"]["assumed"] == {}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_terminals_that_know_fewer_signs(ckpt, encoding):
    done = in_a_shell(
        f"ask '3 + 5 =' --ckpt {ckpt}",
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert ("█" if encoding == "utf-8" else "#") in done.stdout


@pytest.mark.parametrize("command", ["theory --op add --mod 101 --digits 2 --to 3", "--help"])
def test_other_commands_do_not_fail_there_either(command):
    done = in_a_shell(command, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize("option", ["--json", ""])
def test_a_closed_output_ends_quietly(ckpt, option):
    ask = f"ask '3 + 5 =' --ckpt {ckpt} {option}"
    for done in (in_a_shell(f"{ask} | true"), in_a_shell(f"{ask} >&-")):
        assert done.stderr == ""
        assert done.returncode in (0, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
@pytest.mark.parametrize("option", ["--json", ""])
def test_a_full_output_is_one_line(ckpt, option):
    done = in_a_shell(f"ask '3 + 5 =' --ckpt {ckpt} {option} > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "error: cannot write the output: No space left on device\n"


def test_modular_models_take_their_own_sign(run, tmp_path):
    config = ModelConfig(
        d_vocab=6, d_vocab_out=5, n_ctx=3, n_layers=1, d_model=8, d_head=4, d_mlp=(8,)
    )
    task = ModularTask(p=5, op="sub")
    save(tmp_path / "m.safetensors", Checkpoint(config, initial_weights(config, 0), task))
    code, out, _ = run("ask", "1-3=", "--ckpt", tmp_path / "m.safetensors", "--json")
    assert code == 0
    assert json.loads(out)["right"] == 3
    code, _, err = run("ask", "1 + 3 =", "--ckpt", tmp_path / "m.safetensors")
    assert code == 2
    assert "such as '3 - 4 =' or '3 4 ='" in err
