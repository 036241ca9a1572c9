"""Sequences written out by hand, exact answers, and what the samplers draw."""

import dataclasses
import json

import numpy as np
import pytest

from mechint_arith import theory
from mechint_arith.errors import InputError
from mechint_arith.tasks import digits, numerals, task_from_dict, task_to_dict
from mechint_arith.tasks.batch import concatenate
from mechint_arith.tasks.digits import DigitsTask, Part

SMALL = {"digits": 2, "longest": 2}
ONE = {"op": "mul", "single_b": True, **SMALL}
GOLDEN = [  # task, a, b, sequence with the answer after the bar
    (DigitsTask(**SMALL), 58, 67, "8 5 0 7 6 0 | 5 2 1"),
    (DigitsTask(**SMALL, order="msd"), 58, 67, "0 5 8 0 6 7 | 5 2 1"),
    (DigitsTask(**SMALL, separators=True), 58, 67, "8 5 0 + 7 6 0 = | 5 2 1"),
    (DigitsTask(**SMALL, arrangement="interleaved"), 58, 67, "8 7 5 6 0 0 | 5 2 1"),
    (
        DigitsTask(**SMALL, arrangement="interleaved", order="msd", separators=True),
        58,
        67,
        "0 0 5 6 8 7 = | 5 2 1",
    ),
    (DigitsTask(op="mul", **SMALL), 58, 67, "8 5 0 7 6 0 | 6 8 8 3"),
    (DigitsTask(op="mul", **SMALL, separators=True), 4, 20, "4 0 0 * 0 2 0 = | 0 8 0 0"),
    (DigitsTask(**SMALL, modulus=101), 58, 67, "8 5 0 7 6 0 | 4 2 0"),
    (DigitsTask(**SMALL, modulus=100), 58, 67, "8 5 0 7 6 0 | 5 2"),
    (DigitsTask(op="mul", **SMALL, modulus=7), 58, 67, "8 5 0 7 6 0 | 1"),
    (DigitsTask(**SMALL, base=3), 7, 5, "1 2 0 2 1 0 | 0 1 1"),
    (DigitsTask(**SMALL, base=12), 23, 13, "11 1 0 1 1 0 | 0 3 0"),
    (DigitsTask(**SMALL, operand_width=2, answer_width=4), 58, 67, "8 5 7 6 | 5 2 1 0"),
    (DigitsTask(**ONE), 58, 7, "8 5 0 7 | 6 0 4"),
    (DigitsTask(**ONE, arrangement="interleaved"), 58, 7, "8 7 5 7 0 7 | 6 0 4"),
    (DigitsTask(**ONE, arrangement="repeated"), 58, 7, "8 5 0 7 7 7 | 6 0 4"),
    (
        DigitsTask(**ONE, arrangement="repeated", order="msd", separators=True),
        58,
        7,
        "0 5 8 * 7 7 7 = | 6 0 4",
    ),
]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("task", "a", "b", "expected"), GOLDEN)
def test_golden_sequences(task, a, b, expected):
    batch = digits.build_numbers(task, np.array([a]), np.array([b]))
    question, answer = (part.split() for part in expected.split("|"))
    assert task.vocab.decode(batch.tokens[0].tolist()) == question + answer
    assert batch.labels[0].tolist() == [int(digit) for digit in answer]
    assert batch.read == len(question) - 1
    assert task.length == len(question) + len(answer)
    assert batch.factors["a"].tolist() == [a]
    assert batch.factors["b"].tolist() == [b]


@pytest.mark.parametrize(("task", "a", "b", "expected"), GOLDEN)
def test_positions_name_every_token_once(task, a, b, expected):
    batch = digits.build_numbers(task, np.array([a, 1]), np.array([b, 1]))
    assert sorted(int(places[0]) for places in batch.positions.values()) == [*range(task.length)]
    for name, places in batch.positions.items():
        kind, _, i = name.rpartition(" ")
        token = int(batch.tokens[0, places[0]])
        if kind in ("a digit", "b digit"):
            assert token == (a if kind[0] == "a" else b) // task.base ** int(i) % task.base
        elif kind == "b copy":
            assert token == b
        elif kind == "answer digit":
            assert token == batch.labels[0, int(i)]
            assert places[0] == batch.read + int(i) + 1
        else:
            assert task.vocab.symbols[token] in "+*="


def test_operands_are_read_back():
    for task, a, b, _ in GOLDEN:
        batch = digits.build_numbers(task, np.array([a]), np.array([b]))
        found = digits.operands(task, batch)
        assert [numerals.numbers_of(x, task.base)[0] for x in found] == [a, b]


@pytest.mark.parametrize("base", [2, 3, 10, 16])
@pytest.mark.parametrize("length", [1, 3, 30])
@pytest.mark.parametrize(("op", "p"), [("add", None), ("mul", None), ("add", 101), ("mul", 10**9)])
def test_answers_are_exact_far_beyond_int64(base, length, op, p):
    task = DigitsTask(op, 30, 30, p, base)
    batch = digits.test_batch(task, length, 40, rng())
    for a, b, label in zip(batch.factors["a"], batch.factors["b"], batch.labels, strict=True):
        c = int(a) + int(b) if op == "add" else int(a) * int(b)
        c = c if p is None else c % p
        assert sum(int(digit) * base**i for i, digit in enumerate(label)) == c


def test_numbers_and_digits_are_inverse():
    numbers = np.array([0, 7, 10**18], dtype=np.int64)
    assert numerals.numbers_of(numerals.digits_of(numbers, 10, 19), 10).tolist() == [0, 7, 10**18]
    assert numerals.numbers_of(numerals.digits_of(numbers, 7, 30), 7).dtype == object
    assert numerals.length_of(numerals.digits_of(numbers, 10, 19)).tolist() == [1, 1, 19]


def test_truncated_labels_drop_the_high_digits():
    task = DigitsTask(digits=2, longest=4)
    batch = digits.build_numbers(task, np.array([1258, 58]), np.array([3467, 67]))
    assert digits.truncated_labels(task, batch).tolist() == [[5, 2, 1, 0, 0]] * 2
    assert digits.truncated_labels(task, batch, digits=4).tolist() == batch.labels.tolist()


@pytest.mark.parametrize(
    "task",
    [
        DigitsTask("add", 2, 3, 40),
        DigitsTask("add", 1, 5, 6, base=4),
        DigitsTask("mul", 1, 5, 9, base=4),
        DigitsTask("mul", 2, 4, 12, base=4),
        DigitsTask("mul", 1, 3, 15, single_b=True),
        DigitsTask("mul", 2, 3, single_b=True),
    ],
)
def test_truncated_labels_are_right_as_often_as_theory_says(task):
    """Every pair of each length: sequences against the closed form."""
    op, p, base, n = task.op, task.modulus, task.base, task.digits
    for row in theory.forecast(op, p, base, n, range(1, task.longest + 1), single_b=task.single_b):
        batch = digits.test_batch(task, row.length, 10**6, rng())
        right = (digits.truncated_labels(task, batch) == batch.labels).all(axis=1)
        assert row.truncated == theory.Fraction(int(right.sum()), len(right))


def test_a_small_test_set_is_complete():
    task = DigitsTask("add", 2, 3, base=3)
    batch = digits.test_batch(task, 2, 36, rng())
    assert len(batch) == 36
    assert len(set(zip(batch.factors["a"], batch.factors["b"], strict=True))) == 36
    assert len(digits.test_batch(task, 2, 35, rng())) == 35


@pytest.mark.parametrize("length", [1, 2, 5])
def test_test_batches_have_exactly_that_length(length):
    task = DigitsTask("add", 2, 5)
    batch = digits.test_batch(task, length, 3000, rng())
    low, high = 10 ** (length - 1), 10**length
    for name in "ab":
        assert batch.factors[name].min() >= low
        assert batch.factors[name].max() < high
    assert (batch.factors["length"] == length).all()


def _drawn(parts, n=40_000, **options):
    task = DigitsTask(digits=2, longest=3, base=3, train_on=parts, held_share=0.0, **options)
    batch = digits.training_batch(task, n, rng())
    return batch.factors["a"], batch.factors["b"]


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        ("uniform", lambda a, b: (a < 9) & (b < 9)),
        ("longer", lambda a, b: np.maximum(a, b) >= 3),
        ("both", lambda a, b: np.minimum(a, b) >= 3),
    ],
)
def test_each_domain_is_drawn_uniformly(kind, allowed):
    a, b = _drawn((Part(kind, 2),))
    counts = np.bincount(a * 9 + b, minlength=81).reshape(9, 9)
    inside = allowed(*np.indices((9, 9)))
    assert (counts[~inside] == 0).all()
    expected = 40_000 / inside.sum()
    assert (np.abs(counts[inside] - expected) < 5 * np.sqrt(expected)).all()


def test_mixtures_keep_their_shares():
    a, b = _drawn((("both", 1, 0.25), ("both", 2, 0.75)))
    assert np.mean((a < 3) & (b < 3)) == pytest.approx(0.25, abs=0.01)
    assert np.mean((a >= 3) & (b >= 3)) == pytest.approx(0.75, abs=0.01)
    assert np.corrcoef(a[1:] < 3, a[:-1] < 3)[0, 1] == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize(
    ("kind", "lowest_a", "lowest_b"), [("uniform", 0, 0), ("longer", 3, 0), ("both", 3, 1)]
)
def test_a_one_digit_factor_is_drawn_from_its_domain(kind, lowest_a, lowest_b):
    a, b = _drawn((Part(kind, 2),), op="mul", single_b=True)
    assert (a.min(), a.max(), b.min(), b.max()) == (lowest_a, 8, lowest_b, 2)


def test_the_split_is_disjoint_seeded_and_symmetric():
    task = DigitsTask(digits=2, longest=4, held_share=0.1)
    train = digits.training_batch(task, 20_000, rng(1))
    held = digits.held_out_batch(task, 2_000, rng(2))
    assert not train.factors["held"].any()
    assert held.factors["held"].all()
    pairs = [set(map(tuple, np.sort([x.factors["a"], x.factors["b"]], 0).T)) for x in (train, held)]
    assert not pairs[0] & pairs[1]
    other = dataclasses.replace(task, split_seed=1)
    a, b = digits.operands(task, held)
    assert 0.05 < digits.is_held(other, a, b).mean() < 0.15
    assert digits.is_held(task, b, a).all()


def test_the_split_holds_the_share_and_does_not_depend_on_the_width():
    narrow = DigitsTask(digits=2, longest=2, held_share=0.3)
    wide = DigitsTask(digits=2, longest=9, held_share=0.3, order="msd", separators=True)
    batches = [digits.test_batch(task, 2, 8100, rng()) for task in (narrow, wide)]
    held = batches[0].factors["held"]
    assert (held == batches[1].factors["held"]).all()
    assert held.mean() == pytest.approx(0.3, abs=0.03)
    a, b = batches[0].factors["a"], batches[0].factors["b"]
    for by in (a, b):  # no number is favoured
        assert np.ptp([held[by == number].mean() for number in range(10, 100)]) < 0.4


def test_samplers_repeat_with_their_seed():
    task = DigitsTask()
    first, again, other = (digits.training_batch(task, 50, rng(s)) for s in (3, 3, 4))
    assert (first.tokens == again.tokens).all()
    assert (first.tokens != other.tokens).any()


def test_batches_are_selected_and_stacked():
    task = DigitsTask()
    batch = digits.training_batch(task, 20, rng())
    halves = concatenate([batch[:10], batch[10:]])
    assert (halves.tokens == batch.tokens).all()
    assert halves.factors["a"].shape == (20,)


def test_a_task_survives_json():
    task = DigitsTask(
        "mul", 2, 4, 40, base=5, train_on=(Part("both", 2, 0.5), Part("uniform", 1, 0.5))
    )
    assert task_from_dict(json.loads(json.dumps(task_to_dict(task)))) == task


@pytest.mark.parametrize(
    ("task", "constant"),
    [
        (DigitsTask(), True),
        (DigitsTask(separators=True), True),
        (DigitsTask(order="msd"), False),
        (DigitsTask(op="mul", single_b=True), False),
        (DigitsTask(op="mul", single_b=True, arrangement="repeated"), True),
        (DigitsTask(arrangement="interleaved"), False),
        (DigitsTask(op="mul", single_b=True, arrangement="interleaved"), False),
    ],
)
def test_layouts_are_judged_by_theory(task, constant):
    assert theory.constant_offsets(task.layout) == constant


def test_default_widths():
    assert (DigitsTask().slots, DigitsTask().answer_slots) == (7, 7)
    assert DigitsTask("mul").answer_slots == 12
    assert DigitsTask("mul").bare_answer_slots == 5
    assert DigitsTask(modulus=101).answer_slots == 3
    assert DigitsTask(modulus=8, base=2).answer_slots == 3
    assert DigitsTask().bare_answer_slots == 0


def test_which_domains_show_shorter_inputs():
    assert DigitsTask().shows_shorter
    assert not DigitsTask(train_on=(Part("longer", 3),)).shows_shorter
    assert DigitsTask(train_on=(Part("both", 3, 0.9), Part("both", 2, 0.1))).shows_shorter


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"op": "sub"}, "op must be one of add, mul, not 'sub'"),
        ({"digits": 4, "longest": 3}, "1 <= digits <= longest, not 4 and 3"),
        ({"base": 1}, "between 2 and 1000, not 1"),
        ({"modulus": 1}, "between 2 and 10\\^9, not 1"),
        ({"modulus": 1999}, "modulus 1999 never acts in training, n = 3"),
        ({"operand_width": 5}, "operand_width 5 is too narrow for 6 digits"),
        ({"answer_width": 6}, "answer_width 6 is too narrow: answers have up to 7 digits"),
        ({"order": "big"}, "order must be one of lsd, msd, not 'big'"),
        ({"arrangement": "zigzag"}, "arrangement must be one of"),
        ({"arrangement": "repeated"}, "a repeated b needs single_b"),
        ({"single_b": True}, "single_b is for op 'mul', not 'add'"),
        ({"held_share": 1.0}, r"held_share must lie in \[0, 1\)"),
        ({"split_seed": -1}, "split_seed cannot be negative"),
        ({"train_on": (Part("D", 3),)}, "uniform, longer, both, not 'D'"),
        ({"train_on": (Part("both", 4),)}, "1 to 3 digits, not 4"),
        ({"train_on": (Part("both", 3, 0.5),)}, "must sum to 1, not 0.5"),
        ({"train_on": (Part("both", 3, 1.5), Part("both", 2, -0.5))}, "must be positive"),
    ],
)
def test_impossible_tasks_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        DigitsTask(**options)


def test_every_problem_is_named():
    with pytest.raises(InputError) as error:
        DigitsTask(modulus=1, order="big", held_share=2.0, operand_width=0)
    assert str(error.value).count(";") >= 4


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: digits.test_batch(t, 7, 10, rng()), "1 to 6 digits; got 7"),
        (lambda t: digits.training_batch(t, 0, rng()), "at least one sequence; got 0"),
        (lambda t: digits.build_numbers(t, np.array([-1]), np.array([0])), "a must have at most 7"),
        (lambda t: digits.build_numbers(t, np.array([1]), np.array([10**7])), "b must have"),
        (lambda t: digits.test_batch(t, 2, -1, rng()), "cannot be negative: -1"),
        (
            lambda t: digits.build(t, np.full((1, 7), 10), np.zeros((1, 7), int)),
            "digits of a go from 0 to 9; got 10",
        ),
        (
            lambda t: digits.build(t, np.zeros((2, 7), int), np.zeros((1, 7), int)),
            r"should be \(\(2, 7\), \(2, 7\)\)",
        ),
    ],
)
def test_impossible_batches_are_refused(call, text):
    with pytest.raises(InputError, match=text):
        call(DigitsTask())


def test_an_empty_hold_out_is_reported():
    with pytest.raises(InputError, match="found 0 of 5 held-out pairs"):
        digits.held_out_batch(DigitsTask(held_share=0.0), 5, rng())


@pytest.mark.parametrize("name", ["longest", "operand_width", "answer_width"])
def test_numbers_of_absurd_length_are_refused_at_once(name):
    with pytest.raises(InputError, match="numbers have 10000 digits at most, not 1000000000"):
        DigitsTask(**{name: 10**9})
