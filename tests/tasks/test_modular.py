import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.tasks import splits
from mechint_arith.tasks.modular import OPERATIONS, ModularTask

PYTHON = {
    "add": lambda a, b, p: (a + b) % p,
    "sub": lambda a, b, p: (a - b) % p,
    "mul": lambda a, b, p: (a * b) % p,
    "div": lambda a, b, p: next(c for c in range(p) if (c * b - a) % p == 0),
}


@pytest.mark.parametrize("p", [3, 4, 7, 12])
@pytest.mark.parametrize("op", OPERATIONS)
def test_answers_equal_brute_force(p: int, op: str) -> None:
    task = ModularTask(p, op, train_share=0.5)
    batch = task.batch()
    rows = np.stack([batch.factors["a"], batch.factors["b"], batch.labels], 1).tolist()
    coprime = sum(np.gcd(b, p) == 1 for b in range(p))
    assert len(rows) == (p * coprime if op == "div" else p * p)
    for a, b, label in rows:
        assert label == task.answer(a, b) == PYTHON[op](a, b, p)


def test_the_default_is_the_grokking_set_up() -> None:
    task = ModularTask()
    batch = task.batch()
    assert batch.tokens.shape == (113 * 113, 3)
    assert batch.tokens.dtype == np.int64
    assert len(task.vocab) == 114
    assert task.d_vocab_out == 113
    assert batch.read == 2
    assert batch.tokens[113 * 5 + 110].tolist() == [5, 110, 113]
    assert batch.labels[113 * 5 + 110] == 2
    assert {name: set(at) for name, at in batch.positions.items()} == {
        "lhs": {0},
        "rhs": {1},
        "equals": {2},
    }
    assert len(task.train()) == int(0.3 * 113 * 113) == 3830


@pytest.mark.parametrize(
    ("equals", "diff_vocab", "tokens", "symbols"),
    [
        (True, False, [2, 4, 5], "2 4 ="),
        (False, False, [2, 4], "2 4"),
        (True, True, [2, 9, 10], "2 4' ="),
        (False, True, [2, 9], "2 4'"),
    ],
)
def test_layouts(equals: bool, diff_vocab: bool, tokens: list[int], symbols: str) -> None:
    task = ModularTask(5, "sub", equals=equals, diff_vocab=diff_vocab)
    row = task.batch()[np.array([2 * 5 + 4])]
    assert row.tokens.tolist() == [tokens]
    assert " ".join(task.vocab.decode(row.tokens[0].tolist())) == symbols
    assert row.read == len(tokens) - 1
    assert row.labels.tolist() == [3]
    assert ("equals" in row.positions) == equals
    assert len(task.vocab) == 5 + 5 * diff_vocab + equals
    assert task.vocab.n_numbers == 5


def test_the_split_covers_every_pair_once_and_is_seeded() -> None:
    task = ModularTask(11, split_seed=3)
    train, held = task.train().factors, task.held().factors
    assert sorted([*train["pair"], *held["pair"]]) == list(range(121))
    assert not train["held"].any()
    assert held["held"].all()
    assert (task.seen == ModularTask(11, "mul", split_seed=3).seen).all()
    assert (task.seen != ModularTask(11, split_seed=4).seen).any()
    assert (task.seen == splits.seen_pairs(11, 0.3, 3)).all()


def test_division_is_split_over_the_pairs_that_exist() -> None:
    task = ModularTask(12, "div", train_share=0.5)
    assert set(task.batch().factors["b"]) == {1, 5, 7, 11}
    assert len(task.train()) == len(task.held()) == 24
    assert (task.answers[:, [0, 2, 3, 4, 6, 8, 9, 10]] == -1).all()
    with pytest.raises(InputError, match="9 and 12 have the common divisor 3"):
        task.answer(5, 9)
    with pytest.raises(InputError, match="5 / 0 modulo 12 does not exist"):
        task.answer(5, 0)
    with pytest.raises(InputError, match="b coprime to 12"):
        task.batch(np.array([5 * 12 + 9]))


def test_random_answers_are_seeded_and_follow_no_rule() -> None:
    task = ModularTask(31, labels="random")
    labels = task.batch().labels
    assert (labels == ModularTask(31, labels="random").batch().labels).all()
    assert (labels != ModularTask(31, labels="random", label_seed=1).batch().labels).any()
    assert (labels == ModularTask(31).batch().labels).mean() < 0.08
    assert np.bincount(labels, minlength=31).min() > 0
    assert (task.seen == ModularTask(31).seen).all()


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(InputError) as fault:
        ModularTask(1, "pow", train_share=1.5, labels="none")
    text = str(fault.value)
    for part in (
        "p must be at least 2, not 1",
        "add, sub, mul, div, not 'pow'",
        "not 1.5",
        "'none'",
    ):
        assert part in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("p", "op", "share", "text"),
    [
        (2, "add", 0.1, "0.1 of 4 pairs leaves a side empty"),
        (2, "div", 0.3, r"0.3 of 2 pairs .* only the 1 divisors coprime to 2"),
        (6, "div", 0.05, r"0.05 of 12 pairs .* only the 2 divisors coprime to 6"),
    ],
)
def test_a_setting_that_leaves_nothing_is_refused(p: int, op: str, share: float, text: str) -> None:
    with pytest.raises(InputError, match=text):
        ModularTask(p, op, train_share=share)


def test_numbers_outside_are_refused() -> None:
    task = ModularTask(5)
    with pytest.raises(InputError, match="0 to 4; got 5 and 0"):
        task.answer(5, 0)
    with pytest.raises(InputError, match=r"ids a \* p \+ b go from 0 to 24; got 25"):
        task.batch(np.array([25]))
    with pytest.raises(InputError, match="whole numbers; got float64"):
        task.batch(np.array([1.5]))
    with pytest.raises(InputError, match="b coprime to 5"):
        ModularTask(5, "div").batch([5])
    assert len(task.batch(np.array([], int))) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 10**6}, r"the table of 1000000\^2 pairs needs about 160,000 GB"),
        ({"p": 10**200}, r"pairs needs about 1\.6e\+393 GB"),
        ({"label_seed": -1}, "label_seed cannot be negative"),
    ],
)
def test_tables_and_seeds_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        ModularTask(**options)
