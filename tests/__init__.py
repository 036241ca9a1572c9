"""The type checker that annotations are held against while tests run: an int may stand for a float (PEP 484)."""

from typing import Any

from beartype import BeartypeConf, beartype

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
CHECK_THEMSELVES = {
    f"{name}.__init__"
    for name in (
        "ModelConfig",
        "Checkpoint",
        "Cell",
        "AssignAdd",
        "ModularTask",
        "DigitsTask",
        "Recipe",
        "DigitsRecipe",
    )
}
"""Constructors that tell a caller which field is of a wrong type (`mechint_arith.fields`); tests hand them some."""
ANNOTATED_FOR_TYPER = {"at_least.<locals>.check"}
"""Callbacks whose annotation tells typer what to pass, which then is a class of another name."""


def typechecked(function: Any) -> Any:
    """Hold a function's calls against its annotations."""
    left = CHECK_THEMSELVES | ANNOTATED_FOR_TYPER
    return function if function.__qualname__ in left else _checked(function)
