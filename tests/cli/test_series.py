"""The `series` command writes a table, figures and a series that can be read again."""

import json

import pytest
from typer.testing import CliRunner

from mechint_arith.cli import app
from mechint_arith.dynamics import read_series
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint, save, step_path
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd

TASK = AssignAdd(p=5, n_vars=4, length=8, never_left=1, never_right=1)


@pytest.fixture
def folder(tmp_path):
    config = ModelConfig(len(TASK.vocab), 5, 8, d_model=12, d_head=6, d_mlp=(0, 20))
    for step in range(0, 80, 10):
        weights = initial_weights(config, step)
        save(step_path(tmp_path / "run", step), Checkpoint(config, weights, TASK, step, 0))
    return tmp_path / "run"


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)


def test_the_printed_series_fits_80_columns(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    options = ["--measure", "accuracy", "--measure", "qk1_identity", "--measure", "cells"]
    result = call("series", "--run", folder, "--out", tmp_path / "out", "--n", 40, *options)
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert sum(line.lstrip().startswith("70 ") for line in lines) == 1
    events = next(i for i, line in enumerate(lines) if line.startswith("addition"))
    assert events < next(i for i, line in enumerate(lines) if line.startswith("cells reached"))
    assert "cell a left:" not in result.output


def test_series_writes_what_it_says(folder, tmp_path):
    out = tmp_path / "out"
    options = ["--measure", "accuracy", "--measure", "qk1_identity", "--measure", "cells"]
    result = call("series", "--run", folder, "--out", out, "--n", 40, *options)
    assert result.exit_code == 0, result.output
    assert {p.name for p in out.iterdir()} == {
        "series.json",
        "table.csv",
        "accuracy.html",
        "progress.html",
        "events.html",
        "report.html",
        "cache",
    }
    page = (out / "report.html").read_text(encoding="utf-8")
    assert [title for title in ("Curves", "Phases", "Events") if f">{title}</h2>" in page] == [
        "Curves",
        "Phases",
        "Events",
    ]
    assert "On this run phase 1 begins at step" in page
    assert read_series(out / "series.json").steps == tuple(range(0, 80, 10))
    found = json.loads((out / "series.json").read_text(encoding="utf-8"))
    assert len(found["change_points"]) == 3
    assert found["events"]["addition"]["step"] is None
    assert "phase 1 begins" in result.output
    assert (out / "table.csv").read_text(encoding="utf-8").startswith("step,0var_seen")


def test_series_takes_every_nth_step_up_to_one(folder, tmp_path):
    options = ["--measure", "qk1_identity", "--every", 20, "--until", 50]
    result = call("series", "--run", folder, "--out", tmp_path / "out", *options)
    assert result.exit_code == 0, result.output
    assert read_series(tmp_path / "out" / "series.json").steps == (0, 20, 40)


def test_faults_are_one_line(folder, tmp_path):
    result = call("series", "--run", tmp_path / "absent", "--out", tmp_path / "out")
    assert isinstance(result.exception, InputError)
    result = call("series", "--run", folder, "--out", tmp_path / "out", "--measure", "speed")
    assert isinstance(result.exception, InputError)
    assert "no measure 'speed'" in str(result.exception)
    result = call("series", "--run", folder, "--out", tmp_path / "out", "--until", -1)
    assert isinstance(result.exception, InputError)
    assert "no checkpoints" in str(result.exception)
