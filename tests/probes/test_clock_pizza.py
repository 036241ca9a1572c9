import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.probes import clock_pizza


def grid(p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a and b over all pairs."""
    return tuple(np.meshgrid(np.arange(p), np.arange(p), indexing="ij"))


def circle(p: int, k: int) -> torch.Tensor:
    """Return the embeddings (cos w_k j, sin w_k j), float64 [value 2]."""
    angle = 2 * np.pi * k * torch.arange(p, dtype=torch.float64) / p
    return torch.stack([torch.cos(angle), torch.sin(angle)], 1)


def clock(p: int, k: int):
    """Return a function from embeddings to cos w_k(a+b-c) by multiplying the two circles."""
    answers = circle(p, k)

    def logits(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.stack(
            [x[:, 0] * y[:, 0] - x[:, 1] * y[:, 1], x[:, 0] * y[:, 1] + x[:, 1] * y[:, 0]], 1
        )
        return total @ answers.T

    return logits


def pizza(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return logits that know nothing but the sum of the embeddings."""
    mean = x + y
    return torch.stack([mean[:, 0] ** 2 - mean[:, 1] ** 2, mean.prod(1), (mean**2).sum(1)], 1)


@pytest.mark.parametrize("p", [7, 10])
def test_a_function_of_the_summed_embeddings_has_symmetricity_one(p: int) -> None:
    found = clock_pizza.gradient_symmetricity(
        pizza, circle(p, 1), rows=13, rng=np.random.default_rng(0)
    )
    assert found.mean.value == pytest.approx(1)
    assert found.mean.n == p * (p + 1) // 2
    # where a + p/2 = b the summed embedding, and with it every gradient, is zero up to rounding
    assert found.by_pair.shape == (p, p)


@pytest.mark.parametrize("p", [7, 10])
def test_the_clock_has_the_cosine_of_a_minus_b(p: int) -> None:
    found = clock_pizza.gradient_symmetricity(
        clock(p, 2), circle(p, 2), rng=np.random.default_rng(0)
    )
    a, b = grid(p)
    expected = np.cos(2 * np.pi * 2 * (a - b) / p)
    np.testing.assert_allclose(found.by_pair, expected, atol=1e-10)
    assert found.mean.value == pytest.approx(0, abs=1e-10)
    assert found.undefined == 0


def test_classes_and_chunks_do_not_change_what_they_should_not() -> None:
    p, embeddings, logits = 7, circle(7, 1), clock(7, 1)
    torch.manual_seed(0)
    weight = torch.randn(2, 2, dtype=torch.float64)

    def skewed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return logits(x, y @ weight)

    everything = clock_pizza.gradient_symmetricity(skewed, embeddings, rng=np.random.default_rng(0))
    some = [
        clock_pizza.gradient_symmetricity(
            skewed, embeddings, classes=[c], rows=5, rng=np.random.default_rng(0)
        ).by_pair
        for c in range(p)
    ]
    np.testing.assert_allclose(np.mean(some, 0), everything.by_pair)


def test_given_gradients_agree_with_the_function_and_zero_ones_are_counted() -> None:
    rng = np.random.default_rng(0)
    left = rng.normal(size=(5, 5, 3, 4))
    left[0, 1, 2] = 0
    left[3, 3] = 0
    found = clock_pizza.symmetricity(left, -2 * left, rng=rng)
    assert found.mean.value == pytest.approx(-1)
    assert found.undefined == 4
    assert np.isnan(found.by_pair[3, 3])
    assert found.by_pair[0, 1] == pytest.approx(-1)
    with pytest.raises(InputError, match="every gradient is zero"):
        clock_pizza.symmetricity(left * 0, left, rng=rng)


def test_gradients_of_a_model_in_no_grad_mode_leave_its_parameters_alone() -> None:
    layer = torch.nn.Linear(2, 3, dtype=torch.float64)
    with torch.no_grad():
        clock_pizza.gradient_symmetricity(
            lambda x, y: layer(x * y), circle(3, 1), rng=np.random.default_rng(0)
        )
    assert layer.weight.grad is None


def test_logits_that_ignore_an_operand_are_refused() -> None:
    with pytest.raises(InputError, match="do not depend on both"):
        clock_pizza.gradient_symmetricity(
            lambda x, y: x, circle(5, 1), rng=np.random.default_rng(0)
        )
    with pytest.raises(InputError, match=r"must be \[batch class\]"):
        clock_pizza.gradient_symmetricity(
            lambda x, y: (x * y).sum(1), circle(5, 1), rng=np.random.default_rng(0)
        )
    with pytest.raises(InputError, match="both operands"):
        clock_pizza.gradient_symmetricity(
            pizza, circle(5, 1), circle(6, 1), rng=np.random.default_rng(0)
        )


@pytest.mark.parametrize("p", [10, 59])
def test_distance_irrelevance_of_planted_logits(p: int) -> None:
    a, b = grid(p)
    rng = np.random.default_rng(0)
    pizza_like = np.abs(np.cos(2 * np.pi * (a - b) / p / 2))
    assert clock_pizza.distance_irrelevance(pizza_like, rng=rng).mean.value == pytest.approx(
        0, abs=1e-7
    )
    clock_like = np.cos(2 * np.pi * 3 * (a + b) / p)
    found = clock_pizza.distance_irrelevance(clock_like, rng=rng)
    np.testing.assert_allclose(found.by_distance, 1, atol=0.5 if p == 10 else 1e-12)
    assert found.mean.value == pytest.approx(1, abs=0.06)
    both = clock_pizza.distance_irrelevance(
        clock_like / clock_like.std() + pizza_like / pizza_like.std(), rng=rng
    )
    assert both.mean.value == pytest.approx(np.sqrt(0.5), abs=0.05)
    assert both.mean.low <= both.mean.value <= both.mean.high


def test_distance_irrelevance_equals_its_definition() -> None:
    p = 7
    correct = np.random.default_rng(3).normal(size=(p, p))
    table = np.empty((p, p))
    for a in range(p):
        for b in range(p):
            table[(a + b) % p, (a - b) % p] = correct[a, b]
    expected = np.mean([table[:, d].std() for d in range(p)]) / table.std()
    found = clock_pizza.distance_irrelevance(correct, rng=np.random.default_rng(0))
    assert found.mean.value == pytest.approx(expected)


def test_the_correct_logit_is_picked() -> None:
    logits = np.arange(18.0).reshape(3, 3, 2)
    labels = np.eye(3, dtype=int)
    assert clock_pizza.correct_logits(logits, labels).tolist() == [
        [1, 2, 4],
        [6, 9, 10],
        [12, 14, 17],
    ]
    with pytest.raises(InputError, match="same for all pairs"):
        clock_pizza.distance_irrelevance(np.ones((5, 5)), rng=np.random.default_rng(0))


@pytest.mark.parametrize("p", [10, 59])
def test_circularity_of_circles_and_of_noise(p: int) -> None:
    rng = np.random.default_rng(1)
    embeddings = torch.cat([3 * circle(p, 2), circle(p, 3)], 1) @ torch.tensor(
        rng.normal(size=(4, 32))
    )
    found = clock_pizza.circularity(embeddings + 5)
    assert found.mean > 0.75 if p == 10 else found.mean > 0.9
    assert found.frequency[:2].tolist() == [2, 2]
    orthogonal = np.concatenate([3 * circle(p, 2).numpy(), circle(p, 3).numpy()], 1)
    exact = clock_pizza.circularity(orthogonal)
    np.testing.assert_allclose(exact.by_component, 1)
    assert exact.frequency.tolist() == [2, 2, 3, 3]
    np.testing.assert_allclose(exact.variance, [0.45, 0.45, 0.05, 0.05])
    noise = clock_pizza.circularity(rng.normal(size=(59, 32)))
    assert noise.mean < 0.4


def test_the_nyquist_component_is_cut_to_one() -> None:
    x = (-1.0) ** np.arange(8)[:, None] * np.ones((1, 3))
    found = clock_pizza.circularity(x, n=1)
    assert found.mean == 1
    assert found.frequency.tolist() == [4]


def test_principal_components_equal_scikit_learn() -> None:
    from sklearn.decomposition import PCA

    x = np.random.default_rng(0).normal(size=(20, 6)) + 3
    found = clock_pizza.principal_components(x, 3)
    other = PCA(3).fit(x)
    np.testing.assert_allclose(found.variance, other.explained_variance_ratio_)
    np.testing.assert_allclose(np.abs(found.directions), np.abs(other.components_))
    np.testing.assert_allclose(found.left.T @ found.left, np.eye(3), atol=1e-12)
    with pytest.raises(InputError, match="no 7 principal components"):
        clock_pizza.principal_components(x, 7)
    with pytest.raises(InputError, match="constant matrix"):
        clock_pizza.circularity(np.full((9, 9), 0.1))
