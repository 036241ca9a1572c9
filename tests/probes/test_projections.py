import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.probes import fourier, pairs
from mechint_arith.probes.projections import frequency_directions, project, project_directions


@pytest.mark.parametrize("p", [4, 10, 13])
@pytest.mark.parametrize("over", ["values", "blocks", "sum", "difference"])
def test_kept_and_removed_make_x_and_its_constant(p: int, over: str) -> None:
    x = np.random.default_rng(p).normal(size=(p, p, 3))
    frequencies = [1, p // 2]
    kept = project(x, frequencies, over=over)
    removed = project(x, frequencies, over=over, keep=False)
    constant = x.mean(0) if over == "values" else x.mean((0, 1))
    np.testing.assert_allclose(kept + removed, x + constant, atol=1e-12)
    np.testing.assert_allclose(project(kept, frequencies, over=over), kept, atol=1e-12)
    assert np.abs(project(kept, frequencies, over=over, keep=False) - constant).max() < 1e-12
    np.testing.assert_allclose(project(x, [], over=over, keep=False), x)


def test_over_values_only_the_named_frequencies_stay() -> None:
    x = np.random.default_rng(0).normal(size=(3, 59)) + 2
    energy = fourier.energy_by_frequency(x, axis=1)
    kept = fourier.energy_by_frequency(project(x, [56, 7], over="values", axis=1), axis=1)
    left = fourier.energy_by_frequency(
        project(x, [56, 7], over="values", axis=1, keep=False), axis=1
    )
    named = np.isin(np.arange(30), [0, 3, 7])
    np.testing.assert_allclose(kept[named], energy[named])
    assert kept[~named].max() < 1e-20
    np.testing.assert_allclose(left[~named], energy[~named])
    np.testing.assert_allclose(left[0], energy[0])
    assert left[[3, 7]].max() < 1e-20


@pytest.mark.parametrize("p", [10, 13])
@pytest.mark.parametrize("along", ["sum", "difference"])
def test_along_sums_it_is_the_projection_on_the_directions(p: int, along: str) -> None:
    x = np.random.default_rng(p).normal(size=(p, p, 2))
    expected = np.broadcast_to(x.mean((0, 1)), x.shape)
    for k in (2, p // 2):
        unit = pairs.directions(k, p, along=along)
        expected = expected + np.einsum("iab,icd,cdn->abn", unit, unit, x)
    np.testing.assert_allclose(project(x, [2, p // 2], over=along), expected, atol=1e-12)


@pytest.mark.parametrize("p", [10, 13])
def test_over_blocks_it_keeps_the_block_energy(p: int) -> None:
    x = np.random.default_rng(p).normal(size=(p, p, 2))
    energy, kept = pairs.block_energy(x), pairs.block_energy(project(x, [2, 5], over="blocks"))
    named = np.isin(np.arange(p // 2 + 1), [0, 2, 5])
    np.testing.assert_allclose(kept[named], energy[named])
    assert kept[~named].max() < 1e-20
    total = (project(x, [2, 5], over="blocks") ** 2).sum((0, 1))
    np.testing.assert_allclose(total, energy[named].sum(0))


def test_frequency_directions_span_the_waves_of_the_matrix() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(59, 128))
    directions = frequency_directions(matrix, [4, 9])
    assert directions.shape == (128, 4)
    np.testing.assert_allclose(directions.T @ directions, np.eye(4), atol=1e-12)
    waves = np.concatenate([fourier.basis(59).of(4), fourier.basis(59).of(9)]) @ matrix
    np.testing.assert_allclose(project_directions(waves, directions), waves, atol=1e-10)
    left = project_directions(matrix, directions, keep=False)
    energy = fourier.energy_by_frequency(left).sum(1)
    assert energy[[4, 9]].max() < 1e-20
    assert energy[[3, 5]].min() > 1


def test_a_matrix_with_one_wave_loses_it_whole_and_nothing_else() -> None:
    p = 12
    angle = 2 * np.pi * np.arange(p) / p
    matrix = np.zeros((p, 5))
    matrix[:, 0], matrix[:, 1] = np.cos(2 * angle), np.sin(2 * angle)
    matrix[:, 2] = np.cos(6 * angle)
    directions = frequency_directions(matrix, [6])
    assert directions.shape == (5, 1)
    expected = matrix.copy()
    expected[:, 2] = 0
    np.testing.assert_allclose(
        project_directions(matrix, directions, keep=False), expected, atol=1e-12
    )
    with pytest.raises(InputError, match="no direction in this matrix"):
        frequency_directions(matrix, [1])


def test_tensors_stay_tensors() -> None:
    directions = frequency_directions(np.random.default_rng(0).normal(size=(7, 6)), [1])
    x = torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    kept = project_directions(x, directions)
    left = project_directions(x, directions, keep=False)
    assert kept.dtype == torch.float32
    assert torch.allclose(kept + left, x, atol=1e-6)
    assert kept.requires_grad


def test_faults_are_named() -> None:
    x = np.zeros((5, 5, 2))
    with pytest.raises(InputError, match="'values', 'blocks', 'sum' or 'difference'; got 'pairs'"):
        project(x, [1], over="pairs")
    with pytest.raises(InputError, match="frequency 0 is the constant"):
        project(x, [5], over="sum")
    with pytest.raises(InputError, match=r"\[value d_model\]"):
        frequency_directions(x, [1])
