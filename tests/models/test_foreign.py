"""Other people's files: every layout against the same weights, JSON beside them, and one line per refusal."""

import json
from dataclasses import replace

import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.evaluation import accuracy
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.foreign_json import operation, read_stated
from mechint_arith.models.load import Hints, load_checkpoint
from mechint_arith.models.reader import reader
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.assign_add import AssignAdd

P = 7
CONFIG = ModelConfig(
    d_vocab=P + 1,
    d_vocab_out=P,
    n_ctx=3,
    n_layers=1,
    n_heads=2,
    d_model=6,
    d_head=5,
    d_mlp=(9,),
    mlp_bias=True,
)
MIX = replace(CONFIG, d_vocab=P, n_ctx=2, causal=False, attn_mix=0.25)
SAID = {"funcs": "lambda x: (x[0]+x[1])%7", "C": 7, "attn_coeff": 0.25, "n_heads": 2}


def weights_of(config, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {k: torch.randn(s, generator=generator) for k, s in parameter_shapes(config).items()}


def transposed(weights, *, order="research"):
    """The research code's tensors: column vectors, heads of W_O joined."""
    turned = {}
    for key, w in weights.items():
        if key.endswith("W_O"):
            turned[key] = w.flatten(0, 1).T.contiguous()
        elif key.endswith(("W_E", "W_Q", "W_K", "W_V", "W_in", "W_out")):
            turned[key] = w.mT.contiguous()
        else:
            turned[key] = w
    turned["blocks.0.attn.mask"] = torch.tril(torch.ones(3, 3))
    if order == "mix":
        unembed = {k: turned.pop(k) for k in list(turned) if k.startswith("unembed")}
        first = {k: turned.pop(k) for k in list(turned) if "embed" in k}
        turned = {**first, **unembed, **turned}
    return turned


def saved(path, value):
    torch.save(value, path)
    return path


def same_logits(checkpoint, config, weights):
    tokens = torch.from_numpy(checkpoint.task.batch().tokens)
    ours = Transformer(checkpoint.config, checkpoint.weights)(tokens)[:, -1]
    torch.testing.assert_close(ours, Transformer(config, weights)(tokens)[:, -1])


def test_transformer_lens_names_with_buffers_and_prefixes(tmp_path):
    weights = weights_of(CONFIG)
    extra = {
        "blocks.0.attn.mask": torch.ones(3, 3).bool(),
        "blocks.0.attn.IGNORE": torch.tensor(-1e5),
    }
    file = {f"_orig_mod.module.{k}": v for k, v in {**weights, **extra}.items()}
    found = load_checkpoint(saved(tmp_path / "m.pt", file))
    assert found.meta["source"]["layout"] == "transformer-lens"
    assert found.meta["source"]["ignored"] == ["blocks.0.attn.IGNORE", "blocks.0.attn.mask"]
    assert found.meta["source"]["assumed"] == {"op": "add"}
    assert (found.task.p, found.task.equals, found.task.op) == (P, True, "add")
    same_logits(found, CONFIG, weights)


@pytest.mark.parametrize("square", [False, True], ids=["two heads", "one head as wide as d_model"])
def test_the_transposed_layout_in_a_wrapper_loses_the_logit_of_equals(tmp_path, square):
    config = replace(CONFIG, n_heads=1, d_head=6) if square else CONFIG
    weights = weights_of(config)
    wide = {**weights, "unembed.W_U": torch.cat([weights["unembed.W_U"], torch.ones(6, 1)], 1)}
    file = {"model": transposed(wide), "train_losses": [1.0], "test_losses": [2.0]}
    found = load_checkpoint(saved(tmp_path / "m.pth", file))
    assert found.meta["source"]["layout"] == "transposed"
    assert found.meta["source"]["dropped"] == ["the logit of ="]
    assert found.config.d_vocab_out == P
    same_logits(found, config, weights)


def test_the_attention_mix_takes_its_coefficient_from_the_json_beside_it(tmp_path):
    weights = weights_of(MIX)
    path = saved(tmp_path / "model_abc.pt", transposed(weights, order="mix"))
    with pytest.raises(InputError, match=r"attention-mix family without its JSON.*--attn-coeff"):
        load_checkpoint(path)
    by_hand = load_checkpoint(path, Hints(attn_coeff=0.25))
    (tmp_path / "config_abc.json").write_text(json.dumps(SAID))
    found = load_checkpoint(path)
    for one in (by_hand, found):
        assert one.meta["source"]["layout"] == "attention-mix"
        assert (one.config.attn_mix, one.config.causal, one.task.equals) == (0.25, False, False)
        same_logits(one, MIX, weights)
    assert found.meta["source"]["config"] == "config_abc.json"


def test_a_stated_operation_needs_no_text(tmp_path):
    path = saved(tmp_path / "m.pt", transposed(weights_of(MIX), order="mix"))
    said = {**SAID, "funcs": "lambda x: x[0]*pow(x[1],-1,7)%7"}
    (tmp_path / "m.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match=r"is not read.*--op"):
        load_checkpoint(path)
    assert load_checkpoint(path, Hints(op="div")).task.op == "div"


def test_two_vocabularies_and_a_closing_sign_of_the_mix(tmp_path):
    config = replace(MIX, d_vocab=2 * P + 1, n_ctx=3)
    weights = weights_of(config)
    outward = torch.cat([weights["unembed.W_U"], torch.ones(6, P + 1)], 1)
    path = saved(tmp_path / "m.pt", transposed({**weights, "unembed.W_U": outward}, order="mix"))
    said = {
        **SAID,
        "funcs": "lambda x: (x[0]-x[1])%7",
        "diff_vocab": True,
        "eqn_sign": 1,
        "frac": 0.8,
    }
    (tmp_path / "m.json").write_text(json.dumps(said))
    found = load_checkpoint(path)
    assert (found.task.op, found.task.diff_vocab, found.task.equals) == ("sub", True, True)
    assert found.task.train_share == 0.8
    same_logits(found, config, weights)


def test_deep_mix_files_look_ahead(tmp_path):
    config = replace(MIX, n_layers=2, d_mlp=(9, 9))
    weights = weights_of(config)
    path = saved(tmp_path / "m.pt", transposed(weights, order="mix"))
    found = load_checkpoint(path, Hints(attn_coeff=0.25))
    assert not found.config.causal
    same_logits(found, config, weights)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_stored_dtypes(tmp_path, dtype):
    weights = {k: w.to(dtype) for k, w in weights_of(CONFIG).items()}
    found = load_checkpoint(saved(tmp_path / "m.pt", weights))
    assert found.meta["source"]["dtype"] == str(dtype).removeprefix("torch.")
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert {w.dtype for w in found.weights.values()} == {wide}


def test_tensors_saved_on_a_gpu(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        path = saved(tmp_path / "m.pt", weights_of(CONFIG))
    assert b"cuda:0" in path.read_bytes()
    assert load_checkpoint(path).task.p == P


def test_options_override_and_are_checked(tmp_path):
    path = saved(tmp_path / "m.pt", weights_of(CONFIG))
    assert load_checkpoint(path, Hints(op="mul")).task.op == "mul"
    for hints, said in (
        (Hints(p=9), "8"),
        (Hints(layout="transposed"), "does not have the layout transposed"),
        (Hints(layout="sideways"), "transformer-lens, transposed, attention-mix"),
        (Hints(attn_coeff=0.5), "belongs to attention-mix files only"),
        (Hints(task="digits"), "assign-add or modular"),
        (Hints(op="pow"), "add, sub, mul, div"),
    ):
        with pytest.raises(InputError, match=said):
            load_checkpoint(path, hints)


def test_an_ambiguous_file_names_the_flag(tmp_path):
    tensors = transposed(weights_of(replace(CONFIG, d_vocab_out=P + 1)))
    path = saved(tmp_path / "m.pt", {k: tensors[k] for k in sorted(tensors)})
    with pytest.raises(InputError, match=r"--layout transposed.*--attn-coeff"):
        load_checkpoint(path)
    assert load_checkpoint(path, Hints(layout="transposed")).config.causal
    assert load_checkpoint(path, Hints(attn_coeff=1.0)).meta["source"]["layout"] == "attention-mix"


def test_a_mixture_of_layouts_is_none(tmp_path):
    weights = weights_of(CONFIG)
    weights["embed.W_E"] = weights["embed.W_E"].T.contiguous()
    with pytest.raises(InputError, match=r"no known layout: embed.W_E \[6, 8\]"):
        load_checkpoint(saved(tmp_path / "m.pt", weights))


def test_what_is_no_model_says_what_it_is(tmp_path):
    mlp = {"embed.W_E": torch.ones(8, 6), "hidden.weight": torch.ones(6, 6)}
    for value, said in (
        (
            {"train_losses": [1.0], "test_losses": [2.0]},
            "holds no model, only: train_losses, test_losses",
        ),
        (mlp, "without attention"),
        ({"W_x": torch.ones(3, 3), "W_y": torch.ones(3, 3)}, "without attention"),
    ):
        with pytest.raises(InputError, match=said):
            load_checkpoint(saved(tmp_path / "m.pt", value))
    for text, said in (
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git-LFS pointer"),
        ("<!DOCTYPE html><html></html>", "HTML page"),
        ("", "empty"),
    ):
        (tmp_path / "m.pt").write_text(text)
        with pytest.raises(InputError, match=said):
            load_checkpoint(tmp_path / "m.pt")


def test_a_bad_json_says_what_is_wrong(tmp_path):
    path = saved(tmp_path / "m.pt", transposed(weights_of(MIX), order="mix"))
    for text, said in (
        ("{", "is not JSON"),
        ("[]", "JSON object"),
        (json.dumps({**SAID, "attn_coeff": "half"}), "attn_coeff should be a number"),
        (json.dumps({**SAID, "attn_coeff": 3}), "between 0 and 1"),
        (json.dumps({**SAID, "n_heads": 4}), "belongs to another model"),
        (json.dumps({**SAID, "C": 5}), "funcs counts modulo 7, but C is 5"),
        (json.dumps({**SAID, "act_fn": "swish"}), "not computed here"),
        (json.dumps({"group": "SymmetricGroup"}), "only CyclicGroup"),
        (json.dumps({"group": "CyclicGroup", "group_parameter": 1}), "at least 2"),
    ):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(InputError, match=said):
            load_checkpoint(path)
    with pytest.raises(InputError, match="no such file"):
        load_checkpoint(path, Hints(config=tmp_path / "none.json"))


def test_the_operation_is_matched_and_nothing_is_evaluated(tmp_path):
    assert operation("lambda x: (x[0]+x[1])%59") == ("add", 59)
    assert operation("lambda x:(x[1] + x[0]) % 59") == ("add", 59)
    assert operation("lambda x: x[0]*x[1]%7") == ("mul", 7)
    for text in (
        "lambda x: x[0]+x[1]%59",
        "lambda x: (x[1]-x[0])%5",
        "print('ran')",
        "lambda x: (x[0]+x[0])%5",
    ):
        with pytest.raises(InputError, match="is not read"):
            operation(text)
    (tmp_path / "c.json").write_text(json.dumps({"unrelated": 1}))
    assert not read_stated(tmp_path / "c.json").modular


FILES = {
    "C113_T_seed1.pt": ("transformer-lens", 1.0),
    "low_precision_mod_addition.pth": ("transposed", 0.99945),
    "model_l8k1hzciux.pt": ("attention-mix", 1.0),
    "model_p99zdpze5l.pt": ("attention-mix", 1.0),
}


@pytest.mark.parametrize("name", FILES)
def test_the_reference_files(reference, name):
    layout, right = FILES[name]
    found = load_checkpoint(reference / "modular" / name)
    assert found.meta["source"]["layout"] == layout
    model = reader(found.config, found.weights, read=found.task.length - 1)
    measured = accuracy(lambda tokens: model(tokens).logits, found.task.batch())
    assert measured.value == pytest.approx(right, abs=1e-5)
    assert measured.n == found.task.p**2


def test_what_the_reference_files_leave_out(reference):
    source = load_checkpoint(reference / "modular" / "C113_T_seed1.pt").meta["source"]
    assert {"x_embed", "y_embed"} < set(source["ignored"])
    low = load_checkpoint(reference / "modular" / "low_precision_mod_addition.pth")
    assert low.meta["source"]["dropped"] == ["the logit of ="]


def test_a_released_assign_and_add_file_stays_what_it_was(reference):
    found = load_checkpoint(reference / "assign_and_add" / "checkpoint_step_501.pth")
    assert isinstance(found.task, AssignAdd)
    assert found.meta["source"]["assumed"]["split_seed"] == 42
