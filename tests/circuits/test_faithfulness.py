"""Scores on numbers worked out by hand."""

import math

import pytest

from mechint_arith.circuits.faithfulness import completeness_gap, faithfulness
from mechint_arith.errors import InputError


def test_faithfulness_is_the_share_of_the_effect_that_remains():
    assert faithfulness(8.0, 10.0, 2.0).value == 0.75
    assert faithfulness(10.0, 10.0, 2.0).value == 1
    assert faithfulness(2.0, 10.0, 2.0).value == 0
    assert faithfulness(12.0, 10.0, 2.0).value == 1.25


def test_a_ratio_without_denominator_is_missing_and_says_why():
    for score in (faithfulness(1.0, 3.0, 3.0), completeness_gap(1.0, 2.0, 3.0, 3.0)):
        assert score.value is None
        assert "no effect to take a share of" in score.reason


def test_a_value_that_is_there_needs_no_reason():
    assert faithfulness(1.0, 2.0, 0.0).reason is None


def test_completeness_gap_is_symmetric_and_0_for_a_complete_circuit():
    assert completeness_gap(4.0, 4.0, 10.0, 2.0).value == 0
    assert completeness_gap(2.0, 6.0, 10.0, 2.0).value == 0.5
    assert completeness_gap(6.0, 2.0, 10.0, 2.0).value == 0.5
    assert completeness_gap(6.0, 2.0, 2.0, 10.0).value == 0.5


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="m_all = nan"):
        faithfulness(1.0, math.nan, 0.0)
