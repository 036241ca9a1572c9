"""The command line as a whole: usage, help, exit codes, and what Ctrl-C leaves behind."""

import signal
import subprocess
import sys

import pytest
import torch

from mechint_arith.cli import app
from mechint_arith.models.checkpoint import read, step_path

TINY = ["--base", "3", "--digits", "2", "--to", "3", "--d-model", "16", "--batch", "8"]


@pytest.mark.parametrize(
    ("args", "complaint", "where"),
    [
        (["probe", "--bad"], "no such option: --bad", "probe"),
        (["probe", "--seed", "x"], "invalid value for '--seed'", "probe"),
        (["bananas"], "no such command 'bananas'", ""),
        (["train", "bananas"], "no such command 'bananas'", "train"),
        (["train", "assign-add"], "missing option '--out'", "train assign-add"),
        (["train", "digits", "--out"], "option '--out' requires an argument", "train digits"),
        (["cells", "a.toml"], "missing option '--out'", "cells"),
        (["cells", "--out", "x"], "missing argument", "cells"),
        (["cells", "a", "b", "--out", "x"], "unexpected extra argument", "cells"),
        (["--bad"], "no such option: --bad", ""),
    ],
)
def test_wrong_usage_is_one_line_that_says_where_to_look(run, args, complaint, where):
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err.lower()
    assert err.endswith(f"(see {' '.join(f'mechint-arith {where}'.split())} --help)\n")


def test_an_empty_argument_is_not_the_current_folder(run):
    code, out, err = run("train", "assign-add", "--out", "")
    assert (code, out) == (2, "")
    assert err.startswith("error: an argument is empty")
    assert err.count("\n") == 1


@pytest.mark.parametrize("args", [[], ["train"]])
def test_without_a_command_the_help_is_shown(run, args):
    code, out, err = run(*args)
    assert code == 2
    assert "Usage: mechint-arith" in out
    assert err == ""


@pytest.mark.parametrize("args", [["--help"], ["train", "--help"], ["train", "modular", "--help"]])
def test_help(run, args):
    code, out, _ = run(*args)
    assert code == 0
    assert "Usage: mechint-arith" in out


def raising(monkeypatch, error):
    def theory():
        raise error

    (info,) = (c for c in app.registered_commands if c.name == "theory")
    monkeypatch.setattr(info, "callback", theory)


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_commands_own_exit_code_is_kept(run, monkeypatch, code):
    import typer

    raising(monkeypatch, typer.Exit(code))
    assert run("theory") == (code, "", "")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes")]
)
def test_memory_that_ran_out_is_one_line(run, monkeypatch, error):
    raising(monkeypatch, error)
    code, _, err = run("theory")
    assert code == 2
    assert err.startswith("error: the memory is not enough")
    assert err.count("\n") == 1


def test_other_faults_of_the_program_are_not_hidden(monkeypatch):
    from mechint_arith.cli import main

    raising(monkeypatch, RuntimeError("a bug"))
    monkeypatch.setattr(sys, "argv", ["mechint-arith", "theory"])
    with pytest.raises(RuntimeError, match="a bug"):
        main()


def test_ctrl_c_elsewhere_says_stopped_only(run, monkeypatch):
    raising(monkeypatch, KeyboardInterrupt())
    assert run("theory") == (130, "", "stopped\n")


def test_ctrl_c_in_training_leaves_a_run_that_goes_on_to_the_same_bits(tmp_path):
    def process(name, *more):
        args = ["train", "digits", *TINY, "--steps", "400", "--every", "20"]
        return subprocess.Popen(
            [sys.executable, "-m", "mechint_arith", *args, "--out", str(tmp_path / name), *more],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    with process("whole") as whole, process("parts") as stopped:
        for line in stopped.stderr:
            if line.startswith("step 60/"):
                break
        stopped.send_signal(signal.SIGINT)
        end = stopped.stderr.read()
        assert stopped.wait(timeout=60) == 130
        assert end.splitlines()[-1] == "stopped; go on with the same command and --resume"
        assert "Traceback" not in end
        assert not step_path(tmp_path / "parts", 400).exists()
        assert not list((tmp_path / "parts").glob(".*.tmp"))
        with process("parts", "--resume") as again:
            assert "Traceback" not in again.communicate(timeout=120)[1]
        assert again.returncode == 0
        whole.communicate(timeout=120)
    one, two = (read(step_path(tmp_path / name, 400)).weights for name in ("whole", "parts"))
    assert all(torch.equal(w, two[name]) for name, w in one.items())
