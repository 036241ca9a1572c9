import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.probes import fourier, pairs

MODULI = (2, 3, 4, 10, 59, 113, 118)


def angles(p: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return w_k a and w_k b over all pairs."""
    a, b = np.meshgrid(np.arange(p), np.arange(p), indexing="ij")
    return 2 * np.pi * k * a / p, 2 * np.pi * k * b / p


@pytest.mark.parametrize("p", MODULI)
def test_two_dimensional_parseval_and_inverse(p: int) -> None:
    x = np.random.default_rng(p).normal(size=(p, p, 2))
    coefficients = pairs.transform_pairs(x)
    assert (coefficients**2).sum() == pytest.approx((x**2).sum(), rel=1e-12)
    np.testing.assert_allclose(pairs.inverse_pairs(coefficients), x, atol=1e-12)


@pytest.mark.parametrize("p", [2, 3, 4, 10])
def test_coefficients_equal_explicit_sums(p: int) -> None:
    x = np.random.default_rng(p).normal(size=(p, p))
    rows, coefficients = fourier.basis(p).rows, pairs.transform_pairs(x)
    for i in range(p):
        for j in range(p):
            explicit = sum(rows[i, a] * rows[j, b] * x[a, b] for a in range(p) for b in range(p))
            assert coefficients[i, j] == pytest.approx(explicit, abs=1e-12)


@pytest.mark.parametrize("p", MODULI)
@pytest.mark.parametrize("along", ["sum", "difference"])
def test_directions_are_unit_waves_of_a_plus_b_or_a_minus_b(p: int, along: str) -> None:
    for k in {1, p // 2}:
        found = pairs.directions(k, p, along=along)
        flat = found.reshape(len(found), -1)
        np.testing.assert_allclose(flat @ flat.T, np.eye(len(found)), atol=1e-12)
        over_a, over_b = angles(p, k)
        angle = over_a + over_b if along == "sum" else over_a - over_b
        waves = [np.cos(angle)] if 2 * k == p else [np.cos(angle), np.sin(angle)]
        expected = np.array([wave / np.linalg.norm(wave) for wave in waves])
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_at_the_nyquist_frequency_sum_and_difference_are_one_direction() -> None:
    total, difference = (pairs.directions(5, 10, along=along) for along in ("sum", "difference"))
    assert total.shape == (1, 10, 10)
    np.testing.assert_array_equal(total, difference)


@pytest.mark.parametrize("p", [3, 4, 10, 59])
@pytest.mark.parametrize("along", ["sum", "difference"])
def test_energy_along_is_the_energy_in_the_directions(p: int, along: str) -> None:
    x = np.random.default_rng(p).normal(size=(p, p, 2))
    energy = pairs.energy_along(x, along=along)
    for k in range(1, p // 2 + 1):
        inner = np.einsum("iab,abn->in", pairs.directions(k, p, along=along), x)
        np.testing.assert_allclose(energy[k], (inner**2).sum(0), atol=1e-10)
    np.testing.assert_allclose(energy[0], x.mean((0, 1)) ** 2 * p * p)


@pytest.mark.parametrize("p", [4, 7])
def test_profile_and_spread(p: int) -> None:
    f = np.random.default_rng(p).normal(size=(p, 3))
    for along, sign in (("sum", 1), ("difference", -1)):
        x = pairs.spread(f, along=along)
        for a in range(p):
            for b in range(p):
                np.testing.assert_array_equal(x[a, b], f[(a + sign * b) % p])
        np.testing.assert_allclose(pairs.profile(x, along=along), f)


@pytest.mark.parametrize("p", [2, 3, 4, 10, 13])
def test_block_energy_against_its_definition(p: int) -> None:
    x = np.random.default_rng(p).normal(size=(p, p, 2))
    energy, frame = pairs.block_energy(x), fourier.basis(p)
    for k in range(1, p // 2 + 1):
        names = [n for n in ("const", f"cos {k}", f"sin {k}") if n in frame.names]
        rows = frame.rows[[frame.index(name) for name in names]]
        block = np.einsum("ia,jb,abn->ijn", rows, rows, x) ** 2
        np.testing.assert_allclose(energy[k], block.sum((0, 1)) - block[0, 0], atol=1e-10)
    np.testing.assert_allclose(energy[0], x.mean((0, 1)) ** 2 * p * p)
    assert (energy.sum(0) <= (x**2).sum((0, 1)) * (1 + 1e-12)).all()


def test_a_table_from_rows_in_any_order() -> None:
    p = 5
    order = np.random.default_rng(0).permutation(p * p)
    a, b = np.divmod(order, p)
    table = pairs.table(np.stack([a * 10 + b, a], 1), a, b, p=p)
    assert table.shape == (5, 5, 2)
    assert table[3, 2].tolist() == [32, 3]


@pytest.mark.parametrize("fault", ["missing", "twice", "outside"])
def test_a_table_needs_each_pair_once(fault: str) -> None:
    a, b = np.divmod(np.arange(9), 3)
    if fault == "missing":
        a, b = a[:-1], b[:-1]
    elif fault == "twice":
        a, b = np.append(a, 0), np.append(b, 0)
    else:
        a[8], b[8] = 3, -1
    with pytest.raises(InputError, match="each of its 9 pairs exactly once"):
        pairs.table(np.zeros(len(a)), a, b, p=3)


def test_faults_are_named() -> None:
    with pytest.raises(InputError, match=r"two axes of length p >= 2; got shape \(3, 4\)"):
        pairs.transform_pairs(np.zeros((3, 4)))
    with pytest.raises(InputError, match="'sum' or 'difference'"):
        pairs.profile(np.zeros((3, 3)), along="product")
    with pytest.raises(InputError, match="one row per pair"):
        pairs.table(np.zeros(4), np.zeros(9, int), np.zeros(9, int), p=3)
