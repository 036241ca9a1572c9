"""Verdicts on planted answers: the truth, the truncated function, chance; and the rules one by one."""

import json
from fractions import Fraction

import numpy as np
import pytest

from mechint_arith import length
from mechint_arith.cells import digits_config
from mechint_arith.errors import InputError
from mechint_arith.length import LengthThresholds, curve, measure, meets
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.init import initial_weights
from mechint_arith.stats import share
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.digits import DigitsTask, truncated_labels
from mechint_arith.theory import Row

RULES = LengthThresholds()


def checkpoint(positions="absolute", **options):
    task = DigitsTask(**{"digits": 3, "longest": 5, **options})
    config = digits_config(task, n_heads=2, d_model=8, positions=positions)
    return Checkpoint(config, initial_weights(config, 0), task, step=7, seed=0)


def truth(task, batch):
    return batch.labels


def truncation(task, batch):
    return truncated_labels(task, batch)


def nearly(task, batch):
    """The truth, except for every twentieth pair."""
    wrong = np.arange(len(batch)) % 20 == 0
    return np.where(wrong[:, None], (batch.labels + 1) % task.base, batch.labels)


@pytest.fixture
def planted(monkeypatch):
    """Let every model answer as one function of (task, batch) says."""

    def plant(answer):
        def matches(model, task, batch, labels=None):
            wanted = batch.labels if labels is None else labels
            return (answer(task, batch) == wanted).all(1)

        monkeypatch.setattr(length, "matches", matches)

    return plant


CASES = [  # positions, task, answers, verdict downward, verdict upward
    ("absolute", {}, truncation, "as predicted", "as predicted"),
    ("absolute", {}, truth, "as predicted", "not as predicted"),
    ("relative", {}, truth, "as predicted", "as predicted"),
    ("relative", {}, truncation, "as predicted", "not as predicted"),
    ("absolute", {"modulus": 400}, truncation, "as predicted", "as predicted"),
    ("absolute", {"modulus": 400}, truth, "as predicted", "not as predicted"),
    ("relative", {"modulus": 400}, truncation, "as predicted", "as predicted"),
    ("relative", {"modulus": 400}, truth, "as predicted", "not as predicted"),
    ("absolute", {"modulus": 200}, truncation, "as predicted", "as predicted"),
    ("absolute", {"op": "mul"}, truncation, "as predicted", "as predicted"),
    ("absolute", {"train_on": (("both", 3),)}, truth, "not as predicted", "not as predicted"),
    ("absolute", {}, nearly, "not converged", "not converged"),
]


@pytest.mark.parametrize(("positions", "task", "answers", "downward", "upward"), CASES)
def test_verdicts_on_planted_answers(planted, positions, task, answers, downward, upward):
    planted(answers)
    report = measure(checkpoint(positions, **task), n=1000)
    assert report.verdicts["downward"] == downward
    assert report.verdicts["upward"] == upward
    computes = {truncation: "as predicted", nearly: "not converged"}.get(
        answers, "not as predicted"
    )
    assert report.truncated == (computes if positions == "absolute" else None)
    if answers is truncation:
        assert all(row.agreement.value == 1 for row in report.rows)
        assert all(row.accuracy.value == 1 for row in report.rows if row.region != "upward")


def test_a_report_is_json_with_every_number_beside_its_interval(planted):
    planted(truncation)
    values = json.loads(json.dumps(measure(checkpoint(modulus=400), n=500).as_dict()))
    assert values["step"] == 7
    assert values["in_domain"]["value"] == 1
    assert 480 < values["in_domain"]["n"] <= 500
    by_length = {row["length"]: row for row in values["lengths"]}
    assert list(by_length) == [1, 2, 3, 4, 5]
    assert by_length[1]["accuracy"]["n"] == 81
    assert by_length[5]["predicted"] == by_length[5]["truncated"] == 0.5
    assert by_length[5]["accuracy"]["low"] < 0.5 < by_length[5]["accuracy"]["high"]
    assert by_length[2]["region"] == "downward"


@pytest.mark.parametrize(
    ("hits", "succeeds", "rate", "expected"),
    [
        (990, True, Fraction(1), True),
        (989, True, Fraction(1), False),
        (989, False, None, True),
        (990, False, None, False),
        (0, False, Fraction(0), True),
        (10, False, Fraction(0), False),
        (340, False, Fraction(1, 3), True),
        (400, False, Fraction(1, 3), False),
    ],
)
def test_each_rule_at_its_edge(hits, succeeds, rate, expected):
    row = Row(4, "upward", succeeds, Fraction(0), rate)
    assert meets(share(hits, 1000), row, n_lengths=3, thresholds=RULES) is expected


def test_a_curve_has_one_point_per_checkpoint():
    points = curve([checkpoint(), checkpoint()], lengths=[1, 4], n=50)
    assert [point.step for point in points] == [7, 7]
    assert points[0] == points[1]
    assert list(points[0].as_dict()["agreement"]) == ["1", "4"]


def test_held_out_pairs_are_counted_once():
    """Base 3 with two digits has 81 pairs, of which a draw of 500 held-out ones repeats every single one."""
    task = DigitsTask(digits=2, longest=3, base=3, held_share=0.2)
    in_domain, _ = length.test_sets(task, [1], 500, 0)
    assert len(in_domain) == len(np.unique(in_domain.tokens, axis=0)) < 40
    assert in_domain.factors["held"].all()


def test_models_that_cannot_be_judged_are_refused(tmp_path):
    task = AssignAdd(p=5, n_vars=4)
    other = Checkpoint(checkpoint().config, {}, task)
    with pytest.raises(InputError, match="not trained on digits"):
        measure(other)
    with pytest.raises(InputError, match="1 to 5 digits"):
        measure(checkpoint(), lengths=[6], n=10)
    with pytest.raises(InputError, match="no step_"):
        length.run_checkpoints(tmp_path)
