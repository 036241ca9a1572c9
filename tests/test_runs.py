"""What a run folder does with states and metrics that are damaged, missing, cut off or another run's."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from mechint_arith.cli.run import run
from mechint_arith.errors import InputError
from mechint_arith.locks import locked
from mechint_arith.models.checkpoint import read, step_path
from mechint_arith.models.config import ModelConfig
from mechint_arith.runs import METRICS, STATE, RunFolder, read_metrics
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.pools import Mixture
from mechint_arith.training import Recipe, folded_forward

TASK = AssignAdd(p=5, n_vars=3, length=8, never_left=1, never_right=1)
CONFIG = ModelConfig(
    d_vocab=len(TASK.vocab), d_vocab_out=5, n_ctx=8, d_model=8, d_head=4, d_mlp=(0, 12)
)


def folder_of(path, *, seed=1, config=CONFIG, **recipe):
    return RunFolder(path, config, TASK, Recipe(**{"steps": 12, "batch": 8, **recipe}), seed)


def trained(folder, *, resume=True, stop=None):
    """Train with a checkpoint every 5 steps; `stop`: interrupted after so many steps' measurements."""

    def measure(state):
        if state.step == stop:
            raise KeyboardInterrupt
        return {"x": 0.0}

    sample, forward = Mixture(TASK).sample, folded_forward(folder.config, 7)
    return run(folder, sample, forward, measure, every=5, resume=resume, measure_every=2)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped at step 8, its state being of step 5."""
    path = tmp_path_factory.mktemp("runs") / "stopped"
    with pytest.raises(KeyboardInterrupt):
        trained(folder_of(path), stop=8)
    return path


@pytest.fixture
def copy(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


def contents(path):
    return {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path):
    path.write_bytes(b"")


def junk(path):
    path.write_bytes(b"\x00\xff junk" * 400)


def made_a_folder(path):
    path.unlink()
    path.mkdir()


def without_header(path):
    save_file(load_file(path), path)


def with_strange_header(path):
    save_file(load_file(path), path, metadata={"run": "[]"})


def with_a_strange_step(path):
    save_file(load_file(path), path, metadata={"run": '{"step": "five"}'})


def without_a_weight(path):
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    tensors = load_file(path)
    del tensors["weight/embed.W_E"]
    save_file(tensors, path, metadata=header)


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        emptied,
        junk,
        made_a_folder,
        without_header,
        with_strange_header,
        with_a_strange_step,
        without_a_weight,
    ],
)
def test_a_damaged_state_is_named_and_nothing_is_changed(copy, damage):
    damage(copy / STATE)
    before = contents(copy)
    with pytest.raises(InputError, match=f"cannot go on from {copy / STATE}"):
        trained(folder_of(copy))
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"seed": 2}, "seed"),
        ({"lr": 0.1}, "recipe"),
        ({"cosine": True}, "recipe"),
        ({"config": replace(CONFIG, d_model=16)}, "model"),
    ],
)
def test_another_runs_state_is_refused_and_nothing_is_changed(copy, other, what):
    before = contents(copy)
    with pytest.raises(InputError, match=f"holds a run with another {what}"):
        trained(folder_of(copy, **other))
    assert contents(copy) == before


def test_a_cosine_run_goes_on_to_its_own_last_step_only(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trained(folder_of(tmp_path, cosine=True), stop=8)
    with pytest.raises(InputError, match="another recipe"):
        trained(folder_of(tmp_path, cosine=True, steps=13))
    assert trained(folder_of(tmp_path, cosine=True)).step == 12


def test_a_step_behind_the_run_is_refused(copy):
    with pytest.raises(InputError, match="at step 5 already: --steps 4 lies behind"):
        trained(folder_of(copy, steps=4))
    assert trained(folder_of(copy, steps=5)).step == 5


def test_without_resume_a_used_folder_is_left_alone(copy):
    before = contents(copy)
    with pytest.raises(InputError, match="already holds a run: add --resume"):
        trained(folder_of(copy), resume=False)
    (copy / STATE).unlink()
    del before[STATE]
    with pytest.raises(InputError, match=f"no {STATE} to go on from"):
        trained(folder_of(copy), resume=False)
    assert contents(copy) == before


@pytest.mark.parametrize("gone", [[STATE], [STATE, METRICS], [STATE, "step_*"]])
def test_a_run_without_its_state_is_not_begun_anew(copy, gone):
    for pattern in gone:
        for path in copy.glob(pattern):
            path.unlink()
    before = contents(copy)
    with pytest.raises(InputError, match=f"no {STATE} to go on from"):
        trained(folder_of(copy))
    assert contents(copy) == before


def test_a_run_stopped_before_its_first_state_begins_with_its_metrics_written_once(tmp_path):
    folder = folder_of(tmp_path)
    folder.log({"step": 0, "x": 0.0})
    trained(folder)
    assert [row["step"] for row in read_metrics(tmp_path)] == [0, 1, 2, 4, 5, 6, 8, 10, 12]


def test_a_checkpoint_that_a_kill_kept_from_being_written_is_made_up_for(copy):
    path = step_path(copy, 5)
    whole = path.read_bytes()
    path.unlink()
    trained(folder_of(copy))
    assert path.read_bytes() == whole


@pytest.mark.parametrize("tail", ["", '{"step": 8, "lo', "\x00\x00\x00", '{"step": 8', "\n"])
def test_a_last_line_that_was_cut_off_is_dropped(copy, stopped, tmp_path, tail):
    whole = trained(folder_of(tmp_path / "whole"))
    rows = read_metrics(stopped)
    with open(copy / METRICS, "a", encoding="utf-8") as file:
        file.write(tail)
    assert read_metrics(copy) == rows
    resumed = trained(folder_of(copy))
    assert all(torch.equal(w, resumed.weights[name]) for name, w in whole.weights.items())
    steps = [row["step"] for row in read_metrics(copy)]
    assert steps == [row["step"] for row in read_metrics(tmp_path / "whole")]
    one, two = (read(step_path(path, 12)).weights for path in (copy, tmp_path / "whole"))
    assert all(torch.equal(w, two[name]) for name, w in one.items())


@pytest.mark.parametrize("line", ["junk", "[1]", '{"loss": 1}', '{"step": "1"}', "3", ""])
def test_junk_before_the_last_line_is_named_and_nothing_is_changed(copy, line):
    lines = (copy / METRICS).read_text().splitlines()
    (copy / METRICS).write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    before = contents(copy)
    with pytest.raises(InputError, match=r"metrics.jsonl, line 2, is no measurement"):
        trained(folder_of(copy))
    assert contents(copy) == before


def test_metrics_that_are_a_folder(copy):
    made_a_folder(copy / METRICS)
    with pytest.raises(InputError, match=r"cannot read .*metrics.jsonl: Is a directory"):
        trained(folder_of(copy))


def test_a_folder_another_process_trains_in_is_refused_at_once(copy):
    with locked(copy):
        before = contents(copy)
        with pytest.raises(InputError, match=f"{copy} is in use by another process"):
            trained(folder_of(copy))
        assert contents(copy) == before


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_that_cannot_be(tmp_path, seed):
    with pytest.raises(InputError, match="--seed must lie"):
        folder_of(tmp_path, seed=seed)


def test_metrics_are_plain_json(stopped):
    rows = [json.loads(line) for line in (stopped / METRICS).read_text().splitlines()]
    assert rows == read_metrics(stopped)
    assert read_metrics(stopped / "nowhere") == []
