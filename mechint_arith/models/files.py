"""Open other people's model files safely: say what a file is, and find the tensors in it.

Pickles are read with `weights_only=True`, so nothing in them runs. What the tensors mean is decided in
`layouts`.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mechint_arith.errors import InputError

WRAPPERS = ("module.", "_orig_mod.")
ZIP, LFS = b"PK\x03\x04", b"version https://git-lfs"


def describe(path: str | os.PathLike[str]) -> str:
    """Return `safetensors` or `torch` for a file that may hold tensors.

    Raises `InputError` saying what the file is otherwise: missing, a folder, empty, an HTML page, a Git-LFS
    pointer, or no model file at all.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise InputError(f"{file} is a folder, not a checkpoint file")
        with open(file, "rb") as stream:
            head = stream.read(64)
    except FileNotFoundError:
        raise InputError(f"no such file: {file}") from None
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    if not head:
        raise InputError(f"{file} is empty: expected a checkpoint")
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        raise InputError(f"{file} is an HTML page, not a checkpoint: download the raw file")
    if text.startswith(LFS):
        raise InputError(f"{file} is a Git-LFS pointer: run `git lfs pull` to get the checkpoint")
    if head.startswith(ZIP) or head[:1] == b"\x80":
        return "torch"
    if head[8:9] == b"{":
        return "safetensors"
    raise InputError(
        f"{file} is not a checkpoint: expected a safetensors or PyTorch file, found other bytes"
    )


def read_tensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return name -> tensor of a model file, unwrapped from training dictionaries and name prefixes.

    Raises `InputError` where the file is damaged, would run code, or holds no model.
    """
    if describe(path) == "safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return without_prefixes(load_file(path), str(path))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is not a whole safetensors file: {error}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch warns of odd pickles; what is wrong is said below
            loaded = torch.load(path, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:
        if "weights only" in str(error).lower():
            raise InputError(
                f"{path} holds Python objects that would run code when read: save its state_dict() instead"
            ) from None
        raise InputError(f"{path} is truncated or damaged ({_first_line(error)})") from None
    except (RuntimeError, EOFError, ValueError, KeyError, IndexError, OSError) as error:
        raise InputError(f"{path} is truncated or damaged ({_first_line(error)})") from None
    except Exception as error:  # the unpickler raises whatever random bytes lead it to
        raise InputError(f"{path} is not a PyTorch file ({_first_line(error)})") from None
    return without_prefixes(_find_state_dict(loaded, path), str(path))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]


def _state_dicts(value: Any, name: str = "") -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Yield every nested dictionary that holds tensors by string keys."""
    if not isinstance(value, Mapping):
        return
    tensors = {k: v for k, v in value.items() if isinstance(k, str) and isinstance(v, Tensor)}
    if tensors:
        yield name, tensors
    for key, inner in value.items():
        yield from _state_dicts(inner, f"{name}.{key}" if name else str(key))


def _find_state_dict(loaded: Any, path: str | os.PathLike[str]) -> dict[str, Tensor]:
    if isinstance(loaded, Tensor):
        raise InputError(f"{path} holds one tensor, not a model")
    found = list(_state_dicts(loaded))
    models = [(name, tensors) for name, tensors in found if any("." in key for key in tensors)]
    if len(models) == 1:
        return models[0][1]
    if not models:
        for _, tensors in found:
            if sum(t.ndim >= 2 for t in tensors.values()) >= 2:
                names = ", ".join(list(tensors)[:6])
                raise InputError(f"{path} is a model without attention ({names}): none is read")
        keys = ", ".join(map(str, loaded)) if isinstance(loaded, Mapping) else type(loaded).__name__
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
