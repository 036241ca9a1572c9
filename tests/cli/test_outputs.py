"""Where results go is looked at before any work, and what is written is whole or not there."""

from importlib import import_module
from pathlib import Path

import pytest

from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.report import page as report
from mechint_arith.tasks.assign_add import AssignAdd

ROOT = Path(__file__).parents[2]
TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
CONFIG = ModelConfig(len(TASK.vocab), 7, 10, d_model=12, d_head=6, d_mlp=(0, 20))
DIGITS = ROOT / "checkpoints" / "digits" / "add_relative.safetensors"


WORK = (
    ("probing", "probe"),
    ("route_frequencies", "measure"),
    ("decoding", "decode"),
    ("dynamics", "measure_series"),
    ("length", "measure"),
    ("circuits.routes", "circuits_of"),
    ("models.checkpoint", "save"),
    ("calibration.running", "run_trials"),
    ("cells", "summarise"),
    ("sweeps", "run"),
)
"""Module and function of what takes long, command by command."""


@pytest.fixture
def ckpt(tmp_path):
    path = tmp_path / "run" / "step_000004.safetensors"
    save(path, Checkpoint(CONFIG, initial_weights(CONFIG, 0), TASK, 4, 0))
    return path


def commands(ckpt: Path, place: Path) -> list[tuple[object, ...]]:
    """Every command that writes, told to write to `place`."""
    sweep, cells = ROOT / "analyses/studies/two_var_frequency.toml", "analyses/length_cells.toml"
    base = ROOT / "checkpoints" / "bases"
    return [
        ("probe", "--ckpt", ckpt, "--out", place),
        ("probe", "--ckpt", ckpt, "--table", place / "x.csv"),
        ("fourier", "--ckpt", ckpt, "--out", place),
        ("decode", "--ckpt", ckpt, "--out", place),
        ("series", "--run", ckpt.parent, "--out", place),
        ("length", "--ckpt", DIGITS, "--out", place),
        ("diagram", "--ckpt", ckpt, "--out", place / "x.pdf"),
        ("diagram", "--ckpt", ckpt, "--out", ckpt.parent / "x.pdf", "--json", place / "x.json"),
        ("convert", "--ckpt", ckpt, "--out", place / "x.pth"),
        ("calibrate", "--base", base, "--out", place),
        ("cells", ROOT / cells, "--out", place),
        ("cells", ROOT / cells, "--out", ckpt.parent, "--summary", place / "x.json"),
        ("sweep", sweep, "--out", place),
        ("sweep", sweep, "--out", ckpt.parent, "--results", place / "x.json"),
    ]


@pytest.mark.parametrize("place", ["/proc/nowhere", "file"])
def test_what_cannot_be_written_is_refused_before_the_work(ckpt, run, tmp_path, monkeypatch, place):
    def work(*_, **__):
        raise AssertionError("worked before looking where to write")

    # All are imported before one is replaced: a first import in between would keep the replacement.
    for module, name in [(import_module(f"mechint_arith.{m}"), name) for m, name in WORK]:
        monkeypatch.setattr(module, name, work)
    (tmp_path / "file").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    for args in commands(ckpt, tmp_path / place):
        code, _, err = run(*args)
        assert code == 2, args
        assert place in err, args
        assert err.startswith("error: ")
        assert err.count("\n") == 1, err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_bad_checkpoint_leaves_no_folder(run, tmp_path):
    (tmp_path / "bad.pt").write_bytes(b"")
    for command in ("probe", "fourier", "decode", "length"):
        code, _, err = run(command, "--ckpt", tmp_path / "bad.pt", "--out", tmp_path / "out")
        assert code == 2
        assert "bad.pt" in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.pt"]


def test_a_report_that_cannot_be_made_leaves_no_results(ckpt, run, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise InputError("no picture")

    monkeypatch.setattr(report, "_shown", fail)
    out = tmp_path / "out"
    for args in (
        ("probe", "--ckpt", ckpt, "--quick", "--out", out),
        ("length", "--ckpt", DIGITS, "--n", 5, "--out", out),
        ("fourier", "--ckpt", ckpt, "--quick", "--out", out),
    ):
        code, _, err = run(*args)
        assert (code, "no picture" in err) == (2, True)
        assert not out.exists()


def test_a_full_disk_leaves_nothing_half(ckpt, run, tmp_path, monkeypatch):
    write = Path.write_text

    def full(path, text, **options):
        if "report.html" in path.name:
            raise OSError(28, "No space left on device")
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    code, _, err = run("probe", "--ckpt", ckpt, "--quick", "--out", tmp_path / "out")
    assert code == 2
    assert "report.html: No space left on device" in err
    assert not (tmp_path / "out").exists()
