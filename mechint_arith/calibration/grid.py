"""Which controls a calibration is made of: every kind on every base network, flags taken in turn."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mechint_arith.models.controls.flags import FORMS


@dataclass(frozen=True)
class Kind:
    """A row of the tables: how to build one control of this kind."""

    name: str
    """Family, such as `partial, random`; several settings may share it."""
    make: str
    """Function of `models.controls`, or `early`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_flag: bool = True
    """Whether it is gated by a flag, which then varies from base to base."""
    needs_donor: bool = False


SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
KINDS = (
    *(
        Kind("shared", "shared", {"disguise": d}, takes_flag=False)
        for d in ("permuted", "scaled", "halves")
    ),
    Kind("shared, unread flag", "shared"),
    Kind("shared, unread flag", "shared", {"disguise": "permuted", "flag_size": 30.0}),
    Kind("shared, unread flag", "partial", {"share": 1.0}),
    *(Kind("split", "split") for _ in range(3)),
    Kind("split", "split", {"scaled": True}),
    *(Kind("partial, random", "partial", {"share": f}) for f in SHARES),
    *(Kind("partial, random", "partial", {"share": f, "scaled": True}) for f in (0.35, 0.65)),
    *(
        Kind("partial, important", "partial", {"share": f, "choice": "important"})
        for f in (0.1, 0.25, 0.5, 0.75)
    ),
    *(
        Kind("partial, unimportant", "partial", {"share": f, "choice": "unimportant"})
        for f in (0.25, 0.5, 0.75)
    ),
    *(
        Kind("partial, half strength", "partial", {"share": 0.5, "choice": "strength", "scaled": s})
        for s in (False, True)
    ),
    *(
        Kind("partial, other strengths", "partial", {"share": f, "choice": "strength"})
        for f in (0.01, 0.25, 0.75)
    ),
    Kind("second algorithm, distilled", "second_algorithm"),
    Kind("second algorithm, distilled", "second_algorithm", {"share": 0.5}),
    *(
        Kind(
            "second algorithm, other frequencies",
            "second_algorithm",
            {"frequencies": 6, "share": f},
        )
        for f in (0.0, 0.5)
    ),
    Kind("transplanted", "transplanted", needs_donor=True),
    Kind("cancelling", "cancelling", takes_flag=False),
    Kind("cancelling", "cancelling"),
    Kind("attention adds", "attention_adds", {"mlp": "kept"}, takes_flag=False),
    Kind("attention adds", "attention_adds", {"mlp": "silent"}, takes_flag=False),
    Kind("leaky", "leaky", {"leak": 0.25}),
    Kind("early", "early", {"steps": 150}, takes_flag=False),
    Kind("untrained", "untrained", takes_flag=False),
)


@dataclass(frozen=True)
class Trial:
    """One control to be built and judged."""

    name: str
    """Unique, fit for a file name."""
    kind: str
    base: int
    """Which base network."""
    donor: int | None
    make: str
    options: Mapping[str, Any]
    seed: int
    """Of the surgery; the evidence's prompts use another one derived from it."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "options": dict(self.options)}


def trials(tasks: Sequence[Hashable], *, seed: int) -> list[Trial]:
    """Return every kind on every base; the i-th kind on base b gets flag number i + b.

    tasks: what each base network reads. A donor is the next base that reads the same; where there is none,
    kinds that need one are left out.
    """
    flags = tuple(FORMS)
    found: list[Trial] = []
    for base, task in enumerate(tasks):
        others = [(base + k) % len(tasks) for k in range(1, len(tasks))]
        donor = next((other for other in others if tasks[other] == task), None)
        for i, kind in enumerate(KINDS):
            if kind.needs_donor and donor is None:
                continue
            options = dict(kind.options)
            if kind.takes_flag:
                options["flag"] = flags[(i + base) % len(flags)]
            found.append(
                Trial(
                    name=f"base{base}-{i:02d}-{kind.make}",
                    kind=kind.name,
                    base=base,
                    donor=donor if kind.needs_donor else None,
                    make=kind.make,
                    options=options,
                    seed=seed + base * len(KINDS) + i,
                )
            )
    return found
