"""How much memory there is, so that work which cannot fit is refused before it begins.

How much some work needs is said where that work is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

CONTROL_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Files of a container's limit and of what it uses, in bytes."""


def free() -> int | None:
    """Return the bytes that this process can still take; None where the system does not say."""
    return min(_limits(), default=None)


def _limits() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024 * int(line.split()[1])
    for limit, usage in CONTROL_GROUPS:
        with contextlib.suppress(OSError, ValueError):  # no such group, or no limit
            yield int(Path(limit).read_text()) - int(Path(usage).read_text())


def shortage(needed: int) -> str | None:
    """Return `about 3,200 GB of memory, but 21 GB are free`, or None where so many bytes are free."""
    there = free()
    if there is None or needed <= there:
        return None
    return f"about {_gigabytes(needed)} of memory, but {_gigabytes(there)} are free"


def _gigabytes(amount: int) -> str:
    value = Decimal(int(amount)) / 10**9
    style = ".1f" if value < 10 else ",.0f" if value < 10**6 else ".1e"
    return f"{value:{style}} GB"


def is_shortage(error: BaseException) -> bool:
    """Return whether an error says that there was no memory left, here or on a device."""
    words = ("allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)
