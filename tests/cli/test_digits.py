"""The digits commands end to end, on models that train in seconds."""

import json

import pytest
from typer.testing import CliRunner

from mechint_arith.cli import app
from mechint_arith.cli.train_digits import parse_mixture
from mechint_arith.errors import InputError

TINY = ["--base", "3", "--digits", "2", "--to", "3", "--d-model", "16", "--steps", "20"]


def run(*arguments, fails=None):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if fails:
        assert isinstance(result.exception, InputError), result.output
        assert fails in str(result.exception)
    elif result.exception:
        raise result.exception
    return result.output


def test_train_then_length_of_a_file_and_of_a_run(tmp_path):
    folder = tmp_path / "run"
    run("train", "digits", *TINY, "--positions", "absolute", "--every", "10", "--out", folder)
    text = run("length", "--ckpt", folder / "step_000020.safetensors", "--n", 50, "--json")
    assert json.loads(text)["verdicts"]["upward"] == "not converged"
    out = tmp_path / "out"
    shown = run("length", "--ckpt", folder, "--n", 50, "--out", out, "--to", 2)
    assert "in-domain hold-out" in shown
    assert "20" in shown.split("agreement")[-1]
    report = (out / "report.html").read_text()
    assert "In-domain hold-out" in report
    assert "Over training" in report
    values = json.loads((out / "results.json").read_text())
    assert [row["length"] for row in values["lengths"]] == [1, 2]
    assert [point["step"] for point in values["curve"]] == [0, 1, 10, 20]


def test_cells_twice_trains_once(tmp_path):
    table = tmp_path / "table.toml"
    table.write_text(
        """
[task]
digits = 2
longest = 3
base = 3
[model]
d_model = 16
n_heads = 2
[recipe]
steps = 5
batch = 8
[encoding.relative]
positions = "relative"
[[cell]]
name = "one"
encoding = "relative"
seeds = [1, 2]
"""
    )
    out = tmp_path / "runs"
    run("cells", table, "--out", out, "--n", 20, "--minutes", 0)
    assert not (out / "one").exists()
    shown = run("cells", table, "--out", out, "--n", 20)
    assert "one" in shown
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*.safetensors")}
    assert times
    values = json.loads((out / "cells.json").read_text())
    assert values["cells"][0]["missing"] == []
    run("cells", table, "--out", out, "--n", 20, "--only", "one")
    assert times == {p: p.stat().st_mtime_ns for p in out.rglob("*.safetensors")}
    run("cells", table, "--out", out, "--only", "two", fails="no cell or group two")


def test_theory_as_table_and_json():
    shown = run("theory", "--op", "add", "--mod", 101, "--digits", 4, "--to", 7)
    assert "1.012%" in shown
    assert "101 does not divide 10^4" in shown
    values = json.loads(run("theory", "--mod", 101, "--digits", 4, "--to", 6, "--json"))
    assert values["lengths"][-1]["accuracy"]["value"] == pytest.approx(0.01012, abs=5e-6)
    assert not values["upward"]
    assert "not 1" in run("theory", "--mod", 101, "--encoding", "relative", "--to", 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["theory", "--op", "pow"], "op must be one of add, mul"),
        (["theory", "--encoding", "learned"], "an encoding is one of"),
        (["length", "--ckpt", "nowhere.safetensors"], "no such file: nowhere.safetensors"),
        (["train", "digits", "--out", "x", "--to", "2"], "1 <= digits <= longest"),
        (["train", "digits", "--out", "x", "--train-on", "both"], "--train-on is kind:digits"),
        (["train", "digits", "--out", "x", "--positions", "rotary", "--no-content"], "content"),
        (["train", "digits", "--out", "x", "--embed-noise", "-1"], "embed_noise"),
        (["cells", "nowhere.toml", "--out", "x"], "cannot read nowhere.toml"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    run(*arguments, fails=message)


def test_mixtures():
    assert parse_mixture("") == ()
    assert parse_mixture("both:3") == (("both", 3, 1.0),)
    assert parse_mixture("both:3:0.8,uniform:2:.2") == (("both", 3, 0.8), ("uniform", 2, 0.2))
    with pytest.raises(InputError, match="cannot read 'both:x'"):
        parse_mixture("both:x")
