"""Types of fields: what passes, and what is said of what does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.fields import wrong_types
from mechint_arith.models.config import ModelConfig
from mechint_arith.tasks import task_from_dict
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.digits import DigitsTask
from mechint_arith.tasks.modular import ModularTask


@dataclass
class Sample:
    n: int = 1
    x: float = 0.5
    on: bool = True
    name: str = "a"
    width: int | None = None
    sizes: tuple[int, ...] = (1, 2)
    more: tuple[Any, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    "good",
    [{}, {"x": 1}, {"n": np.int64(3), "x": np.float32(2)}, {"width": 3, "more": ("a", 1)}],
)
def test_what_fits(good):
    assert list(wrong_types(Sample(**good))) == []


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"n": 1.0}, "n must be a whole number, not 1.0"),
        ({"n": True}, "n must be a whole number, not True"),
        ({"n": None}, "n must be a whole number, not None"),
        ({"x": "1"}, "x must be a number, not '1'"),
        ({"x": float("nan")}, "x must be a number, not nan"),
        ({"on": 1}, "on must be true or false, not 1"),
        ({"name": 3}, "name must be a text, not 3"),
        ({"width": 0.5}, "width must be a whole number or null, not 0.5"),
        ({"sizes": (1, "2")}, "sizes must be a list, each a whole number, not (1, '2')"),
        ({"sizes": 3}, "sizes must be a list, each a whole number, not 3"),
        ({"meta": [1]}, "meta must be Mapping, not [1]"),
    ],
)
def test_what_does_not_fit(bad, said):
    assert list(wrong_types(Sample(**bad))) == [said]


def test_models_and_tasks_refuse_other_types():
    with pytest.raises(InputError, match=r"n_layers must be a whole number, not 2\.0"):
        ModelConfig(d_vocab=5, d_vocab_out=5, n_ctx=3, n_layers=2.0)
    with pytest.raises(InputError, match=r"attn_mix must lie in \[0, 1\], not 2"):
        ModelConfig(d_vocab=5, d_vocab_out=5, n_ctx=3, attn_mix=2.0)
    with pytest.raises(InputError, match="d_mlp must be a list, each a whole number"):
        ModelConfig(d_vocab=5, d_vocab_out=5, n_ctx=3, d_mlp=(0, 8.0))
    for task in (AssignAdd, ModularTask, DigitsTask):
        name = "p" if task is not DigitsTask else "base"
        with pytest.raises(InputError, match=rf"{name} must be a whole number, not 7\.0"):
            task(**{name: 7.0})
    with pytest.raises(InputError, match=r"train_share must be a number, not 'half'"):
        task_from_dict({"name": "modular", "train_share": "half"})
