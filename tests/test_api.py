"""The functions a notebook starts from: what they refuse in one line."""

import subprocess
import sys

import pytest

import mechint_arith as ma


def test_unknown_options_of_load_are_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ma.InputError, match="no option 'tasks': choose from task, p, train_share"):
        ma.load(tmp_path / "tl.pth", tasks="x")


@pytest.mark.parametrize("n", [0, 10**9])
def test_amounts_of_prompts_are_bounded(n):
    with pytest.raises(ma.InputError, match=f"can be drawn at once, not {n}"):
        ma.contrasting(ma.AssignAdd(), "both", n)


def test_what_is_no_task_or_model_is_refused():
    """In a process of its own, where no type checker stands before the functions."""
    script = """
import mechint_arith as ma
for call in (
    lambda: ma.contrasting(ma.ModularTask(7), "both", 5),
    lambda: ma.probe("file.safetensors"),
    lambda: ma.ask(None, "7 12 ="),
):
    try:
        call()
    except ma.InputError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "contrasts of routes need an assign-and-add task",
        "expected a model as ma.load returns it, not 'file.safetensors'",
        "expected a model as ma.load returns it, not None",
    ]
