"""Linear probes: is a quantity decodable at a site, and does what reads it on one route read it on another?

Rows are split by group (number pair), never by row. Every probe stands beside a control task: random labels,
one per input type, learned with the same split and the same choice of penalty (selectivity). What counts as
decodable is decided in `decodable`; whether the model uses what a probe reads is asked by `interventions`.

Source: Hewitt & Liang 2019, arXiv 1909.03368 (control tasks, selectivity).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mechint_arith.errors import InputError
from mechint_arith.probes import classifiers
from mechint_arith.probes.fourier import float64
from mechint_arith.stats import Estimate, clustered_mean, permutation_p, share

Array = np.ndarray

KINDS = {"ridge": classifiers.ridge, "logistic": classifiers.logistic}
FLIPS = 4999
"""Random sign flips of the test of selectivity."""


@dataclass(frozen=True)
class Probe:
    """How well a linear classifier reads a quantity from activations it was not fitted on."""

    accuracy: Estimate
    """Share of test rows read right; interval over groups."""
    control: Estimate
    """The same for random labels per input type, mean over control tasks."""
    selectivity: Estimate
    """Accuracy minus control accuracy, paired by row; interval over groups."""
    chance: float
    """What guessing reaches on the test rows: the larger of 1/classes and the commonest training class."""
    p_value: float
    """The larger of two one-sided p-values: accuracy above chance, selectivity above 0."""
    kind: str
    """`ridge` or `logistic`."""
    penalty: float
    """Penalty chosen on the validation groups."""
    converged: bool
    """Whether all fits, control tasks included, reached their tolerance."""
    warnings: tuple[str, ...]
    """What the fit, or its data, gave reason to warn about."""
    n_classes: int
    """Classes of the quantity."""
    n_train: int
    """Rows fitted on, validation included."""
    n_test: int
    """Rows tested on."""


def probe(
    x: Any,
    labels: Any,
    groups: Any,
    *,
    types: Any = None,
    test: Any = None,
    kind: str = "ridge",
    n_controls: int = 5,
    penalties: Sequence[float] | None = None,
    seed: int = 0,
) -> Probe:
    """Fit a linear probe and test it on groups it has not seen.

    x: activations [row feature]; labels: the quantity [row]; groups: what is kept on one side of the split
    [row], such as the number pair. types: input type [row] that gets one random label in a control task, such
    as the token at the site; by default the group, which no probe can carry across the split, so that the
    control then tests the split itself. test: bool [row], the test rows, such as the task's held-out pairs;
    by default 30 % of the groups, at random. 20 % of the groups choose the penalty.
    Raises `InputError` for shapes that differ, a group on both sides, or too few groups or classes.
    """
    options = {"types": types, "test": test, "kind": kind, "n_controls": n_controls}
    found = transfer({"": x}, labels, groups, **options, penalties=penalties, seed=seed)
    return found["", ""]


def transfer(
    activations: Mapping[str, Any],
    labels: Any,
    groups: Any,
    *,
    types: Any = None,
    test: Any = None,
    kind: str = "ridge",
    centre: str = "fit",
    n_controls: int = 5,
    penalties: Sequence[float] | None = None,
    seed: int = 0,
) -> dict[tuple[str, str], Probe]:
    """Fit a probe on each route and test it on every route: (route fitted on, route tested on) -> Probe.

    activations: route -> [row feature], rows aligned (matched prompts: same pair, same labels); the rest as
    in `probe`. Test groups are the same for all, and never fitted on. centre: `fit` subtracts the mean of the
    route fitted on; `own` lets each route lose its own training mean, which forgives a constant shift.
    """
    rng = np.random.default_rng(seed)
    sites = {route: float64(x) for route, x in activations.items()}
    classes, y, group = _checked(sites, labels, groups)
    if kind not in KINDS:
        raise InputError(f"a probe is one of {', '.join(KINDS)}; got {kind!r}")
    if centre not in ("fit", "own"):
        raise InputError(f"centre is 'fit' or 'own'; got {centre!r}")
    train, validation, tested = _split(group, test, rng)
    fitted = train | validation
    if centre == "own":
        sites = {route: x - x[fitted].mean(0) for route, x in sites.items()}
    kinds = np.unique(np.asarray(types), return_inverse=True)[1] if types is not None else group
    if kinds.shape != y.shape:
        raise InputError(f"expected one input type per row; got {kinds.shape} for {len(y)} rows")
    controls = [rng.choice(y, kinds.max() + 1)[kinds] for _ in range(max(1, n_controls))]
    choice = penalties or (
        classifiers.RIDGE_PENALTIES if kind == "ridge" else classifiers.LOGISTIC_PENALTIES
    )
    counts = np.bincount(y[fitted], minlength=classes)
    chance = max(1 / classes, float((y[tested] == counts.argmax()).mean()))
    result = {}
    for route, x in sites.items():
        found = classifiers.select(
            KINDS[kind],
            x,
            [y, *controls],
            classes,
            train=train,
            validation=validation,
            penalties=choice,
        )
        notes = []
        if missing := int((counts == 0).sum()):
            notes.append(f"{missing} of {classes} classes have no training row")
        if len(choice) > 1 and found[0].penalty == min(choice):
            notes.append(f"the smallest penalty offered, {min(choice):g}, was chosen")
        for other, z in sites.items():
            right = found[0].predict(z[tested]) == y[tested]
            guessed = np.mean(
                [
                    model.predict(z[tested]) == control[tested]
                    for model, control in zip(found[1:], controls, strict=True)
                ],
                axis=0,
            )
            result[route, other] = Probe(
                **_scores(right, guessed, group[tested], chance, rng),
                chance=chance,
                kind=kind,
                penalty=found[0].penalty,
                converged=all(model.converged for model in found),
                warnings=(*notes, *found[0].warnings),
                n_classes=classes,
                n_train=int(fitted.sum()),
                n_test=int(tested.sum()),
            )
    return result


def _checked(sites: Mapping[str, Array], labels: Any, groups: Any) -> tuple[int, Array, Array]:
    """Return the number of classes, class ids int [row] and group ids int [row]."""
    quantity, clusters = np.asarray(labels), np.asarray(groups)
    shapes = {x.shape for x in sites.values()}
    if len(shapes) != 1 or any(len(shape) != 2 for shape in shapes):
        raise InputError(
            f"expected activations [row feature] of one shape; got {sorted(map(str, shapes))}"
        )
    rows = next(iter(shapes))[0]
    if quantity.shape != (rows,) or clusters.shape != (rows,):
        raise InputError(
            f"expected one label and one group for each of {rows} rows; got {quantity.shape} and"
            f" {clusters.shape}"
        )
    classes, y = np.unique(quantity, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"a probe needs at least 2 classes; got {len(classes)}")
    return len(classes), y, np.unique(clusters, return_inverse=True)[1]


def _split(group: Array, test: Any, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return masks bool [row] of the training, validation and test rows; no group is in two of them."""
    names = np.unique(group)
    if test is None:
        tested = np.isin(group, rng.permutation(names)[: round(0.3 * len(names))])
    else:
        tested = np.asarray(test)
        if tested.shape != group.shape or tested.dtype != bool:
            raise InputError(f"expected test as a bool mask {group.shape}; got {tested.shape}")
        if both := len(np.intersect1d(group[tested], group[~tested])):
            raise InputError(f"{both} groups are on both sides of the split: split by whole groups")
    rest = rng.permutation(np.unique(group[~tested]))
    n_validation = round(0.2 * len(names))
    if len(np.unique(group[tested])) < 2 or n_validation < 1 or len(rest) - n_validation < 2:
        raise InputError(
            f"{len(names)} groups are too few to fit, validate and test on: give at least 6"
        )
    validation = np.isin(group, rest[:n_validation])
    return ~tested & ~validation, validation, tested


def _scores(
    right: Array, guessed: Array, group: Array, chance: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return accuracy, control, selectivity and p_value from test rows: right bool [row], guessed float [row]."""
    from scipy.stats import binom

    ids = np.unique(group, return_inverse=True)[1]
    sizes = np.bincount(ids)
    # Rows of a group count as dependent: equal groups of m rows are worth rows / m trials.
    trials = max(1, int(sizes.sum() ** 2 / (sizes**2).sum()))
    hits = int(right.mean() * trials + 1e-9)
    gain = np.bincount(ids, right - guessed)
    flips = rng.choice(np.array([-1.0, 1.0]), (FLIPS, len(gain)))
    alone = len(sizes) == len(right) or right.all() or not right.any()
    return {
        "accuracy": share(hits, trials)
        if alone
        else clustered_mean(right, ids, rng=rng, kind="bc"),
        "control": clustered_mean(guessed, ids, rng=rng, kind="bc"),
        "selectivity": clustered_mean(right - guessed, ids, rng=rng, kind="bc"),
        "p_value": max(
            float(binom.sf(hits - 1, trials, chance)), permutation_p(gain.sum(), flips @ gain)
        ),
    }
