from dataclasses import replace

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.probes.decodable import decodable
from mechint_arith.probes.linear import Probe, probe, transfer
from mechint_arith.stats import Estimate

P = 11
A, B = np.divmod(np.repeat(np.arange(P * P), 2), P)
PAIR = A * P + B


def waves(numbers: np.ndarray, seed: int, d: int = 24) -> np.ndarray:
    """Return numbers as waves of two frequencies in random directions, [row d]."""
    angle = 2 * np.pi * numbers[:, None] / P
    features = np.concatenate([f(k * angle) for k in (1, 3) for f in (np.cos, np.sin)], 1)
    return features @ np.random.default_rng(seed).normal(size=(4, d))


def site(seed: int = 0, noise: float = 0.3) -> np.ndarray:
    """Return activations that hold a and b as waves, and noise."""
    rng = np.random.default_rng(seed)
    return waves(A, 1) + waves(B, 2) + noise * rng.normal(size=(len(A), 24))


def test_planted_operands_are_decodable_and_their_sum_is_not() -> None:
    x = site()
    probes = {
        "a": probe(x, A, PAIR),
        "b": probe(x, B, PAIR, types=B, seed=1),
        "sum": probe(x, (A + B) % P, PAIR),
    }
    decisions = decodable(probes)
    assert decisions["a"].decodable
    assert not decisions["sum"].decodable
    assert probes["a"].accuracy.low > 0.8
    assert probes["a"].control.value < 0.2
    assert probes["a"].selectivity.low > 0.5
    assert probes["a"].chance >= 1 / P
    assert probes["a"].converged
    assert probes["a"].n_classes == P
    assert probes["a"].n_test == 2 * round(0.3 * P * P)
    assert probes["a"].n_train + probes["a"].n_test == len(A)
    assert "above chance" in decisions["a"].reason
    assert "does not exceed" in decisions["sum"].reason


def test_a_type_that_the_site_shows_makes_the_control_learnable() -> None:
    plain, typed = (probe(site(), B, PAIR, types=types) for types in (None, B))
    assert plain.control.value < 0.2
    assert typed.control.value > 0.7
    assert typed.selectivity.value < 0.3


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_noise_with_random_labels_is_not_decodable(kind: str) -> None:
    n = 40 if kind == "ridge" else 6
    probes = {}
    for seed in range(n):
        rng = np.random.default_rng(seed)
        x, labels = rng.normal(size=(len(A), 10)), rng.integers(0, 4, len(A))
        options = {"n_controls": 1, "penalties": [0.01, 1.0]} if kind == "logistic" else {}
        probes[str(seed)] = probe(x, labels, PAIR, kind=kind, seed=seed, **options)
    assert not any(decision.decodable for decision in decodable(probes).values())
    alone = [decodable({name: found})[name].decodable for name, found in probes.items()]
    assert np.mean(alone) <= 0.1
    assert np.mean([found.accuracy.value for found in probes.values()]) < 0.3


def test_a_rare_class_does_not_make_guessing_look_like_reading() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(len(A)) < 0.1).astype(int)
    found = probe(rng.normal(size=(len(A), 10)), labels, PAIR)
    assert found.accuracy.value > 0.8
    assert found.chance > 0.8
    assert not decodable({"rare": found})["rare"].decodable


def test_rows_that_share_a_pair_are_not_counted_as_independent() -> None:
    many = np.repeat(np.arange(len(A)), 6)
    one, six = probe(site(), A, PAIR), probe(site()[many], A[many], PAIR[many])
    assert one.accuracy.n <= P * P
    assert six.accuracy.n <= P * P
    width = [found.accuracy.high - found.accuracy.low for found in (one, six)]
    assert width[1] > 0.5 * width[0]


def test_the_given_test_rows_are_the_ones_held_out() -> None:
    held = PAIR % 3 == 0
    found = probe(site(), A, PAIR, test=held)
    assert found.n_test == held.sum()
    with pytest.raises(InputError, match="groups are on both sides"):
        probe(site(), A, PAIR, test=np.arange(len(A)) % 3 == 0)


def test_transfer_between_routes_with_one_code_and_with_two() -> None:
    same = transfer({"direct": site(0), "left": site(1)}, A, PAIR)
    assert set(same) == {(f, t) for f in ("direct", "left") for t in ("direct", "left")}
    assert min(found.accuracy.value for found in same.values()) > 0.8
    other = waves(A, 7) + waves(B, 8)
    apart = transfer({"direct": site(), "left": other}, A, PAIR)
    assert apart["direct", "direct"].accuracy.value > 0.8
    assert apart["left", "left"].accuracy.value > 0.8
    assert apart["direct", "left"].accuracy.value < 0.4
    assert apart["left", "direct"].accuracy.value < 0.4


def test_a_constant_shift_is_forgiven_only_if_asked() -> None:
    routes = {"direct": site(0), "left": site(1) + 40 * np.eye(24)[3]}
    own = transfer(routes, A, PAIR, centre="own")
    fit = transfer(routes, A, PAIR)
    assert own["direct", "left"].accuracy.value > 0.8
    assert fit["direct", "left"].accuracy.value < own["direct", "left"].accuracy.value


def test_the_seed_decides_everything() -> None:
    assert probe(site(), A, PAIR, seed=4) == probe(site(), A, PAIR, seed=4)
    assert probe(site(), A, PAIR, seed=4) != probe(site(), A, PAIR, seed=5)


def test_missing_classes_and_a_penalty_at_the_end_of_the_grid_are_reported() -> None:
    found = probe(site(), A, PAIR, test=A == 4)
    assert "1 of 11 classes have no training row" in found.warnings
    assert found.accuracy.value == 0
    tight = probe(site(noise=0), A, PAIR, penalties=[1.0, 100.0, 1e4])
    assert any("smallest penalty offered" in text for text in tight.warnings)


def test_several_probes_are_corrected_together() -> None:
    good = Probe(
        accuracy=Estimate(0.5, 0.4, 0.6, 100),
        control=Estimate(0.1, 0.05, 0.15, 100),
        selectivity=Estimate(0.4, 0.3, 0.5, 100),
        chance=0.1,
        p_value=0.02,
        kind="ridge",
        penalty=1.0,
        converged=True,
        warnings=(),
        n_classes=10,
        n_train=100,
        n_test=100,
    )
    assert decodable({"x": good})["x"].decodable
    three = decodable(dict.fromkeys("xyz", good))
    assert three["x"].p_adjusted == pytest.approx(0.06)
    assert "p = 0.06 over 3 probes exceeds 0.05" in three["x"].reason
    unselective = replace(good, selectivity=Estimate(0.1, -0.01, 0.2, 100))
    assert "selectivity" in decodable({"x": unselective})["x"].reason
    with pytest.raises(InputError, match="no probe"):
        decodable({})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"labels": A[:-1]}, "one label and one group for each of 242 rows"),
        ({"labels": A * 0}, "at least 2 classes"),
        ({"x": np.zeros(242)}, r"\[row feature\]"),
        ({"groups": PAIR * 0}, "too few"),
        ({"kind": "forest"}, "ridge, logistic; got 'forest'"),
        ({"types": A[:3]}, "one input type per row"),
        ({"test": np.ones(242)}, "bool mask"),
        ({"test": np.zeros(242, bool)}, "too few"),
        ({"penalties": [-1.0]}, "must be positive"),
    ],
)
def test_faults_are_named(change: dict[str, object], text: str) -> None:
    arguments = {"x": site(), "labels": A, "groups": PAIR} | change
    with pytest.raises(InputError, match=text):
        probe(**arguments)


def test_transfer_needs_one_shape_and_a_known_centre() -> None:
    with pytest.raises(InputError, match="of one shape"):
        transfer({"direct": site(), "left": site()[:, :5]}, A, PAIR)
    with pytest.raises(InputError, match="'fit' or 'own'"):
        transfer({"direct": site()}, A, PAIR, centre="none")
