"""Options for outside files: true of a file of ours they change nothing, false of it they are refused."""

import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.bridge import state_dict
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import Hints, load_checkpoint
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.modular import ModularTask

ADD = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
MODULAR = ModularTask(p=7)


def stored(folder, task, *, outside=False):
    one = task is MODULAR
    config = ModelConfig(
        len(task.vocab),
        7,
        task.length,
        n_layers=1 if one else 2,
        d_model=12,
        d_head=6,
        d_mlp=(20,) if one else (0, 20),
    )
    weights = initial_weights(config, 0)
    path = folder / ("outside.pth" if outside else "own.safetensors")
    if outside:
        torch.save(state_dict(config, weights), path)
    else:
        save(path, Checkpoint(config, weights, task, 4, 0))
    return path


@pytest.mark.parametrize(
    ("task", "told", "said"),
    [
        (ADD, {"task": "modular"}, "--task modular was given, but the file says assign-add"),
        (ADD, {"p": 5}, "--p 5 was given, but the file says 7"),
        (ADD, {"split_seed": 1}, "--split-seed 1 was given, but the file says 42"),
        (ADD, {"train_share": 0.5}, "--train-share 0.5 was given, but the file says 0.7"),
        (ADD, {"never_left": 2}, "--never-left 2 was given, but the file says 1"),
        (ADD, {"attn_coeff": 0.5}, "--attn-coeff 0.5 was given, but the file says 1"),
        (ADD, {"layout": "transposed"}, "says itself what it is: leave --layout transposed out"),
        (ADD, {"op": "add"}, "--op add means nothing for a model of assign-add"),
        (MODULAR, {"op": "mul"}, "--op mul was given, but the file says add"),
        (MODULAR, {"equals": False}, "--no-equals was given, but the file says True"),
        (MODULAR, {"never_right": 1}, "--never-right 1 means nothing for a model of modular"),
    ],
)
def test_what_is_false_of_our_own_file_is_refused_by_name(tmp_path, task, told, said):
    path = stored(tmp_path, task)
    with pytest.raises(InputError) as refused:
        load_checkpoint(path, Hints(**told))
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_true_of_our_own_file_changes_nothing(tmp_path):
    told = Hints(task="assign-add", p=7, split_seed=42, never_left=1, never_right=1)
    path = stored(tmp_path, ADD)
    assert load_checkpoint(path, told).task == load_checkpoint(path).task == ADD


def test_outside_files_are_read_as_told_and_refuse_what_means_nothing(tmp_path):
    path = stored(tmp_path, ADD, outside=True)
    assert load_checkpoint(path, Hints(never_left=1, never_right=1)).task == ADD
    with pytest.raises(InputError, match="--op add means nothing for a model of assign-add"):
        load_checkpoint(path, Hints(op="add"))
