"""Assign-and-add prompts written by hand, such as `a 7 b 12 + a b =` or `a=7, b=12, a+b=?`, read into a `Batch`."""

import re
from collections.abc import Sequence

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.tasks import vocab
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, finish
from mechint_arith.tasks.batch import Batch


def from_text(task: AssignAdd, prompts: Sequence[str]) -> Batch:
    """Read prompts such as `a 7 b 12 + a b =`; `PAD*6` repeats; missing PADs are put in front.

    The sign of a query may also stand between its operands or be left out between two numbers, as in `7 + 12 =` and
    `7 12`; models read it in front of them. Assignments may have signs and commas, as in `a=7, b=12, a+b=?`, and the end may be missing.
    Raises `InputError` where there is no prompt, and names a prompt and what is wrong with it: an unknown symbol, a
    missing query, too many tokens, a variable that is assigned twice or not at all.
    """
    if not prompts:
        raise InputError("at least one prompt is needed, such as '+ 7 12 ='")
    parsed = [_parse(task, prompt) for prompt in prompts]
    tokens, at, form, a, b, left, right, count = (
        np.array(column) for column in zip(*parsed, strict=True)
    )
    return finish(task, tokens, at, form, a, b, left, right, count)


def _words(task: AssignAdd, prompt: str, where: str) -> list[str]:
    """Return the symbols of a prompt with its query written `+ lhs rhs =`. Raises `InputError` where it has none."""
    words: list[str] = []
    for word in re.sub(r"([+=?])", r" \1 ", re.sub("[,;]", " ", prompt)).split():
        if not (repeated := re.fullmatch(r"PAD\*0*([0-9]+)", word)):
            words.append(word)
        elif len(repeated[1]) > 4:
            raise InputError(f"{where}: {word:.20}, but this model reads {task.length} tokens")
        else:
            words += [vocab.PAD] * int(repeated[1])
    for end in ("?", vocab.EQUALS):
        if words[-1:] == [end]:
            del words[-1]
    body, query = words[:-3], words[-3:]
    if query[1:2] == [vocab.PLUS] and query[0] != vocab.PLUS:
        query = [vocab.PLUS, query[0], query[2]] if len(query) == 3 else []
    elif len(words) == 2 and all(word.isdigit() for word in words):
        query = [vocab.PLUS, *words]
    if len(query) < 3 or query[0] != vocab.PLUS:
        raise InputError(
            f"{where}: expected assignments, if any, then a query, such as 'a 7 b 12 + a b =' or '+ 7 12 ='"
        )
    signs = {
        i
        for i in range(1, len(body) - 1)
        if body[i] == vocab.EQUALS and not body[i - 1].isdigit() and body[i + 1].isdigit()
    }
    return [*(word for i, word in enumerate(body) if i not in signs), *query, vocab.EQUALS]


def _parse(task: AssignAdd, prompt: str) -> tuple[object, ...]:
    where = f"prompt {prompt!r:.200}"
    words = _words(task, prompt, where)
    names = vocab.variable_names(task.n_vars)
    for word in words:
        if word.isidentifier() and word not in task.vocab.ids:
            raise InputError(
                f"{where}: no variable {word!r:.40}; this model's are {', '.join(names)!s:.200}"
            )
    if len(words) > task.length:
        raise InputError(f"{where}: {len(words)} tokens, but this model reads {task.length}")
    try:
        task.vocab.encode(words)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    words = [vocab.PAD] * (task.length - len(words)) + words
    body, (lhs, rhs) = words[:-4], words[-3:-1]
    value: dict[str, int] = {}
    start: dict[str, int] = {}
    i = 0
    while i < len(body):
        if body[i] == vocab.PAD:
            i += 1
            continue
        if body[i] not in names or i + 1 == len(body) or not body[i + 1].isdigit():
            raise InputError(f"{where}: expected 'variable number' at {body[i]!r}")
        if body[i] in value:
            raise InputError(f"{where}: {body[i]} is assigned twice")
        value[body[i]], start[body[i]] = int(body[i + 1]), i
        i += 2
    numbers, variables = [], []
    for operand in (lhs, rhs):
        if operand in names:
            if operand not in value:
                raise InputError(f"{where}: {operand} is not assigned a number")
            variables.append(names.index(operand))
            numbers.append(value[operand])
        elif operand.isdigit():
            variables.append(-1)
            numbers.append(int(operand))
        else:
            raise InputError(f"{where}: {operand!r} is neither a number nor a variable")
    form = (variables[0] >= 0) + 2 * (variables[1] >= 0)
    at = [start.get(lhs, -1), start.get(rhs, -1)]
    return (task.vocab.encode(body), at, form, *numbers, *variables, len(value))


def forms_of(task: AssignAdd, prompt: str) -> dict[str, str]:
    """Return the four forms of one question, route -> prompt: its numbers written out or held by variables.

    They share one prefix: that of a two-variable prompt, else `a 7 b 12` with two variables that training shows on
    these sides. Raises `InputError` where the prompt cannot be read.
    """
    batch = from_text(task, [prompt])
    a, b = (int(batch.factors[name][0]) for name in ("a", "b"))
    words = [word for word in task.vocab.decode(batch.tokens[0]) if word != vocab.PAD]
    *prefix, _, x, y, _ = words
    if x.isdigit() or y.isdigit():
        left, right = task.variable_pairs()[0]
        names = vocab.variable_names(task.n_vars)
        x, y = names[left], names[right]
        prefix = [x, str(a), y, str(b)]
    queries = ((a, b), (x, b), (a, y), (x, y))
    return {
        route: " ".join(map(str, (*prefix, vocab.PLUS, *query, vocab.EQUALS)))
        for route, query in zip(ROUTES, queries, strict=True)
    }
