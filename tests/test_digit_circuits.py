"""Measures of mechanism on models and answers whose mechanism is known."""

import numpy as np
import pytest
import torch

from mechint_arith import digit_circuits
from mechint_arith.cells import digits_config
from mechint_arith.digit_circuits import (
    attention,
    attention_by_digit,
    carry_effects,
    carry_sharing,
    leak,
    lone_digits,
    offset_overlap,
    patch_digits,
)
from mechint_arith.errors import InputError
from mechint_arith.models.config import parameter_shapes
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import digits
from mechint_arith.tasks.digits import DigitsTask

TASK = DigitsTask(digits=2, longest=4, base=4)
PLAIN = {"n_heads": 2, "d_model": 16, "norm": "rms"}


def network(task=TASK, seed=0, **options):
    config = digits_config(task, **{**PLAIN, **options})
    generator = torch.Generator().manual_seed(seed)
    shapes = parameter_shapes(config)
    return Transformer(config, {k: torch.randn(s, generator=generator) for k, s in shapes.items()})


def windowed():
    """A relative model that sees a_i, b_i and the digits before them, so each position does the same."""
    model = network(positions="relative", attn_content=False)
    bias = model.blocks[0].attn.rel_bias.data
    bias[:] = -torch.inf
    width = TASK.slots
    for offset in (width - 1, 2 * width - 1):
        bias[0, TASK.length - 1 + offset] = 0.0
        bias[1, TASK.length + offset] = 0.0
    bias[:, TASK.length - 1] = -5.0
    return model


def some(length=4, n=200):
    return digits.test_batch(TASK, length, n, np.random.default_rng(0))


def test_attention_looks_where_the_biases_say_and_keeps_its_offsets():
    model = windowed()
    found = attention(model, TASK, some())
    assert found.pattern.shape == (1, 2, TASK.answer_slots, TASK.length - 1)
    by_digit = attention_by_digit(found, TASK)
    for i in range(1, 5):
        assert by_digit["a"][0, 0, i, i] == pytest.approx(by_digit["b"][0, 0, i, i])
        assert by_digit["a"][0, 0, i, i] > 0.49
        assert by_digit["a"][0, 1, i, i - 1] > 0.49
        assert offset_overlap(found, 1, i).min() > 0.99


def test_a_model_that_looks_at_one_place_does_not_keep_its_offset():
    model = network(attn_content=False)
    model.blocks[0].attn.place_bias.data[:] = 0
    model.blocks[0].attn.place_bias.data[:, :, 0] = 50.0
    found = attention(model, TASK, some())
    assert offset_overlap(found, 1, 2).max() < 1e-6
    assert offset_overlap(found, 2, 2).min() == pytest.approx(1)


def test_attention_given_to_a_sink_counts_as_one_place():
    model = network(attn_content=False, attn_sink=True)
    model.blocks[0].attn.place_bias.data[:] = 0
    model.blocks[0].attn.sink.data[:] = 50.0
    assert offset_overlap(attention(model, TASK, some()), 1, 3).min() > 0.999


@pytest.fixture
def planted(monkeypatch):
    def plant(answers):
        monkeypatch.setattr(
            digit_circuits, "decode", lambda model, task, batch: answers(task, batch)
        )

    return plant


@pytest.mark.parametrize("operand", ["a", "b"])
def test_patches_of_the_truth_and_of_the_truncated_function(planted, operand):
    model = network()
    planted(lambda task, batch: batch.labels)
    found = patch_digits(model, TASK, 4, np.random.default_rng(0), operand=operand, n=300)
    assert (found.changed == found.truth).all()
    assert all(share.value == 1 for share in found.any_changed)
    assert (np.diag(found.truth) == 1).all()
    assert not np.tril(found.truth, -1).any()
    planted(digits.truncated_labels)
    found = patch_digits(model, TASK, 4, np.random.default_rng(0), operand=operand, n=300)
    assert (found.changed == found.truncated).all()
    assert [share.value for share in found.any_changed] == [1, 1, 0, 0]
    assert found.as_dict()["n"] == 300


@pytest.mark.parametrize("operand", ["a", "b"])
def test_lone_digits_tell_which_empty_slot_is_read(planted, operand):
    place = getattr(TASK.layout, f"{operand}_places")[3]
    planted(lambda task, batch: batch.labels + (batch.tokens[:, [place]] != 0))
    found = lone_digits(network(), TASK, np.random.default_rng(0), operand=operand, n=100)
    other = lone_digits(
        network(), TASK, np.random.default_rng(0), operand="ab"[operand == "a"], n=100
    )
    assert found[3].value == 1
    planted(digits.truncated_labels)
    found = lone_digits(network(), TASK, np.random.default_rng(0), operand=operand, n=100)
    assert {j: e.value for j, e in found.items()} == {2: 0, 3: 0}
    assert set(other) == set(found)


def test_digits_of_other_operands_are_refused():
    with pytest.raises(InputError, match="got 'c'"):
        lone_digits(network(), TASK, np.random.default_rng(0), operand="c")
    single = DigitsTask(op="mul", digits=2, longest=3, single_b=True)
    with pytest.raises(InputError, match="got 'b'"):
        patch_digits(network(), single, 2, np.random.default_rng(0), operand="b")


def test_leak_is_none_for_the_truncated_function_and_nearly_all_for_the_truth(planted):
    planted(digits.truncated_labels)
    assert leak(network(), TASK, 4, n=300).value == 0
    planted(lambda task, batch: batch.labels)
    assert leak(network(), TASK, 4, n=300).value > 0.9
    with pytest.raises(InputError, match="longer length"):
        leak(network(), TASK, 2)


def test_carry_effects_are_what_the_neurons_change_in_the_logits():
    """Without a norm the last MLP is linear in its neurons, so zeroing one by a hook gives its part."""
    model = network(norm="none", mlp_bias=False)
    rng = np.random.default_rng(3)
    effects = carry_effects(model, TASK, 2, rng, n=5)
    assert effects.shape == (5, 64)
    kept = {}
    for name, carry in (("with", 1), ("without", 0)):
        rng = np.random.default_rng(3)
        found = digit_circuits._carry_pairs(TASK, 2, rng, 5)
        batch = digits.build(TASK, found[1 - carry], found[2])
        place = int(TASK.layout.read_places[2])
        tokens = torch.from_numpy(batch.tokens[:, :-1])
        with torch.no_grad():
            mid = []
            handle = model.blocks[0].hook_mlp_out.register_forward_hook(
                lambda _m, _i, out, mid=mid: mid.append(out)
            )
            model(tokens)
            handle.remove()
            kept[name] = (mid[0][:, place] @ model.unembed.W_U, batch.labels[:, 2])
    rows = torch.arange(5)
    change = kept["with"][0] - kept["without"][0]
    expected = change[rows, kept["with"][1]] - change[rows, kept["without"][1]]
    torch.testing.assert_close(torch.from_numpy(effects).sum(1), expected, rtol=1e-3, atol=1e-2)


def test_carries_of_a_shift_equivariant_model_use_the_same_neurons():
    shared = carry_sharing(windowed(), TASK, 1, 2, n=1000, n_resamples=50)
    assert shared.overlap.value > 0.9 * shared.within
    assert shared.overlap.value > shared.null + 0.2


def test_carries_of_a_model_with_neurons_per_position_do_not():
    model = network(norm="none")
    first, second = (int(TASK.layout.read_places[i]) for i in (1, 2))
    model.pos_embed.W_pos.data[:] = 0
    for place, channel in ((first, 14), (second, 15)):
        model.pos_embed.W_pos.data[place, channel] = 1000.0
    attn = model.blocks[0].attn
    for name in "QKV":
        getattr(attn, f"W_{name}").data[:, 14:] = 0
    attn.W_O.data[..., 14:] = 0
    model.embed.W_E.data[:, 14:] = 0
    w_in = model.blocks[0].mlp.W_in.data
    w_in[14:] = 0
    w_in[14, :32] = w_in[15, 32:] = -100.0
    shared = carry_sharing(model, TASK, 1, 2, n=500, n_resamples=50)
    assert shared.overlap.value < 0.05
    assert abs(shared.sigma.value) < 0.1


@pytest.mark.parametrize(
    ("task", "position"), [(DigitsTask(modulus=400), 1), (DigitsTask(op="mul"), 1), (TASK, 0)]
)
def test_carries_are_for_plain_addition(task, position):
    with pytest.raises(InputError, match="plain addition"):
        carry_effects(network(task), task, position, np.random.default_rng(0))
