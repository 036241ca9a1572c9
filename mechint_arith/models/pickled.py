"""Why `torch.load` refused a file, found by listing the instructions of its pickles: nothing in them runs."""

from __future__ import annotations

import pickle
import pickletools
import re
import zipfile
from dataclasses import dataclass
from typing import Any

from torch.serialization import MAGIC_NUMBER

SAVE = "write the model's state_dict() with torch.save"


@dataclass(frozen=True)
class Pickle:
    """What the instructions of one pickle say."""

    protocol: int
    first: object
    """The first value it makes."""
    objects: tuple[str, ...]
    """What it imports, as `module.name`."""


def list_pickle(stream: Any) -> Pickle | None:
    """Return what one pickle in a binary stream holds, or None where it breaks off or is no pickle."""
    protocol: int = 0
    first: object = None
    objects: list[str] = []
    texts: list[str] = []
    try:
        for instruction, value, _ in pickletools.genops(stream):
            if instruction.name == "PROTO":
                protocol = int(str(value))
            elif instruction.name in ("GLOBAL", "INST"):
                objects.append(str(value).replace(" ", "."))
            elif instruction.name == "STACK_GLOBAL":
                objects.append(".".join(texts[-2:]))
            elif isinstance(value, str):
                texts.append(value)
            if first is None and value is not None and instruction.name not in ("PROTO", "FRAME"):
                first = value
    except Exception:  # the lister raises whatever random bytes lead it to
        return None
    return Pickle(protocol, first, tuple(dict.fromkeys(objects)))


def why_refused(path: str, error: Exception) -> str:
    """Return, in words that follow the file's name, why `torch.load(path, weights_only=True)` raised `error`."""
    told = "" if isinstance(error, pickle.UnpicklingError) else f" ({_first_line(error)})"
    damaged = f"is truncated or damaged{told}"
    if named := re.search(r"GLOBAL (\S+) (?:was not|whose)", str(error)):
        return f"holds {_objects(named[1])}: save its state_dict() instead"
    if "TorchScript" in str(error):
        return f"is a TorchScript archive: {SAVE}"
    if zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                inside = [name for name in archive.namelist() if name.endswith("/data.pkl")]
                if not inside:
                    return f"is a ZIP archive, but no PyTorch file: {SAVE}"
                with archive.open(inside[0]) as stream:
                    found = list_pickle(stream)
        except Exception:  # a damaged archive, in any of many ways
            return damaged
    else:
        with open(path, "rb") as stream:
            found = list_pickle(stream)
        if found is not None and found.first != MAGIC_NUMBER:
            holding = f" of {_objects(', '.join(found.objects))}" if found.objects else ""
            return f"is no PyTorch file, but a plain pickle{holding}: {SAVE}"
    if found is not None and found.protocol > 3:
        return (
            f"was written with pickle protocol {found.protocol}: leave torch.save's own, which is 2"
        )
    return damaged


def _objects(names: str) -> str:
    return f"Python objects ({names:.80}), and reading them would run code"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
