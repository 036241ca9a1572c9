"""Free memory, and what is said where it is not enough."""

import pytest

from mechint_arith import memory
from mechint_arith.errors import InputError
from mechint_arith.footprint import require_memory, training_bytes
from mechint_arith.models.config import ModelConfig


@pytest.fixture
def free(monkeypatch):
    return lambda amount: monkeypatch.setattr(memory, "free", lambda: amount)


def test_this_machine_has_some():
    there = memory.free()
    assert there is None or there > 10**7


@pytest.mark.parametrize(
    ("needed", "said"),
    [
        (10**9, None),
        (10**9 + 1, "about 1.0 GB of memory, but 1.0 GB are free"),
        (5 * 10**12, "about 5,000 GB of memory, but 1.0 GB are free"),
        (10**400, "about 1.0e+391 GB of memory, but 1.0 GB are free"),
    ],
)
def test_a_shortage_is_said_with_the_estimate(free, needed, said):
    free(10**9)
    found = memory.shortage(needed)
    assert found == said


def test_a_system_that_does_not_say_is_trusted(free):
    free(None)
    assert memory.shortage(10**30) is None


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("shapes differ"), False),
    ],
)
def test_errors_of_spent_memory_are_told_from_others(error, known):
    assert memory.is_shortage(error) is known


FOLDED = ModelConfig(d_vocab=74, d_vocab_out=59, n_ctx=16)
ONE_LAYER = ModelConfig(
    d_vocab=114, d_vocab_out=113, n_ctx=3, n_layers=1, n_heads=4, d_head=32, d_mlp=(512,)
)
PLAIN = ModelConfig(
    d_vocab=10, d_vocab_out=10, n_ctx=21, n_layers=1, n_heads=2, d_model=64, d_head=32,
    d_mlp=(256,), positions="relative", norm="rms",
)  # fmt: skip


@pytest.mark.parametrize("config", [FOLDED, ONE_LAYER, PLAIN])
def test_every_size_adds_to_a_training(config):
    from dataclasses import replace

    start = training_bytes(config, batch=8)
    assert training_bytes(config, batch=16) > start
    assert training_bytes(config, batch=8, n_logits=2) > start
    for name in ("d_vocab", "n_ctx", "n_heads", "d_model", "d_head"):
        larger = replace(config, **{name: 4 * getattr(config, name)})
        assert training_bytes(larger, batch=8) > start, name


def test_the_trainings_of_the_papers_need_less_than_half_a_gigabyte():
    assert training_bytes(FOLDED, batch=512) < 5e8
    assert training_bytes(ONE_LAYER, batch=3830) < 5e8
    assert training_bytes(PLAIN, batch=128, n_logits=7) < 5e8


def test_only_the_cpus_memory_is_judged(free):
    free(10**6)
    with pytest.raises(InputError, match=r"this training needs about .* choose a smaller batch"):
        require_memory(FOLDED, batch=512)
    require_memory(FOLDED, batch=512, device="cuda:0")
