"""One prompt: the same numbers as the hooked and the folded form, prompts as people write them, and refusals."""

import numpy as np
import pytest
import torch

import mechint_arith as ma
from mechint_arith.asking import Answer, ask, ask_forms, read_prompt
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.folded import fold
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.tasks.digits import DigitsTask
from mechint_arith.tasks.modular import ModularTask

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
SIZES = {"d_vocab": len(TASK.vocab), "d_vocab_out": 7, "n_ctx": 10, "d_model": 12, "d_head": 6}


def checkpoint(**options) -> Checkpoint:
    config = ModelConfig(**{**SIZES, "d_mlp": (0, 20), "n_heads": 2, **options})
    weights = initial_weights(config, 0, dtype=torch.float64)
    return Checkpoint(config, {k: w * 3 for k, w in weights.items()}, TASK)


def test_the_same_numbers_as_the_folded_form():
    found, c = ask(checkpoint(), "a 3 b 5 + a b =", top=7), checkpoint()
    batch = read_prompt(TASK, "a 3 b 5 + a b =")
    run = fold(c.config, c.weights, read=batch.read)(torch.from_numpy(batch.tokens))
    logits = {answer: logit for answer, _, logit in found.top}
    np.testing.assert_allclose([logits[i] for i in range(7)], run.logits[0], atol=1e-9)
    for layer, pattern in enumerate((run.patterns[0][:, :, batch.read], run.patterns[1])):
        for head in range(2):
            row = found.attention[f"layer {layer} head {head}"]
            np.testing.assert_allclose(row, pattern[0, head], atol=1e-9)
    assert found.margin == pytest.approx(
        float(run.logits[0, 1] - (run.logits[0].sum() - run.logits[0, 1]) / 6)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"d_mlp": (20, 0)},
        {"d_mlp": (0, 0)},
        {"norm": "rms", "embed_norm": True},
        {"positions": "rotary"},
        {"positions": "relative", "attn_content": False, "attn_sink": True},
        {"n_layers": 3, "d_mlp": (8, 0, 8), "attn_bias": True, "mlp_bias": True},
        {"causal": False, "attn_mix": 0.5},
    ],
)
def test_every_architecture_is_asked(options):
    from mechint_arith.models.hooked import HookedTransformer

    c = checkpoint(**options)
    found = ask(c, "a 3 b 5 + a b =", top=7)
    tokens = torch.from_numpy(read_prompt(TASK, "a 3 b 5 + a b =").tokens)
    logits, cache = HookedTransformer(c.config, c.weights).run_with_cache(tokens)
    expected = logits[0, -1].detach().numpy()
    np.testing.assert_allclose([z for _, _, z in sorted(found.top)], expected)
    assert found.margin == pytest.approx(expected[1] - np.delete(expected, 1).mean())
    for layer in range(c.config.n_layers):
        pattern = cache["pattern", layer][0, 0, -1].detach().numpy()
        np.testing.assert_allclose(found.attention[f"layer {layer} head 0"], pattern, atol=1e-9)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2 + 3 =", "+ 2 3 ="),
        ("2+3=", "+ 2 3 ="),
        ("a 3 b 5 a + b =", "a 3 b 5 + a b ="),
        ("a 3 4 + a =", "a 3 + 4 a ="),
        ("PAD*02 2 + 3 =", "PAD PAD + 2 3 ="),
        ("PAD*0 + 2 3 =", "+ 2 3 ="),
        ("2 3", "+ 2 3 ="),
        ("2 3 =", "+ 2 3 ="),
        ("2+3=?", "+ 2 3 ="),
        ("2 + 3?", "+ 2 3 ="),
        ("a 3 b 5 + a b", "a 3 b 5 + a b ="),
        ("a=3, b=5, a+b=?", "a 3 b 5 + a b ="),
        ("a = 3; a + 4", "a 3 + a 4 ="),
    ],
)
def test_the_sign_may_stand_between_the_operands(written, read):
    np.testing.assert_array_equal(read_prompt(TASK, written).tokens, read_prompt(TASK, read).tokens)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("7", r"a query, such as 'a 7 b 12 \+ a b =' or '\+ 7 12 ='"),
        ("a 2 b 3", "a query, such as"),
        ("a=2, b=3, a b", "a query, such as"),
        ("2 = 3 =", "a query, such as"),
        ("x=2, y=3, x+y=?", "no variable 'x'; this model's are a, b, c, d$"),
        ("2 + 12", "unknown symbol '12': this model reads numbers 0 to 6"),
        ("2 + =", "a query, such as"),
        ("+ 2 + 3 =", "expected 'variable number'"),
        ("+ + 3 =", "neither a number nor a variable"),
        ("2 - 3 =", "a query, such as"),
        ("", "a query, such as"),
        ("PAD*999999999999 + 1 2 =", r"PAD\*999999999999, but this model reads 10 tokens"),
        (f"PAD*{'9' * 5000} + 1 2 =", "this model reads 10 tokens"),
        ("PAD*11 + 1 2 =", "15 tokens, but this model reads 10"),
        ("PAD*7 + 1 2 =", "11 tokens, but this model reads 10"),
        ("PAD*² + 1 2 =", "unknown symbol"),
        ("² + 1 =", "unknown symbol '²'"),
        ("+ 1 " + "9" * 10_000 + " =", "unknown symbol '9999"),
        ("x" * 10_000, "expected assignments"),
    ],
)
def test_other_prompts_say_how_to_write_them(prompt, said):
    with pytest.raises(InputError, match=said) as caught:
        read_prompt(TASK, prompt)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("prompt", "prefix", "x", "y"),
    [("2 3", "a 2 b 3", "a", "b"), ("c=3, d=2, a=1, d+c=?", "c 3 d 2 a 1", "d", "c")],
)
def test_the_four_forms_of_a_question_share_one_prefix(prompt, prefix, x, y):
    c = checkpoint()
    found = ask_forms(c, prompt)
    queries = {"direct": "2 3", "left": f"{x} 3", "right": f"2 {y}", "both": f"{x} {y}"}
    assert list(found) == list(queries)
    for route, answer in found.items():
        alone = ask(c, f"{prefix} + {queries[route]} =")
        assert (answer.tokens, answer.top, answer.right) == (alone.tokens, alone.top, 5)


def test_other_tasks_have_no_four_forms():
    config = ModelConfig(6, 5, 3, n_layers=1, d_model=8, d_head=4, d_mlp=(8,))
    modular = Checkpoint(config, initial_weights(config, 0), ModularTask(p=5))
    with pytest.raises(InputError, match="four forms"):
        ask_forms(modular, "1 2")


@pytest.mark.parametrize("prompt", ["3 4 =", "3 4", "3-4=?", "3 - 4 =", "3-4=", "3 - 4"])
def test_modular_prompts_as_people_write_them(prompt):
    batch = read_prompt(ModularTask(p=5, op="sub"), prompt)
    assert batch.tokens.tolist() == [[3, 4, 5]]
    assert batch.labels.tolist() == [4]


@pytest.mark.parametrize(
    "prompt",
    ["3 + 4 =", "3 4 - =", "= 3 4", "3 5 =", "3", "", "1 2 3 =", "9" * 5000 + " 1 =", "² 1"],
)
def test_another_sign_or_number_is_refused(prompt):
    with pytest.raises(InputError, match=r"two numbers from 0 to 4, such as '3 - 4 =' or '3 4 ='"):
        read_prompt(ModularTask(p=5, op="sub"), prompt)


def test_digit_models_are_sent_elsewhere():
    with pytest.raises(InputError, match="mechint-arith length"):
        read_prompt(DigitsTask(), "1 + 2 =")


@pytest.mark.parametrize("size", [1e6, 1e13])
def test_logits_that_are_not_finite_are_refused_by_file(tmp_path, size):
    c = checkpoint()
    weights = {k: torch.full_like(w, size, dtype=torch.float32) for k, w in c.weights.items()}
    path = tmp_path / "large.safetensors"
    save(path, Checkpoint(c.config, weights, TASK))
    with pytest.raises(InputError, match=r"large\.safetensors: the logits are NaN or infinite"):
        ma.ask(ma.load(path), "+ 1 2 =")
    with pytest.raises(InputError, match=r"^the logits are NaN or infinite"):
        ask(Checkpoint(c.config, weights, TASK), "+ 1 2 =")


def test_an_answer_prints_in_one_line():
    answer = Answer(
        tokens=("PAD", "7", "12", "+"),
        right=19,
        top=((19, 0.99, 12.0), (3, 0.01, 2.0)),
        attention={"layer 0 head 0": np.zeros(4)},
        parts=(("neuron 1", 4.0), ("embedding", 0.5)),
    )
    assert repr(answer) == "Answer(7 12 + 19 (0.990), 3 (0.010); right is 19; mean margin 4.50)"
