"""Interchange on a network built by hand, whose variables and their places are known."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.interventions.alignment import Search, align
from mechint_arith.interventions.counterfactual import addition, predicted
from mechint_arith.interventions.interchange import CONTROLS, interchange
from mechint_arith.interventions.patching import patch
from mechint_arith.interventions.placebo import other_site, random_basis
from mechint_arith.interventions.site import Site
from mechint_arith.interventions.swap import swapped_logits
from mechint_arith.models.config import ModelConfig, parameter_shapes
from mechint_arith.models.folded import fold
from mechint_arith.models.hooked import HookedTransformer
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks.batch import Batch
from mechint_arith.tasks.modular import ModularTask

P = 7
LEFT, RIGHT = torch.eye(2 * P).split(P, 1)


@pytest.fixture(scope="module")
def adder():
    """Addition as a look-up: `=` holds a in dimensions 0..6 and b in 7..13, and has one neuron per pair.

    Attention is uniform, so each operand arrives with weight 1/3; neuron (a, b) is 1/2 for its own pair and 0 for
    any other, and writes the sum.
    """
    size = 2 * P
    config = ModelConfig(
        size + 1, P, 3, n_layers=1, d_model=size, d_head=size, d_mlp=(P * P,), mlp_bias=True
    )
    weights = {name: torch.zeros(shape) for name, shape in parameter_shapes(config).items()}
    weights["embed.W_E"][:size] = torch.eye(size)
    weights["blocks.0.attn.W_V"][0] = weights["blocks.0.attn.W_O"][0] = torch.eye(size)
    neuron = torch.arange(P * P)
    a, b = neuron // P, neuron % P
    weights["blocks.0.mlp.W_in"][a, neuron] = 3
    weights["blocks.0.mlp.W_in"][P + b, neuron] = 3
    weights["blocks.0.mlp.b_in"] -= 1.5
    weights["blocks.0.mlp.W_out"][neuron, (a + b) % P] = 40
    weights["unembed.W_U"][:P] = torch.eye(P)
    return HookedTransformer(config, weights).eval()


@pytest.fixture(scope="module")
def inputs():
    """Base and source: 120 pairs each, drawn independently."""
    task = ModularTask(p=P, train_share=0.5, diff_vocab=True)
    rng = np.random.default_rng(0)
    return [task.batch(rng.integers(0, P * P, 120)) for _ in range(2)]


def test_the_adder_adds(adder, inputs):
    logits = adder(torch.from_numpy(inputs[0].tokens))[:, -1]
    assert (logits.argmax(-1).numpy() == inputs[0].labels).all()


@pytest.mark.parametrize(
    ("site", "variable"),
    [
        (Site("resid_mid", 0, "equals"), "sum"),
        (Site("mlp_in", 0, "equals", subspace=LEFT), "left"),
        (Site("mlp_in", 0, "equals", subspace=RIGHT), "right"),
        (Site("v", 0, "lhs"), "left"),
        (Site("v", 0, "rhs", head=0), "right"),
        (Site("resid_pre", 0, ("lhs", "rhs")), "sum"),
        (Site("post", 0, "equals"), "sum"),
        (Site("mlp_out", 0, "equals"), "sum"),
    ],
)
def test_a_variable_is_found_where_it_was_put_and_the_controls_are_not_fooled(
    adder, inputs, site, variable
):
    found = interchange(adder, *inputs, site, variable)
    assert found.accuracy.value == 1
    assert found.stays.value == 0
    assert found.accuracy.n == len(found.rows) == found.hits.sum()
    for control in found.controls.values():
        assert control.value < 0.5
        assert control.n == found.accuracy.n
    whole = site.subspace is None
    assert ("random basis" in found.without) == whole
    assert set(found.controls) | set(found.without) == set(CONTROLS)


def test_the_wrong_variable_is_not_found(adder, inputs):
    swapped = Site("mlp_in", 0, "equals", subspace=RIGHT)
    assert interchange(adder, *inputs, swapped, "left", controls=()).accuracy.value < 0.4
    whole = interchange(adder, *inputs, Site("resid_mid", 0, "equals"), "left", controls=())
    assert whole.accuracy.value < 0.4


def test_half_of_the_neurons_hold_half_of_the_sums(adder, inputs):
    half = Site("post", 0, "equals", neurons=tuple(range(0, P * P, 2)))
    found = interchange(adder, *inputs, half)
    mine = (inputs[1].factors["pair"] % 2 == 0)[found.rows]
    base = (inputs[0].factors["pair"] % 2 == 0)[found.rows]
    assert found.hits[mine & base].all()
    assert not found.hits[~mine & ~base].any()
    assert "random basis" in found.controls


def test_pairs_that_show_nothing_are_left_out_and_counted(adder, inputs):
    base, source = inputs
    same = base.labels == source.labels
    found = interchange(adder, base, source, Site("mlp_out", 0), controls=())
    assert found.excluded["predicted answer is the base's own"] == same.sum()
    assert found.accuracy.n == (~same).sum()
    with pytest.raises(InputError, match="base's own"):
        interchange(adder, base, base, Site("mlp_out", 0))


def test_tables_and_figures(adder, inputs):
    found = interchange(adder, *inputs, Site("mlp_out", 0))
    points = found.figure(title="swap").data[0]
    assert list(points.y) == ["interchange", "keeps the base's answer", *CONTROLS[1:]]
    assert points.x[0] == found.accuracy.value
    start = f"Interchange(sum from mlp_out 0: predicted answer {found.accuracy}, keeps the base's"
    assert repr(found).startswith(start)
    assert f"placebo {found.controls['placebo'].value:.3f}" in repr(found)
    table = found.to_dataframe()
    assert table.what.tolist() == ["interchange", *CONTROLS[1:], "random basis"]
    assert table.share.isna().tolist() == [False] * 4 + [True]


def test_between_routes_a_place_may_move(model, routes):
    """Same result as patching the site, read off as answers."""
    base, source = routes[0]["both"], routes[1]["left"]
    site = Site("v", 1, "value of lhs")
    found = interchange(model, base, source, site, "left", controls=())
    want = predicted(base, source, "left", addition(7))

    def gives(logits, y, other):
        return (logits.argmax(-1) == torch.from_numpy(want)[found_rows][:, None]).double()

    differ = np.flatnonzero(base.labels != source.labels)
    found_rows = torch.from_numpy(differ)
    patched = patch(model, source, base, site, gives, direction="denoising").patched[0, 0]
    both = np.isin(differ, found.rows)
    assert patched[both].tolist() == found.hits[np.isin(found.rows, differ)].tolist()


def test_the_folded_swap_equals_the_stages(model, routes):
    base, source = routes[0]["both"], routes[1]["direct"]
    folded = fold(model.config, model.state_dict())
    runs = [folded(torch.from_numpy(b.tokens)) for b in (base, source)]
    basis = random_basis(16, 4, np.random.default_rng(0))
    wide = random_basis(20, 4, np.random.default_rng(1))
    cases = [
        ("resid_mid", {}),
        ("resid_mid", {"subspace": basis}),
        ("mlp_in", {}),
        ("mlp_in", {"subspace": basis}),
        ("post", {}),
        ("post", {"neurons": (1, 4, 9)}),
        ("post", {"subspace": wide}),
        ("mlp_out", {}),
    ]
    y = torch.from_numpy(base.labels)
    for hook, parts in cases:
        found = swapped_logits(folded, *runs, hook, **parts)
        site = Site(hook, 1, "equals", **parts)
        hooked = patch(model, source, base, site, "mean margin", direction="denoising")
        kept = torch.from_numpy(hooked.rows)
        p = found.shape[1]
        y = torch.from_numpy(source.labels)
        margin = p / (p - 1) * (found.gather(1, y[:, None])[:, 0] - found.mean(1))
        np.testing.assert_allclose(hooked.patched[0, 0], margin[kept], atol=1e-10)
    for hook, parts in (("z", {}), ("mlp_out", {"subspace": basis}), ("mlp_in", {"neurons": (1,)})):
        with pytest.raises(InputError):
            swapped_logits(folded, *runs, hook, **parts)


def test_other_sites_are_as_large_and_elsewhere(adder, rng):
    config = adder.config
    neurons = other_site(Site("post", 0, neurons=(0, 1, 2)), config, rng)
    assert len(neurons.neurons) == 3
    assert not set(neurons.neurons) & {0, 1, 2}
    most = other_site(Site("post", 0, neurons=tuple(range(40))), config, rng)
    assert len(most.neurons) == 40
    basis = other_site(Site("resid_mid", 0, subspace=LEFT), config, rng).subspace
    torch.testing.assert_close(basis.T @ basis, torch.eye(P, dtype=torch.float64))
    assert other_site(Site("resid_mid", 0), config, rng) is None


def test_the_placebo_moves_exactly_as_far(adder, inputs):
    from mechint_arith.interventions.located import locate
    from mechint_arith.interventions.placebo import placebo
    from mechint_arith.models.staged import Staged

    staged = Staged(adder, (2,))
    with torch.no_grad():
        runs = [staged.record(torch.from_numpy(b.tokens)) for b in inputs]
    every = torch.arange(120)
    rng = np.random.default_rng(0)
    columns = staged.columns((0, "resid_mid"))
    for site in (Site("resid_mid", 0, "equals"), Site("resid_mid", 0, "equals", subspace=LEFT)):
        real = tuple(locate(site, adder.config, b) for b in inputs)
        elsewhere = other_site(site, adder.config, rng) or site
        away = tuple(locate(elsewhere, adder.config, b) for b in inputs)
        move = placebo(staged, real, away, slice(0, None), *runs, 1)
        base, source = (real[0].take(r.values[0, "resid_mid"], every, columns) for r in runs)
        new = move.new(every, lambda base=base: base)
        got = away[0].put(runs[0].values[0, "resid_mid"].clone(), every, columns, new)
        distance = (source - base) @ LEFT if site.subspace is not None else source - base
        torch.testing.assert_close((got - base).norm(dim=-1), distance.norm(dim=-1))


def test_causal_predictions(inputs):
    base, source = inputs
    a, b = (batch.factors["a"] for batch in inputs)
    assert (predicted(base, source, "sum", addition(P)) == source.labels).all()
    assert (predicted(base, source, "left", addition(P)) == (b + base.factors["b"]) % P).all()
    assert (predicted(base, source, "right", addition(P)) == (a + source.factors["b"]) % P).all()
    product = ModularTask(p=P, op="mul", train_share=0.5)
    batch = product.batch(np.array([9, 17]))
    with pytest.raises(InputError, match="does not give the base batch's own answers"):
        predicted(batch, batch, "left", addition(P))
    found = predicted(batch, batch[::-1], "left", lambda x, y: product.answers[x, y])
    assert found.tolist() == [2 * 2 % P, 1 * 3 % P]
    with pytest.raises(InputError, match="no variable"):
        predicted(base, source, "value", addition(P))
    with pytest.raises(InputError, match="does not say its operands"):
        predicted(Batch(base.tokens, base.labels, 2), source, "sum", addition(P))


def test_a_search_finds_the_planted_subspace_and_its_controls_do_not(adder):
    task = ModularTask(p=P, train_share=0.5, diff_vocab=True)
    rng = np.random.default_rng(1)
    inputs = [task.batch(rng.integers(0, P * P, 500)) for _ in range(2)]
    search = Search(rank=P, epochs=12, batch_size=32, rate=0.05)
    found = align(adder, *inputs, Site("mlp_in", 0, "equals"), "left", search)
    assert found.held.accuracy.value > 0.9
    assert found.losses[-1] < found.losses[0]
    overlap = (LEFT.T @ found.basis).square().sum() / P
    assert overlap > 0.9
    assert set(found.controls) == set(CONTROLS)
    assert all(control.value < 0.6 for control in found.controls.values())
    torch.testing.assert_close(found.basis.T @ found.basis, torch.eye(P), rtol=0, atol=1e-5)


def test_searches_that_cannot_be_made(adder, inputs):
    site = Site("mlp_in", 0, "equals")
    for wrong in (
        Site("z", 0, "equals"),
        Site("mlp_in", 0),
        Site("mlp_in", 0, "equals", subspace=LEFT),
    ):
        with pytest.raises(InputError, match="the search"):
            align(adder, *inputs, wrong)
    with pytest.raises(InputError, match="HookedTransformer"):
        align(Transformer(adder.config, adder.state_dict()), *inputs, site)
    with pytest.raises(InputError, match="cannot be split"):
        align(adder, *(batch[:1] for batch in inputs), site)
    with pytest.raises(InputError, match="no control"):
        interchange(adder, *inputs, site, controls=("other",))
