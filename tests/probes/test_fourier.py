import math

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.probes import fourier

MODULI = (2, 3, 4, 10, 59, 113, 118)


@pytest.mark.parametrize("p", MODULI)
def test_the_basis_is_orthonormal_and_complete(p: int) -> None:
    rows = fourier.basis(p).rows
    assert rows.shape == (p, p)
    assert rows.dtype == np.float64
    assert np.abs(rows @ rows.T - np.eye(p)).max() < 1e-12
    assert np.abs(rows.T @ rows - np.eye(p)).max() < 1e-12


@pytest.mark.parametrize("p", MODULI)
def test_energy_is_kept_and_the_inverse_returns_x(p: int) -> None:
    x = np.random.default_rng(p).normal(size=(p, 5))
    assert (fourier.transform(x) ** 2).sum() == pytest.approx((x**2).sum(), rel=1e-13)
    assert fourier.spectrum(x).energy.sum() == pytest.approx((x**2).sum(), rel=1e-13)
    np.testing.assert_allclose(fourier.inverse(fourier.transform(x)), x, atol=1e-12)


@pytest.mark.parametrize("p", MODULI)
def test_coefficients_equal_numpy_fft(p: int) -> None:
    x = np.random.default_rng(p).normal(size=p)
    frame, coefficients, other = fourier.basis(p), fourier.transform(x), np.fft.rfft(x)
    assert coefficients[frame.index("const")] == pytest.approx(other[0].real / math.sqrt(p))
    for k in range(1, (p + 1) // 2):
        scale = math.sqrt(2 / p)
        assert coefficients[frame.index(f"cos {k}")] == pytest.approx(scale * other[k].real)
        assert coefficients[frame.index(f"sin {k}")] == pytest.approx(-scale * other[k].imag)
    if frame.nyquist is not None:
        assert coefficients[frame.index(frame.nyquist)] == pytest.approx(
            other[-1].real / math.sqrt(p)
        )
    weight = np.full(p // 2 + 1, 2.0)
    weight[0] = 1
    if p % 2 == 0:
        weight[-1] = 1
    np.testing.assert_allclose(
        fourier.energy_by_frequency(x), weight * np.abs(other) ** 2 / p, atol=1e-12
    )


def test_components_are_named() -> None:
    assert fourier.basis(2).names == ("const", "cos 1")
    assert fourier.basis(3).names == ("const", "cos 1", "sin 1")
    assert fourier.basis(6).names == ("const", "cos 1", "sin 1", "cos 2", "sin 2", "cos 3")
    assert fourier.basis(58).nyquist == "cos 29"
    assert fourier.basis(59).nyquist is None
    np.testing.assert_allclose(fourier.basis(4).of(2) * 2, [[1, -1, 1, -1]])
    assert len(fourier.basis(10).of(7)) == 2


def test_an_unknown_component_is_refused() -> None:
    with pytest.raises(InputError, match="cos 1 to cos 2 or sin 1 to sin 1"):
        fourier.basis(4).index("sin 2")


@pytest.mark.parametrize("p", [1, 0, -5, 2.5, "7", True, None])
def test_a_modulus_below_two_is_refused(p: object) -> None:
    with pytest.raises(InputError, match="whole number of at least 2"):
        fourier.basis(p)


def test_k_and_p_minus_k_are_one_frequency() -> None:
    assert fourier.fold(56, 59) == fourier.fold(3, 59) == fourier.fold(-3, 59) == 3
    assert fourier.folded([56, 3, 1], 59) == fourier.folded(np.array([3, 58]), 59) == (3, 1)
    assert fourier.fold(59, 118) == 59
    with pytest.raises(InputError, match="frequency 0 is the constant"):
        fourier.folded([1, 59], 59)


def test_periods_of_a_composite_modulus() -> None:
    assert [fourier.period(k, 12) for k in range(1, 7)] == [12, 6, 4, 3, 12, 2]
    assert fourier.period(7, 59) == 59


@pytest.mark.parametrize("p", [10, 59])
def test_a_planted_wave_is_found_on_any_axis(p: int) -> None:
    wave = np.cos(2 * np.pi * 4 * np.arange(p) / p + 0.3)
    x = np.outer(wave, [1.0, -2.0]) + 5
    found = fourier.spectrum(x)
    assert found.strongest(1) == (4,)
    assert found.shares[4] == pytest.approx(1)
    assert found.shares[0] == 0
    np.testing.assert_allclose(fourier.spectrum(x.T, axis=1).energy, found.energy)


def test_other_axes_keep_their_order() -> None:
    x = np.random.default_rng(0).normal(size=(2, 7, 3))
    assert fourier.transform(x, axis=1).shape == (2, 7, 3)
    energy = fourier.energy_by_frequency(x, axis=1)
    assert energy.shape == (4, 2, 3)
    np.testing.assert_allclose(energy[:, 1, 2], fourier.energy_by_frequency(x[1, :, 2]))


def test_a_constant_has_no_shares() -> None:
    assert (fourier.spectrum(np.zeros((5, 2))).shares == 0).all()


def test_tensors_are_taken_and_nan_is_refused() -> None:
    x = torch.ones(5, 2, dtype=torch.bfloat16, requires_grad=True)
    assert fourier.transform(x)[0, 0] == pytest.approx(math.sqrt(5))
    with pytest.raises(InputError, match="NaN or infinity"):
        fourier.transform([1.0, float("nan")])


def test_the_shared_basis_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        fourier.basis(5).rows[0, 0] = 1
