"""`convert`: what a state dict cannot hold is said on the way out, what was assumed on the way back."""

import pytest

from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.digits import DigitsTask
from mechint_arith.tasks.modular import ModularTask

ASSIGN_ADD = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1, split_seed=3)
MODULAR = ModularTask(p=7, op="mul", train_share=0.5, split_seed=9)


def stored(path, task, **options):
    config = ModelConfig(
        d_vocab=len(task.vocab),
        d_vocab_out=task.d_vocab_out,
        n_ctx=task.length,
        d_model=12,
        d_head=6,
        d_mlp=(0, 20),
        **options,
    )
    save(path, Checkpoint(config, initial_weights(config, 0), task, 4, 2))
    return path


@pytest.fixture
def convert(run):
    """Convert a file; returns (exit code, lines of stdout, stderr)."""

    def call(ckpt, out, *options) -> tuple[int, list[str], str]:
        code, text, err = run("convert", "--ckpt", ckpt, "--out", out, *options)
        return code, text.splitlines(), err

    return call


@pytest.mark.parametrize("task", [ASSIGN_ADD, MODULAR], ids=["assign-add", "modular"])
def test_the_options_it_names_bring_the_task_back(convert, tmp_path, task):
    first = stored(tmp_path / "a.safetensors", task)
    code, (left, written), _ = convert(first, tmp_path / "b.pth")
    assert code == 0
    assert left.startswith(f"not in {tmp_path / 'b.pth'}: step 4, seed 2, recipe and task; to read")
    assert written == f"written: {tmp_path / 'b.pth'}"
    options = left.partition(" say ")[2].split()
    code, (read, _), _ = convert(tmp_path / "b.pth", tmp_path / "c.safetensors", *options)
    assert code == 0
    assert read.endswith("it does not say step or seed")
    assert "assumed" not in read
    one, two = load_checkpoint(first), load_checkpoint(tmp_path / "c.safetensors")
    assert (one.config, one.task) == (two.config, two.task)


def test_what_is_assumed_on_the_way_back_is_said(convert, tmp_path):
    for task, assumed in ((ASSIGN_ADD, "assumed split_seed 42, train_share"), (MODULAR, "op add")):
        stored(tmp_path / "a.safetensors", task)
        convert(tmp_path / "a.safetensors", tmp_path / "b.pth")
        target = tmp_path / "c.safetensors"
        _, (read, _), _ = convert(tmp_path / "b.pth", target)
        assert assumed in read
        assert read.endswith("does not say step or seed, nor which pairs training saw")
        _, (again, left, _), _ = convert(target, tmp_path / "d.pth")
        assert again == read
        assert "seed" not in left


def test_nothing_is_said_where_nothing_is_lost(convert, tmp_path):
    first = stored(tmp_path / "a.safetensors", ASSIGN_ADD)
    code, lines, _ = convert(first, tmp_path / "b.safetensors")
    assert code == 0
    assert lines == [f"written: {tmp_path / 'b.safetensors'}"]


def test_digit_models_do_not_come_back(convert, tmp_path):
    first = stored(tmp_path / "a.safetensors", DigitsTask(longest=3))
    code, lines, _ = convert(first, tmp_path / "b.pth")
    assert code == 0
    assert lines[0].endswith("state dicts of digits models cannot be read back")


def test_what_a_state_dict_cannot_express_names_the_file_and_writes_nothing(convert, tmp_path):
    first = stored(tmp_path / "a.safetensors", ASSIGN_ADD, positions="rotary")
    code, _, err = convert(first, tmp_path / "b.pth")
    assert code == 2
    assert err.startswith(f"error: {first}: TransformerLens cannot express this model")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
