"""Open other people's model files safely: say what a file is, and find the tensors in it.

Pickles are read with `weights_only=True`, so nothing in them runs. What the tensors mean is decided in
`layouts`.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mechint_arith.errors import InputError
from mechint_arith.models.pickled import why_refused

WRAPPERS = ("module.", "_orig_mod.")
ZIP, LFS = b"PK\x03\x04", b"version https://git-lfs"


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` where there is no regular file: a folder, a pipe or a device may never end."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder, not a file: name one file in it")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is a pipe or a device: expected a regular file")


def describe(path: str | os.PathLike[str]) -> str:
    """Return `safetensors` or `torch` for a file that may hold tensors.

    Raises `InputError` saying what the file is otherwise: missing, a folder, empty, an HTML page, a Git-LFS
    pointer, or no model file at all.
    """
    require_regular(path)
    try:
        with open(path, "rb") as stream:
            head = stream.read(64)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not head:
        raise InputError(f"{path} is empty: expected a checkpoint")
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        raise InputError(f"{path} is an HTML page, not a checkpoint: download the raw file")
    if text.startswith(LFS):
        raise InputError(f"{path} is a Git-LFS pointer: run `git lfs pull` to get the checkpoint")
    if head.startswith(ZIP) or head[:1] == b"\x80":
        return "torch"
    if head[8:9] == b"{":
        return "safetensors"
    raise InputError(
        f"{path} is not a checkpoint: expected a safetensors or PyTorch file, found other bytes"
    )


def read_tensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return name -> tensor of a model file, unwrapped from training dictionaries and name prefixes.

    Raises `InputError` where the file is damaged, would run code, or holds no model or no plain tensors.
    """
    if describe(path) == "safetensors":
        return without_prefixes(read_safetensors(path), str(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch warns of odd pickles; what is wrong is said below
            loaded = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # the unpickler raises whatever random bytes lead it to
        raise InputError(f"{path} {why_refused(os.fspath(path), error)}") from None
    tensors = _find_state_dict(loaded, path)
    for name, tensor in tensors.items():
        if kind := _unusual(tensor):
            raise InputError(f"{path}: {name} is a {kind} tensor, expected a dense one")
    return without_prefixes(tensors, str(path))


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return name -> tensor of a safetensors file. Raises `InputError` where it is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {error}") from error
    except (KeyError, AttributeError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} has a number type that is not read: {error}") from error


def as_float(tensors: Mapping[str, Tensor], where: str) -> tuple[dict[str, Tensor], str]:
    """Cast weights to float32 (float64 stays) and return them with the stored dtype's name."""
    kinds = {t.dtype for t in tensors.values()}
    if bad := [k for k, t in tensors.items() if not t.is_floating_point()]:
        raise InputError(f"{where}: {bad[0]} is {tensors[bad[0]].dtype}, expected real numbers")
    target = torch.float64 if torch.float64 in kinds else torch.float32
    names = sorted(str(kind).removeprefix("torch.") for kind in kinds)
    return {k: t.detach().to(target).contiguous() for k, t in tensors.items()}, "+".join(names)


def _unusual(tensor: Tensor) -> str | None:
    """Return what kind of tensor this is if not every entry has its own number in memory."""
    if tensor.is_meta:
        return "meta (empty)"
    if tensor.is_quantized:
        return "quantised"
    if tensor.is_nested:
        return "nested"
    return None if tensor.layout == torch.strided else "sparse"


def _state_dicts(value: Any) -> list[tuple[str, dict[str, Tensor]]]:
    """Return every nested dictionary that holds tensors by string keys, each once, with its name."""
    found: list[tuple[str, dict[str, Tensor]]] = []
    waiting, met = [("", value)], set()
    while waiting:
        name, inner = waiting.pop()
        if not isinstance(inner, Mapping) or id(inner) in met:
            continue
        met.add(id(inner))
        tensors = {k: v for k, v in inner.items() if isinstance(k, str) and isinstance(v, Tensor)}
        if tensors:
            found.append((name, tensors))
        below = [(f"{name}.{_shown(k)}"[-200:].lstrip("."), v) for k, v in inner.items()]
        waiting += reversed(below)
    return found


def _shown(key: Any) -> str:
    return key if isinstance(key, str) else type(key).__name__


def _find_state_dict(loaded: Any, path: str | os.PathLike[str]) -> dict[str, Tensor]:
    if isinstance(loaded, Tensor):
        raise InputError(f"{path} holds one tensor, not a model")
    found = _state_dicts(loaded)
    models = [(name, tensors) for name, tensors in found if any("." in key for key in tensors)]
    if len(models) == 1:
        return models[0][1]
    if not models:
        for _, tensors in found:
            if sum(t.ndim >= 2 for t in tensors.values()) >= 2:
                names = ", ".join(list(tensors)[:6])
                raise InputError(f"{path} is a model without attention ({names}): none is read")
        keys = (
            ", ".join(map(_shown, loaded)) if isinstance(loaded, Mapping) else type(loaded).__name__
        )
        raise InputError(f"{path} holds no model, only: {keys[:200]}")
    for wanted in ("model", "state_dict", "model_state_dict"):
        for name, tensors in models:
            if name == wanted:
                return tensors
    names = ", ".join(name or "the top level" for name, _ in models)
    raise InputError(f"{path} holds several models ({names}): save one of them by itself")


def without_prefixes(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Strip `module.` and `_orig_mod.` from every name, in any nesting.

    Raises `InputError` where only some names carry a prefix: the file then mixes two models.
    """
    result = dict(tensors)
    for prefix in WRAPPERS * 4:
        having = [key for key in result if key.startswith(prefix)]
        if having and len(having) < len(result):
            bare = next(key for key in result if not key.startswith(prefix))
            raise InputError(
                f"{where}: some names begin with {prefix!r} ({having[0]}) and some do not ({bare});"
                " expected one model"
            )
        if having:
            result = {key.removeprefix(prefix): value for key, value in result.items()}
    return result
