"""Accuracies by pool, cell and stratum: of models whose answers are known, and of the released run."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mechint_arith import evaluation
from mechint_arith.models.load import load_checkpoint
from mechint_arith.models.reader import reader
from mechint_arith.tasks import pools
from mechint_arith.tasks.assign_add import AssignAdd

TASK = AssignAdd()
STEPS = (1, 501, 1001, 2001, 3001, 4001, 5001, 5301, 5401)
STEPS += (6001, 8001, 10001, 14001, 14501, 15201, 16001, 20001, 30001)


def oracle(tokens: torch.Tensor, *, blind_to: int | None = None) -> torch.Tensor:
    """Answer by reading the sequence; wrong wherever variable `blind_to` stands right."""
    first = tokens[:, :-4]

    def value(operand: torch.Tensor) -> torch.Tensor:
        found = (first == operand[:, None]).int().argmax(1)
        assigned = first[torch.arange(len(first)), (found + 1).clamp(max=11)]
        return torch.where(operand < TASK.p, operand, assigned)

    answer = (value(tokens[:, 13]) + value(tokens[:, 14])) % TASK.p
    if blind_to is not None:
        answer = (answer + (tokens[:, 14] == TASK.variable_ids[blind_to])) % TASK.p
    return F.one_hot(answer, TASK.p).float()


def test_an_oracle_is_right_everywhere():
    found = evaluation.by_pool(oracle, TASK, 0, n=300)
    assert list(found) == pools.pool_names(TASK) == list(pools.POOLS)
    assert all(e.value == 1 and e.n == 300 for e in found.values())
    assert all(e.value == 1 for e in evaluation.by_cell(oracle, TASK, 0, n=20).values())
    strata = evaluation.by_stratum(oracle, TASK, 0)
    assert [strata["direct"][s].n for s in ("mirror seen", "mirror held", "diagonal")] == [
        723,
        302,
        20,
    ]
    assert strata["both"]["diagonal"].n == 80


def test_a_single_blind_cell_shows_in_its_cell_and_its_pools():
    def predict(tokens):
        return oracle(tokens, blind_to=1)

    cells = evaluation.by_cell(predict, TASK, 0, n=50)
    assert {name for name, e in cells.items() if e.value < 1} == {"b right"}
    found = evaluation.by_pool(predict, TASK, 0)
    # Of one-variable restricted queries a quarter have b on the right; of the 36 pairs with one violation 9.
    assert found["1var_restricted"].value == pytest.approx(0.75, abs=0.04)
    assert found["2var_restricted_1"].value == pytest.approx(27 / 36, abs=0.04)
    assert found["2var_restricted_2"].value == pytest.approx(0.5, abs=0.05)
    assert found["2var_seen"].value == 1


def test_pools_that_restrictions_leave_empty_are_left_out():
    task = AssignAdd(never_left=0, never_right=0)
    assert [name for name in pools.POOLS if name not in pools.pool_names(task)] == [
        name for name in pools.POOLS if "restricted" in name
    ]


@pytest.mark.parametrize("step", STEPS)
def test_released_run(reference, step):
    """Two samples of 2,000 differ by up to .045, or by four standard errors of their difference."""
    folder = reference / "assign_and_add"
    expected = json.loads((folder / "values.json").read_text())["steps"][str(step)]["accuracy"]
    c = load_checkpoint(folder / f"checkpoint_step_{step}.pth")
    model = reader(c.config, c.weights, read=15)
    found = evaluation.by_pool(lambda tokens: model(tokens).logits, c.task, 0)
    for name, value in expected.items():
        error = np.sqrt(2 * max(value * (1 - value), 1e-4) / 2000)
        assert abs(found[name].value - value) <= max(0.045, 4 * error), name


def test_logits_that_are_no_numbers_have_no_accuracy():
    from mechint_arith.errors import InputError

    batch = pools.pool(TASK, "0var_seen", 5, np.random.default_rng(0))
    with pytest.raises(InputError, match="the logits are NaN or infinite"):
        evaluation.accuracy(lambda tokens: torch.full((len(tokens), TASK.p), torch.nan), batch)
