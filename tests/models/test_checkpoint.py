"""Our own checkpoint file: what goes in comes out, and a failed write loses nothing."""

import json

import pytest
import torch

from mechint_arith import files
from mechint_arith.errors import InputError
from mechint_arith.models import checkpoint as own
from mechint_arith.models.checkpoint import Checkpoint, read, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.models.load import load_checkpoint
from mechint_arith.tasks.assign_add import AssignAdd

TASK = AssignAdd(p=7, n_vars=3, length=9, never_left=1, never_right=1)
CONFIG = ModelConfig(
    d_vocab=len(TASK.vocab), d_vocab_out=7, n_ctx=9, d_model=8, d_head=4, d_mlp=(0, 12)
)


@pytest.fixture
def checkpoint() -> Checkpoint:
    return Checkpoint(CONFIG, initial_weights(CONFIG, 5), TASK, 12, 5, {"recipe": {"lr": 0.1}})


def test_round_trip(tmp_path, checkpoint):
    path = tmp_path / "folder" / "a.safetensors"
    save(path, checkpoint)
    back = read(path)
    assert (back.config, back.task, back.step, back.seed) == (CONFIG, TASK, 12, 5)
    assert back.meta["recipe"] == {"lr": 0.1}
    assert set(back.meta["versions"]) == {"mechint_arith", "python", "torch"}
    for name, w in checkpoint.weights.items():
        assert torch.equal(back.weights[name], w)


def test_float64_stays_float64(tmp_path, checkpoint):
    double = {name: w.double() for name, w in checkpoint.weights.items()}
    save(tmp_path / "a.safetensors", Checkpoint(CONFIG, double, TASK))
    assert read(tmp_path / "a.safetensors").weights["embed.W_E"].dtype == torch.float64


def test_a_full_disk_leaves_the_earlier_file_whole(tmp_path, checkpoint, monkeypatch):
    path = tmp_path / "a.safetensors"
    save(path, checkpoint)
    before = path.read_bytes()

    def no_space(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", no_space)
    with pytest.raises(
        InputError, match="No space left on device; an earlier file there is unchanged"
    ):
        save(path, checkpoint)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_kill_between_write_and_move_leaves_the_earlier_file_whole(
    tmp_path, checkpoint, monkeypatch
):
    path = tmp_path / "a.safetensors"
    save(path, checkpoint)
    before = path.read_bytes()

    def killed(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save(path, checkpoint)
    assert path.read_bytes() == before


def rewritten(path, change, turn=lambda tensors: None) -> None:
    """Save a checkpoint again with a changed header and other tensors."""
    from safetensors.torch import load_file, save_file

    header, tensors = own.read_header(path), load_file(path)
    text = change(header)
    turn(tensors)
    save_file(
        tensors, path, metadata={own.HEADER: text if isinstance(text, str) else json.dumps(header)}
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda h: h.update(format=99), "has format 99"),
        (lambda h: h.pop("task"), "header is damaged"),
        (lambda h: h["task"].update(p=1), "p must be at least 2"),
        (lambda h: h["task"].update(name="chess"), "unknown task 'chess'"),
        (lambda h: h["task"].update(colour=1), "unknown task options: colour"),
        (lambda h: h["task"].update(p=11), "model and task do not fit"),
        (lambda h: h["model"].update(d_model=9), r"embed.W_E is \[13, 8\], expected \[13, 9\]"),
        (lambda h: h["model"].update(extra=9), "header is damaged"),
        (lambda h: h["model"].update(n_layers=2.0), r"n_layers must be a whole number, not 2\.0"),
        (lambda h: h["model"].update(d_mlp=5), "d_mlp must be a list"),
        (lambda h: h["model"].update(causal=1), "causal must be true or false"),
        (lambda h: h["task"].update(p=7.0), r"p must be a whole number, not 7\.0"),
        (lambda h: h["task"].update(p=10**15), "do not fit|of memory"),
        (lambda h: h["task"].update(n_vars=10**9), "is damaged|of memory"),
        (lambda h: h.update(task={"name": "modular", "p": 10**9}), "is damaged|of memory"),
        (lambda h: h.update(task=[1]), "header is damaged"),
        (lambda h: h.update(model=None), "header is damaged"),
        (lambda h: h.update(step="ten"), "step must be a whole number or null, not 'ten'"),
        (lambda h: h.update(seed=1.5), r"seed must be a whole number or null, not 1\.5"),
        (lambda h: h.update(meta=[]), "meta must be Mapping"),
        (lambda h: "{", "header is damaged"),
        (lambda h: "[]", r"no JSON object, but \[\]"),
        (lambda h: "3", "no JSON object, but 3"),
        (lambda h: "[" * 100_000, "header is damaged"),
    ],
)
def test_damaged_headers_say_what_is_wrong(tmp_path, checkpoint, change, complaint):
    path = tmp_path / "a.safetensors"
    save(path, checkpoint)
    rewritten(path, change)
    for reader in (read, load_checkpoint):
        with pytest.raises(InputError, match=complaint) as caught:
            reader(path)
        assert str(caught.value).count(str(path)) == 1
        assert "\n" not in str(caught.value)


def put(name, tensor):
    return lambda tensors: tensors.update({name: tensor})


@pytest.mark.parametrize(
    ("turn", "complaint"),
    [
        (lambda t: t.pop("embed.W_E"), "missing embed.W_E"),
        (lambda t: t.pop("blocks.1.mlp.W_out"), "missing blocks.1.mlp.W_out"),
        (put("extra", torch.ones(2)), "unexpected extra"),
        (put("embed.W_E", torch.ones(13, 9)), r"embed.W_E is \[13, 9\], expected \[13, 8\]"),
        (put("embed.W_E", torch.ones(13, 8, dtype=torch.int8)), "torch.int8, expected real"),
        (put("embed.W_E", torch.ones(13, 8, dtype=torch.complex64)), "expected real numbers"),
        (put("embed.W_E", torch.full((13, 8), torch.nan)), "NaN or infinite weights"),
    ],
)
def test_damaged_tensors_say_what_is_wrong(tmp_path, checkpoint, turn, complaint):
    path = tmp_path / "a.safetensors"
    save(path, checkpoint)
    rewritten(path, lambda header: None, turn)
    with pytest.raises(InputError, match=complaint) as caught:
        read(path)
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize("dtypes", [(torch.bfloat16,), (torch.float16, torch.float32)])
def test_half_precision_becomes_single_and_no_weight_changes(tmp_path, checkpoint, dtypes):
    path = tmp_path / "a.safetensors"
    save(path, checkpoint)

    def halve(tensors):
        for i, name in enumerate(tensors):
            tensors[name] = tensors[name].to(dtypes[i % len(dtypes)])

    rewritten(path, lambda header: None, halve)
    back = read(path)
    assert {w.dtype for w in back.weights.values()} == {torch.float32}
    for i, (name, w) in enumerate(back.weights.items()):
        stored = checkpoint.weights[name].to(dtypes[i % len(dtypes)])
        assert torch.equal(w, stored.float()) or len(dtypes) > 1
    assert back.file == str(path)


def test_nan_weights_are_refused(tmp_path, checkpoint):
    weights = dict(checkpoint.weights)
    weights["unembed.W_U"] = torch.full_like(weights["unembed.W_U"], torch.nan)
    save(tmp_path / "a.safetensors", Checkpoint(CONFIG, weights, TASK))
    with pytest.raises(InputError, match=r"NaN or infinite weights in unembed\.W_U"):
        read(tmp_path / "a.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 200, 3000])
def test_truncated_files_are_refused(tmp_path, checkpoint, keep):
    path = tmp_path / "a.safetensors"
    save(path, checkpoint)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError):
        load_checkpoint(path)
