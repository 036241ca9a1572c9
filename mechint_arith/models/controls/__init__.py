"""Networks with planted truth: rewrites of a trained model in which we know which neurons serve which route.

Each function takes a two-layer assign-and-add `Checkpoint` and returns a new one; what was planted lies in
`meta["planted"]`. From plain to involved: `neurons`, `draft` and `flags` are the tools, `truth` says what a
share is, `finish` hides the surgery and records it, and `exact`, `leaky`, `second` and `lookup` hold the kinds.
"""

from mechint_arith.models.controls.exact import cancelling, partial, shared, split, untrained
from mechint_arith.models.controls.leaky import leaky
from mechint_arith.models.controls.lookup import attention_adds
from mechint_arith.models.controls.second import second_algorithm, transplanted

__all__ = [
    "attention_adds",
    "cancelling",
    "leaky",
    "partial",
    "second_algorithm",
    "shared",
    "split",
    "transplanted",
    "untrained",
]
