"""A batch prints in one line, whatever its size."""

import numpy as np

from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.contrasts import contrasting


def test_a_batch_prints_as_one_line_with_its_names():
    text = repr(contrasting(AssignAdd(), "both", 500)[0])
    assert text.startswith("Batch(500 x 16 tokens, read at 15; positions: plus, lhs")
    assert "value of rhs; factors: form, a, b" in text
    assert "\n" not in text
    digits = Batch(np.zeros((2, 9), int), np.zeros((2, 3), int), 5)
    assert repr(digits) == (
        "Batch(2 x 9 tokens, read at 5, answers of 3 tokens; positions: none; factors: none)"
    )
