"""Outside files: what is read, and the one line in which everything else is refused."""

import os
import pickle
from collections import OrderedDict

import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models.bridge import state_dict
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import Hints, load_checkpoint

CONFIG = ModelConfig(d_vocab=13, d_vocab_out=7, n_ctx=9, d_model=8, d_head=4, d_mlp=(0, 12))


def outside() -> dict[str, torch.Tensor]:
    return state_dict(CONFIG, initial_weights(CONFIG, 5))


def saved(path, value):
    torch.save(value, path)
    return path


def test_sizes_come_from_shapes_and_assumptions_are_stated(tmp_path):
    c = load_checkpoint(saved(tmp_path / "a.pth", outside()))
    assert c.config == CONFIG
    assert (c.task.p, c.task.n_vars, c.task.length) == (7, 3, 9)
    assert c.meta["source"]["assumed"] == {
        "split_seed": 42,
        "train_share": 0.7,
        "never_left": 2,
        "never_right": 2,
    }


@pytest.mark.parametrize("wrap", ["plain", "module", "compiled", "nested", "trainer"])
def test_wrappings_are_taken_off(tmp_path, wrap):
    tensors = outside()
    value = {
        "plain": tensors,
        "module": {f"module.{k}": v for k, v in tensors.items()},
        "compiled": {f"_orig_mod.{k}": v for k, v in tensors.items()},
        "nested": OrderedDict((f"_orig_mod.module._orig_mod.{k}", v) for k, v in tensors.items()),
        "trainer": {"model": tensors, "step": 3, "losses": [1.0], "optimizer": {"state": {}}},
    }[wrap]
    c = load_checkpoint(saved(tmp_path / "a.pt", value), Hints(never_left=1, never_right=1))
    assert torch.equal(c.weights["embed.W_E"], tensors["embed.W_E"])


def test_masks_and_half_precision(tmp_path):
    tensors = {k: v.half() for k, v in outside().items()}
    tensors["blocks.0.attn.mask"] = torch.ones(9, 9, dtype=torch.bool)
    tensors["blocks.0.attn.IGNORE"] = torch.tensor(-1e5)
    c = load_checkpoint(saved(tmp_path / "a.pt", tensors), Hints(never_left=1, never_right=1))
    assert c.meta["source"]["ignored"] == ["blocks.0.attn.IGNORE", "blocks.0.attn.mask"]
    assert c.meta["source"]["dtype"] == "float16"
    assert c.weights["embed.W_E"].dtype == torch.float32


def test_a_non_zero_mlp_in_the_first_layer_is_kept(tmp_path):
    tensors = outside()
    tensors["blocks.0.mlp.W_in"] += 1
    c = load_checkpoint(saved(tmp_path / "a.pt", tensors), Hints(never_left=1, never_right=1))
    assert c.config.d_mlp == (12, 12)


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil-was-here",)


def without(key):
    return lambda t: t.pop(key)


def put(key, value):
    return lambda t: t.update({key: value})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (without("blocks.1.attn.W_K"), "missing blocks.1.attn.W_K"),
        (without("embed.W_E"), "missing embed.W_E"),
        (put("blocks.1.attn.W_Z", torch.ones(2)), "unexpected blocks.1.attn.W_Z"),
        (put("extra", torch.ones(2)), "unexpected extra"),
        (put("module.embed.W_E", torch.ones(2)), "some names begin with 'module.'"),
        (put("embed.W_E", torch.ones(13, 9)), r"embed.W_E \[13, 9\] does not fit"),
        (put("embed.W_E", torch.ones(13)), "expected 2 axes"),
        (put("embed.W_E", torch.full((13, 8), torch.inf)), "NaN or infinite weights in embed.W_E"),
        (put("blocks.1.mlp.W_in", torch.full((8, 12), torch.nan)), "NaN or infinite weights"),
        (put("blocks.1.ln1.w", torch.ones(8)), "has LayerNorm"),
        (put("embed.W_E", torch.ones(13, 8, dtype=torch.int64)), "expected real numbers"),
    ],
)
def test_wrong_state_dicts(tmp_path, change, complaint):
    tensors = outside()
    change(tensors)
    with pytest.raises(InputError, match=complaint) as caught:
        load_checkpoint(saved(tmp_path / "a.pth", tensors), Hints(task="assign-add"))
    assert "\n" not in str(caught.value)


def test_files_that_are_no_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cases = {
        "missing.pth": (None, "no such file"),
        "empty.pth": (b"", "is empty"),
        "page.pth": (b"\n<!DOCTYPE html><html>", "is an HTML page"),
        "pointer.pth": (b"version https://git-lfs.github.com/spec/v1\noid", "Git-LFS pointer"),
        "noise.pth": (bytes(range(7, 250)) * 40, "is not a checkpoint"),
        "zip.pth": (b"PK\x03\x04" + bytes(300), "truncated or damaged"),
        "pickle.pth": (
            pickle.dumps({"a": 1}),
            "holds no model|truncated or damaged|not a PyTorch|would run code",
        ),
        "evil.pth": (pickle.dumps(Evil()), "would run code"),
    }
    for name, (content, complaint) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=complaint):
            load_checkpoint(tmp_path / name)
    assert not (tmp_path / "evil-was-here").exists()
    with pytest.raises(InputError, match="is a folder"):
        load_checkpoint(tmp_path)


def test_torch_files_that_are_no_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = saved(tmp_path / "a.pth", outside()).read_bytes()
    (tmp_path / "cut.pth").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="truncated or damaged"):
        load_checkpoint(tmp_path / "cut.pth")
    for value, complaint in [
        ({"losses": torch.ones(3), "steps": [1, 2]}, "holds no model, only: losses, steps"),
        (torch.ones(3), "one tensor"),
        ([1, 2], "holds no model"),
        ({"one": outside(), "two": outside()}, "several models"),
        (Evil(), "would run code"),
    ]:
        with pytest.raises(InputError, match=complaint):
            load_checkpoint(saved(tmp_path / "b.pth", value))
    assert not (tmp_path / "evil-was-here").exists()


def test_hints_that_do_not_fit(tmp_path):
    path = saved(tmp_path / "a.pth", outside())
    with pytest.raises(InputError, match="--p 11 was given, but the model has 7 answers"):
        load_checkpoint(path, Hints(p=11))
    with pytest.raises(InputError, match="no variable pair"):
        load_checkpoint(path, Hints(never_left=3, never_right=3))


def test_released_checkpoint(reference):
    c = load_checkpoint(reference / "assign_and_add" / "checkpoint_step_10001.pth")
    assert sum(w.numel() for w in c.weights.values()) == 281_216
    assert c.meta["source"]["dropped"][0] == "blocks.0.mlp"
    assert (c.task.p, c.task.n_vars, c.task.length) == (59, 12, 16)
