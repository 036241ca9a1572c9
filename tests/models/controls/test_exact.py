"""Rewrites that compute what their base computes: the planted truth is what is really there."""

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models import controls
from mechint_arith.models.checkpoint import Checkpoint, read, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.flags import FORMS, SCORE, add_flag, alive, highest_input
from mechint_arith.models.controls.truth import ROUTE_PAIRS, effects
from mechint_arith.models.folded import fold
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import pools
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched

TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
BASES = {
    "random": {},
    "two heads": {"n_heads": 2, "d_head": 8},
    "biases": {"attn_bias": True, "mlp_bias": True, "unembed_bias": True},
}
EXACT = {
    "shared, permuted": lambda base: controls.shared(base, disguise="permuted", seed=1),
    "shared, scaled": lambda base: controls.shared(base, seed=2),
    "shared, halves": lambda base: controls.shared(base, disguise="halves", seed=3),
    "unread flag": lambda base: controls.shared(base, flag="left", flag_size=30.0, seed=4),
    **{f"split, {f}": lambda base, f=f: controls.split(base, flag=f, seed=5) for f in FORMS},
    "split, scaled": lambda base: controls.split(base, scaled=True, seed=6),
    "partial, random": lambda base: controls.partial(base, 0.4, seed=7),
    "partial, important": lambda base: controls.partial(base, 0.3, choice="important", seed=8),
    "partial, unimportant": lambda base: controls.partial(base, 0.5, choice="unimportant", seed=9),
    "partial, strength": lambda base: controls.partial(base, 0.7, choice="strength", seed=10),
    "partial, all": lambda base: controls.partial(base, 1.0, flag="any", seed=11),
    "cancelling": lambda base: controls.cancelling(base, seed=12),
    "cancelling, split": lambda base: controls.cancelling(base, flag="left", seed=13),
}


def logits_by_pool(checkpoint: Checkpoint, *, plain: bool, n: int = 300):
    """Yield pool name and logits at `=`, by the folded form or by the plain forward pass."""
    task = checkpoint.task
    fast = fold(checkpoint.config, checkpoint.weights, read=task.places["equals"])
    network = Transformer(checkpoint.config, checkpoint.weights)
    for i, name in enumerate(pools.pool_names(task)):
        batch = pools.pool(task, name, n, np.random.default_rng(i))
        tokens = torch.from_numpy(batch.tokens)
        with torch.no_grad():
            logits = network(tokens)[:, batch.read] if plain else fast(tokens).logits
        yield name, logits


def assert_same_function(base: Checkpoint, made: Checkpoint, *, n: int = 300) -> None:
    for plain in (False, True):
        pairs = zip(
            logits_by_pool(base, plain=False, n=n),
            logits_by_pool(made, plain=plain, n=n),
            strict=True,
        )
        for (name, old), (_, new) in pairs:
            assert (old - new).abs().max() < 1e-3, (name, plain)


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        *(("random", kind) for kind in EXACT),
        *(
            (base, kind)
            for base in ("two heads", "biases")
            for kind in ("unread flag", "split, any")
        ),
        ("biases", "partial, strength"),
    ],
)
def test_rewrites_keep_the_logits_of_every_pool(base, kind, random_model):
    model = random_model(**BASES[base])
    made = EXACT[kind](model)
    assert_same_function(model, made)
    assert made.meta["planted"]["change"]["largest logit change"] < 1e-3
    assert made.config.d_head == model.config.d_head


@pytest.mark.parametrize("kind", ["unread flag", "partial, important"])
def test_rewrites_of_the_released_run(reference, kind):
    weights = torch.load(
        reference / "assign_and_add" / "checkpoint_step_30001.pth",
        weights_only=True,
        map_location="cpu",
    )
    task = AssignAdd()
    config = ModelConfig(d_vocab=len(task.vocab), d_vocab_out=task.p, n_ctx=task.length)
    base = Checkpoint(config, Transformer(config, _ours(weights, config)).state_dict(), task)
    assert_same_function(base, EXACT[kind](base), n=100)


def _ours(weights, config):
    from mechint_arith.models.config import parameter_shapes

    return {name: weights[name] for name in parameter_shapes(config)}


@pytest.mark.parametrize(
    "kind", ["unread flag", "split, any", "partial, strength", "cancelling, split"]
)
def test_rewrites_of_a_trained_network(trained, kind):
    assert_same_function(trained, EXACT[kind](trained), n=200)


def test_gates_are_exact_zeros_on_every_prompt(random_model):
    base = random_model()
    made = controls.partial(base, 0.25, flag="any", scaled=True, seed=3)
    gates = np.array([int(g) for g in made.meta["planted"]["gates"]])
    is_open = alive(gates, "any")
    folded = fold(made.config, made.weights, read=TASK.places["equals"])
    for i, name in enumerate(pools.pool_names(TASK)):
        batch = pools.pool(TASK, name, 500, np.random.default_rng(i))
        post = folded(torch.from_numpy(batch.tokens)).post.numpy()
        assert (post[~is_open[:, batch.factors["form"]].T] == 0).all()
        assert (post > 0).any()


@pytest.mark.parametrize("flag", FORMS)
def test_a_flag_is_set_on_its_routes_only(flag, random_model):
    draft = Draft.of(random_model())
    added = add_flag(draft, flag, size=3.0)
    for route, batch in matched(TASK, np.arange(49), np.random.default_rng(0)).items():
        run = draft.folded(torch.from_numpy(batch.tokens))
        wanted = 3.0 * FORMS[flag].routes[ROUTES.index(route)]
        assert (run.resid_mid[:, added.dimension] - wanted).abs().max() < 100 * np.exp(-SCORE)
        assert (run.resid_mid[:, added.constant] == 1).all()
        assert (run.patterns[0][:, -1, -1].amax(-1) > 0.49).all()


def test_the_highest_input_bounds_every_prompt(random_model):
    draft = Draft.of(random_model(n_heads=2, attn_bias=True, mlp_bias=True))
    bound = highest_input(draft.folded, draft.neurons)
    for name in pools.pool_names(TASK):
        batch = pools.pool(TASK, name, 1000, np.random.default_rng(1))
        run = draft.folded(torch.from_numpy(batch.tokens))
        pre = run.resid_mid @ draft.neurons.w_in + draft.neurons.b_in
        assert (pre.amax(0) <= bound + 1e-9).all()


def test_effects_equal_ablation_by_the_plain_forward_pass(random_model):
    base = random_model()
    double = {name: w.double() for name, w in base.weights.items()}
    folded = fold(base.config, double, read=TASK.places["equals"])
    found = effects(folded, TASK, np.random.default_rng(4))
    batches = matched(TASK, np.arange(49), np.random.default_rng(4))
    for route, batch in batches.items():
        tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)

        def margin(weights, tokens=tokens, labels=labels, read=batch.read):
            with torch.no_grad():
                z = Transformer(base.config, weights)(tokens)[:, read]
            answer = z.gather(1, labels[:, None])[:, 0]
            return (answer - (z.sum(1) - answer) / (TASK.p - 1)).mean()

        for neuron in (0, 7, 23):
            w_out = double["blocks.1.mlp.W_out"].clone()
            w_out[neuron] = 0
            damage = margin(double) - margin({**double, "blocks.1.mlp.W_out": w_out})
            assert damage.item() == pytest.approx(found[route][neuron], abs=1e-10)


@pytest.mark.parametrize("flag", FORMS)
def test_a_split_is_planted_between_routes_that_differ_in_the_flag(flag, random_model):
    made = controls.split(random_model(), flag=flag, seed=0)
    assert made.meta["planted"]["kind"] == "split"
    is_set = dict(zip(ROUTES, FORMS[flag].routes, strict=True))
    for one, two in ROUTE_PAIRS:
        share = made.meta["planted"]["truth"][f"{one}-{two}"]["share"]
        assert share == pytest.approx(1.0 if is_set[one] == is_set[two] else 0.0)


def test_planted_shares_are_shares_of_effect(random_model):
    base = random_model()
    strength = controls.partial(base, 0.3, choice="strength", seed=1)
    assert _share_of(strength) == pytest.approx(0.3, abs=1e-6)
    important = controls.partial(base, 0.5, choice="important", seed=1)
    unimportant = controls.partial(base, 0.5, choice="unimportant", seed=1)
    assert _share_of(important) > 0.7
    assert _share_of(unimportant) < 0.3
    gates = np.array([int(g) for g in important.meta["planted"]["gates"]])
    folded = fold(important.config, important.weights, read=TASK.places["equals"])
    effect = effects(folded, TASK, np.random.default_rng(8))
    for route in ("direct", "left"):
        positive = effect[route].clip(0)
        recorded = important.meta["planted"]["truth"]["direct-left"][route]
        assert positive[gates == 0].sum() / positive.sum() == pytest.approx(recorded, abs=0.05)


def _share_of(made: Checkpoint) -> float:
    return made.meta["planted"]["truth"]["direct-left"]["share"]


def test_nothing_is_axis_aligned_and_seeds_decide(random_model):
    base = random_model()
    one, same, other = (controls.split(base, seed=s).weights for s in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    w_in, w_e = one["blocks.1.mlp.W_in"], one["embed.W_E"]
    assert not torch.allclose(w_in, other["blocks.1.mlp.W_in"])
    assert (w_e.abs() > 1e-6).double().mean() > 0.99
    assert (w_in.abs() > 1e-6).double().mean() > 0.99


def test_cancelling_copies_work_against_the_answer(random_model):
    made = controls.cancelling(random_model(), strength=2.0, seed=1)
    for entry in made.meta["planted"]["truth"].values():
        assert entry == {"share": None, "why": "neurons cancel: sharing is not identifiable"}
    folded = fold(made.config, made.weights, read=TASK.places["equals"])
    for effect in effects(folded, TASK, np.random.default_rng(0)).values():
        assert np.maximum(-effect, 0).sum() / np.abs(effect).sum() > 0.3


def test_truth_survives_the_file(tmp_path, random_model):
    made = controls.partial(random_model(), 0.5, seed=2)
    save(tmp_path / "control.safetensors", made)
    again = read(tmp_path / "control.safetensors")
    assert again.meta["planted"] == made.meta["planted"]
    assert again.meta["recipe"] == "random"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"act_fn": "gelu"}, "its neurons are gelu: only ReLU can be scaled and silenced exactly"),
        ({"norm": "rms"}, "it normalises the residual stream"),
        ({"n_layers": 1, "d_mlp": (24,)}, "the flag needs a layer before the last"),
        ({"d_mlp": (0, 0)}, "it has no MLP"),
        ({"attn_mix": 0.5}, "its attention is mixed or not causal"),
    ],
)
def test_models_that_cannot_be_rewritten_are_refused(options, reason, random_model):
    with pytest.raises(InputError, match=reason):
        controls.split(random_model(**options), seed=0)
