"""The functions a notebook starts from: what they refuse in one line."""

import pytest

import mechint_arith as ma


def test_unknown_options_of_load_are_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ma.InputError, match="no option 'tasks': choose from task, p, train_share"):
        ma.load(tmp_path / "tl.pth", tasks="x")
