import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.probes.key_frequencies import Null, key_frequencies, pair_key_frequencies
from mechint_arith.probes.pairs import spread


def waves(p: int, amplitudes: dict[int, float], d: int, rng: np.random.Generator) -> np.ndarray:
    """Return [value d]: each frequency in two random directions, with its amplitude."""
    j = np.arange(p)
    x = np.zeros((p, d))
    for k, amplitude in amplitudes.items():
        for wave in (np.cos(2 * np.pi * k * j / p), np.sin(2 * np.pi * k * j / p)):
            x += amplitude * np.outer(wave, rng.normal(size=d) / np.sqrt(d))
    return x


@pytest.mark.parametrize("p", [59, 113, 118])
def test_planted_frequencies_are_found_the_weak_one_behind_the_strong(p: int) -> None:
    rng = np.random.default_rng(p)
    x = waves(p, {3: 4.0, 11: 2.0, 20: 1.2}, 64, rng) + 0.3 * rng.normal(size=(p, 64)) / 8 + 7
    null = Null(n_permutations=199)
    found = key_frequencies(x, null=null, rng=np.random.default_rng(0))
    assert found.frequencies == (3, 11, 20)
    assert found.shares[3] > found.shares[11] > found.shares[20] > found.floor
    assert found.shares.sum() == pytest.approx(1)
    assert len(found.thresholds) >= 2
    assert "199 times" in found.statement
    assert "0.99 quantile" in found.statement
    turned = key_frequencies(x.T, axis=1, null=null, rng=np.random.default_rng(0))
    assert turned.frequencies == found.frequencies
    np.testing.assert_allclose(turned.thresholds, found.thresholds)


def test_the_nyquist_frequency_and_periods_of_an_even_modulus() -> None:
    rng = np.random.default_rng(0)
    found = key_frequencies(waves(60, {30: 2.0, 12: 2.0, 7: 1.5}, 16, rng), rng=rng)
    assert dict(zip(found.frequencies, found.periods, strict=True)) == {12: 5, 7: 60, 30: 2}


def test_the_floor_is_a_stated_option() -> None:
    rng = np.random.default_rng(1)
    x = waves(59, {3: 4.0, 11: 0.4}, 64, rng)
    assert key_frequencies(x, rng=rng).frequencies == (3,)
    assert key_frequencies(x, null=Null(floor=0.0), rng=rng).frequencies == (3, 11)


@pytest.mark.parametrize("kind", ["normal", "heavy"])
def test_noise_shows_a_key_frequency_no_more_often_than_stated(kind: str) -> None:
    rng = np.random.default_rng(5)
    null = Null(n_permutations=99, quantile=0.9, floor=0.0)
    hits = 0
    for _ in range(200):
        x = rng.normal(size=(23, 3)) if kind == "normal" else rng.standard_t(2, size=(23, 3))
        hits += bool(key_frequencies(x, null=null, rng=rng).frequencies)
    assert hits <= 33  # 20 expected at most; 33 is three standard errors above


def test_noise_over_pairs_shows_none() -> None:
    rng = np.random.default_rng(6)
    null = Null(n_permutations=99, quantile=0.9, floor=0.0)
    hits = sum(
        bool(pair_key_frequencies(rng.normal(size=(17, 17, 2)), null=null, rng=rng).frequencies)
        for _ in range(100)
    )
    assert hits <= 10


def test_functions_of_the_sum_are_key_over_both_operands() -> None:
    rng = np.random.default_rng(2)
    x = spread(waves(31, {2: 2.0, 9: 1.0}, 8, rng)) + 0.1 * rng.normal(size=(31, 31, 8))
    found = pair_key_frequencies(x, rng=rng)
    assert found.frequencies == found.lhs.frequencies == found.rhs.frequencies == (2, 9)
    np.testing.assert_allclose(found.sum_shares[[2, 9]], found.shares[[2, 9]], rtol=0.02)
    assert found.sum_shares[2] > found.sum_shares[9] > 0.1


def test_what_depends_on_one_operand_only_has_no_pair_frequency() -> None:
    rng = np.random.default_rng(3)
    x = np.broadcast_to(waves(31, {2: 2.0}, 8, rng)[:, None], (31, 31, 8))
    found = pair_key_frequencies(x, rng=rng)
    assert found.lhs.frequencies == (2,)
    assert found.rhs.frequencies == found.frequencies == ()
    assert found.rhs.statement == "nothing depends on the values of b"


def test_the_result_is_reproducible_and_scale_does_not_matter() -> None:
    x = waves(31, {2: 2.0, 9: 1.0}, 8, np.random.default_rng(3))
    first = key_frequencies(x, rng=np.random.default_rng(8))
    second = key_frequencies(x * 1e-6, rng=np.random.default_rng(8))
    np.testing.assert_allclose(first.thresholds, second.thresholds)
    assert first.frequencies == second.frequencies


def test_faults_are_named() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="constant array"):
        key_frequencies(np.full((7, 2), 3.3), rng=rng)
    with pytest.raises(InputError, match="constant array"):
        pair_key_frequencies(np.full((7, 7, 2), 3.3), rng=rng)
    with pytest.raises(InputError, match=r"0.99 quantile .* got 98"):
        key_frequencies(rng.normal(size=(7, 2)), null=Null(n_permutations=98), rng=rng)
    key_frequencies(rng.normal(size=(7, 2)), null=Null(n_permutations=99), rng=rng)


@pytest.mark.parametrize("p", [2, 3, 4, 5])
def test_a_modulus_too_small_for_the_null_has_no_key_frequency(p: int) -> None:
    found = key_frequencies(
        waves(p, {1: 1.0}, 4, np.random.default_rng(0)), rng=np.random.default_rng(0)
    )
    assert found.frequencies == ()
