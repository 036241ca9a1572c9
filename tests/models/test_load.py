"""Outside files: what is read, and the one line in which everything else is refused."""

import argparse
import os
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
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
        "numbers.pth": (pickle.dumps([1, 2]), r"is no PyTorch file, but a plain pickle: write"),
        "old.pth": (pickle.dumps([1], protocol=2), r"is no PyTorch file, but a plain pickle: "),
        "cut.pth": (pickle.dumps(list(range(999)))[:500], r"is truncated or damaged$"),
        "bytes.pth": (b"\x80\x02" + bytes(range(255, 1, -1)), "is truncated or damaged"),
        "array.pth": (pickle.dumps(np.ones(2)), r"plain pickle of Python objects \(numpy.*ndarray"),
        "evil.pth": (pickle.dumps(Evil()), r"plain pickle of .*\(posix\.system\).*would run code"),
    }
    for name, (content, complaint) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=complaint) as caught:
            load_checkpoint(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
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


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("keep", [0.1, 0.25, 0.5, 0.99])
def test_truncated_torch_files_say_so(tmp_path, zipped, keep):
    torch.save(outside(), tmp_path / "a.pth", _use_new_zipfile_serialization=zipped)
    whole = (tmp_path / "a.pth").read_bytes()
    (tmp_path / "a.pth").write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(InputError, match=r"a\.pth is truncated or damaged"):
        load_checkpoint(tmp_path / "a.pth")


@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_refuses_is_said_as_it_is(tmp_path, zipped):
    cases = [
        (
            {"model": outside(), "args": argparse.Namespace(lr=1)},
            {},
            r"objects \(argparse.Namespace",
        ),
        ({"model": outside(), "evil": Evil()}, {}, r"objects \(posix.system\)"),
        (outside(), {"pickle_protocol": 4}, "written with pickle protocol 4"),
    ]
    for value, options, complaint in cases:
        torch.save(value, tmp_path / "a.pth", _use_new_zipfile_serialization=zipped, **options)
        with pytest.raises(InputError, match=complaint):
            load_checkpoint(tmp_path / "a.pth")
    with zipfile.ZipFile(tmp_path / "a.pth", "w") as archive:
        archive.writestr("a/readme.txt", "hello")
    with pytest.raises(InputError, match="a ZIP archive, but no PyTorch file"):
        load_checkpoint(tmp_path / "a.pth")


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (lambda w: w.to("meta"), r"meta \(empty\)"),
        (lambda w: w.to_sparse(), "sparse"),
        (lambda w: w.to_sparse_csr(), "sparse"),
        (lambda w: torch.quantize_per_tensor(w, 0.1, 0, torch.qint8), "quantised"),
        (lambda w: torch.nested.nested_tensor(list(w)), "nested"),
    ],
    ids=["meta", "coo", "csr", "quantised", "nested"],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_a_number_per_entry_are_refused(tmp_path, turn, kind):
    tensors = outside()
    tensors["embed.W_E"] = turn(tensors["embed.W_E"])
    with pytest.raises(InputError, match=f"embed.W_E is a {kind} tensor, expected a dense one"):
        load_checkpoint(saved(tmp_path / "a.pth", tensors))


def test_parameters_are_read_as_plain_tensors(tmp_path):
    tensors = {k: torch.nn.Parameter(v) for k, v in outside().items()}
    c = load_checkpoint(saved(tmp_path / "a.pth", tensors))
    assert not any(w.requires_grad for w in c.weights.values())


def test_dictionaries_that_hold_themselves_or_lie_deep(tmp_path):
    tensors = outside()
    tensors["self"] = tensors
    assert load_checkpoint(saved(tmp_path / "a.pth", tensors)).config == CONFIG
    torch.save({}, tmp_path / "deep.pth")
    with zipfile.ZipFile(tmp_path / "deep.pth") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    deep = 50_000
    parts["deep/data.pkl"] = b"\x80\x02" + b"}U\x01a" * deep + b"}" + b"s" * deep + b"."
    with zipfile.ZipFile(tmp_path / "deep.pth", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match=r"deep.pth holds no model, only: a"):
        load_checkpoint(tmp_path / "deep.pth")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (without("blocks.0.mlp.W_out"), "missing blocks.0.mlp.W_out"),
        (without("blocks.0.mlp.W_in"), "missing blocks.0.mlp.W_in"),
        (
            put("blocks.0.mlp.W_out", torch.zeros(12, 9)),
            r"blocks.0.mlp.W_out \[12, 9\] does not fit",
        ),
        (without("blocks.0.mlp.b_in"), "missing blocks.0.mlp.b_in"),
        (without("blocks.1.mlp.b_out"), "missing blocks.1.mlp.b_out"),
        (without("blocks.0.attn.b_K"), "missing blocks.0.attn.b_K"),
        (put("blocks.1.attn.b_O", torch.zeros(9)), r"b_O is \[9\], expected \[8\]"),
        (put("blocks.1.attn.b_Q", torch.zeros(4)), r"b_Q is \[4\], expected \[1, 4\]"),
        (put("unembed.b_U", torch.zeros(8)), r"b_U is \[8\], expected \[7\]"),
        (put("blocks.0.mlp.b_in", torch.zeros(())), r"b_in is \[\], expected \[12\]"),
        (put("blocks.0.mlp.W_gate", torch.zeros(8, 12)), "unexpected blocks.0.mlp.W_gate"),
        (put("blocks.0.attn.b_X", torch.zeros(2)), "unexpected blocks.0.attn.b_X"),
        (put("blocks.99999999999.attn.W_Q", torch.zeros(1, 8, 4)), "unexpected blocks.99999999999"),
    ],
)
def test_zeros_that_are_left_out_have_to_be_whole(tmp_path, change, complaint):
    """Ours leave a layer's MLP of zeros and biases of zeros out, but a damaged file is no smaller model."""
    tensors = outside()
    change(tensors)
    with pytest.raises(InputError, match=complaint) as caught:
        load_checkpoint(saved(tmp_path / "a.pth", tensors))
    assert str(tmp_path / "a.pth") in str(caught.value)


@pytest.mark.parametrize("family", ["attn.b_", "mlp.b_", "b_U"])
def test_files_without_a_whole_family_of_biases_are_read(tmp_path, family):
    tensors = {k: v for k, v in outside().items() if family not in k}
    assert load_checkpoint(saved(tmp_path / "a.pth", tensors)).config == CONFIG


def test_only_regular_files_are_opened(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.pth")
    os.symlink("/dev/zero", tmp_path / "zero.pth")
    os.symlink(tmp_path / "nowhere", tmp_path / "link.pth")
    cases = [
        ("pipe.pth", "is a pipe or a device"),
        ("zero.pth", "is a pipe or a device"),
        ("link.pth", "no such file"),
        ("n" * 999, "File name too long"),
        ("null\0byte", "cannot read"),
    ]
    for name, complaint in cases:
        with pytest.raises(InputError, match=complaint):
            load_checkpoint(tmp_path / name)
    with pytest.raises(InputError, match="is a pipe or a device"):
        load_checkpoint(saved(tmp_path / "a.pth", outside()), Hints(config=tmp_path / "pipe.pth"))


@pytest.mark.parametrize(
    "hints",
    [
        Hints(p=11),
        Hints(task="digits"),
        Hints(layout="sideways"),
        Hints(attn_coeff=2.0),
        Hints(attn_coeff=0.5),
        Hints(train_share=2.0),
        Hints(never_left=9),
        Hints(task="modular", op="pow"),
        Hints(task="modular", p=3),
        Hints(op="mul"),
    ],
)
def test_every_fault_names_the_file_once(tmp_path, hints):
    path = saved(tmp_path / "a.pth", outside())
    with pytest.raises(InputError) as caught:
        load_checkpoint(path, hints)
    assert str(caught.value).count(str(path)) == 1
    assert "\n" not in str(caught.value)
