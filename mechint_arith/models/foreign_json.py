"""The JSON that lies beside an outside file and says what its tensors cannot.

Only what is known is taken: the operation's text is matched, never evaluated, and what contradicts the shapes is
refused by whoever compares them. Keys of two families: Zhong et al. 2023 (`funcs`, `C`, `attn_coeff`,
`diff_vocab`, `eqn_sign`, `frac`) and Chughtai et al. 2023 (`group`, `group_parameter`, `frac_train`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mechint_arith.errors import InputError, naming
from mechint_arith.models.files import require_regular

SIGNS = {"+": "add", "-": "sub", "*": "mul"}
SIZES = ("n_heads", "d_model", "n_layers")


@dataclass(frozen=True)
class Stated:
    """What a configuration says; None where it does not."""

    file: str | None = None
    """Its name."""
    attn_coeff: float | None = None
    """c of pattern = c * softmax + (1 - c)."""
    op: str | None = None
    p: int | None = None
    diff_vocab: bool | None = None
    """Whether the second operand is token p + b."""
    equals: bool | None = None
    """Whether a closing `=` exists (`eqn_sign`)."""
    train_share: float | None = None
    act_fn: str | None = None
    sizes: Mapping[str, int] | None = None
    """Of `n_heads`, `d_model`, `n_layers` those that are given."""

    @property
    def modular(self) -> bool:
        """Whether it describes modular arithmetic."""
        return self.op is not None or self.p is not None


def beside(path: Path) -> Path | None:
    """Return the JSON of a checkpoint: `config_ID.json` for `model_ID.pt`, else `STEM.json` for `STEM.pt`."""
    names = [f"{path.stem}.json"]
    if path.stem.startswith("model_"):
        names.insert(0, f"config_{path.stem.removeprefix('model_')}.json")
    return next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)


def read_stated(path: Path, *, op: str | None = None) -> Stated:
    """Read a configuration; op: the operation where the user says it, so that its text is not needed.

    Raises `InputError` where it is no JSON object or says what cannot be.
    """
    require_regular(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} should hold a JSON object; got {type(values).__name__}")
    with naming(path):
        return _stated(values, path.name, op)


def _stated(values: Mapping[str, Any], name: str, said: str | None) -> Stated:
    coefficient = _number(values, "attn_coeff")
    if coefficient is not None and not 0 <= coefficient <= 1:
        raise InputError(f"attn_coeff lies between 0 and 1; got {coefficient}")
    op, p = None, _whole(values, "C")
    if said is None and (text := values.get("funcs")) is not None:
        op, modulus = operation(text)
        if p is not None and modulus != p:
            raise InputError(f"funcs counts modulo {modulus}, but C is {p}")
        p = modulus
    if (group := values.get("group")) is not None:
        if group != "CyclicGroup":
            raise InputError(f"the group is {group!r}: only CyclicGroup is modular addition")
        op, p = "add", _whole(values, "group_parameter")
    if p is not None and p < 2:
        raise InputError(f"the modulus is at least 2; got {p}")
    activation = values.get("act_fn")
    if activation is not None and str(activation).lower() not in ("relu", "gelu"):
        raise InputError(f"act_fn {activation!r} is not computed here: expected ReLU or GeLU")
    share = _number(values, "frac" if "frac" in values else "frac_train")
    return Stated(
        file=name,
        attn_coeff=coefficient,
        op=op,
        p=p,
        diff_vocab=_flag(values, "diff_vocab"),
        equals=_flag(values, "eqn_sign"),
        train_share=share if share is not None and 0 < share < 1 else None,
        act_fn=None if activation is None else str(activation).lower(),
        sizes={key: size for key in SIZES if (size := _whole(values, key)) is not None},
    )


def operation(text: Any) -> tuple[str, int]:
    """Return operation and modulus of `lambda x: (x[0]+x[1])%59`, told by its text.

    Raises `InputError` for any other text; nothing is evaluated.
    """
    written = re.sub(r"\s+", "", str(text))
    for pattern in (
        r"\(x\[([01])\]([-+*])x\[([01])\]\)%(\d+)",
        r"x\[([01])\](\*)x\[([01])\]%(\d+)",
    ):
        if found := re.fullmatch("lambdax:" + pattern, written):
            first, sign, second, modulus = found.groups()
            if first != second and (sign != "-" or first == "0"):
                return SIGNS[sign], int(modulus)
    raise InputError(
        f"funcs {str(text)[:60]!r} is not read: expected the text lambda x: (x[0]+x[1])%p with +, - or *; or say --op"
    )


def _number(values: Mapping[str, Any], key: str) -> float | None:
    value = values.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{key} should be a number; got {value!r}")
    return float(value)


def _whole(values: Mapping[str, Any], key: str) -> int | None:
    value = _number(values, key)
    if value is not None and value != int(value):
        raise InputError(f"{key} should be a whole number; got {value}")
    return None if value is None else int(value)


def _flag(values: Mapping[str, Any], key: str) -> bool | None:
    value = values.get(key)
    if value is not None and value not in (0, 1):
        raise InputError(f"{key} should be true or false; got {value!r}")
    return None if value is None else bool(value)
