"""Controls compute what their base computes, and the planted truth is what is really there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mechint_arith.errors import InputError
from mechint_arith.models import controls
from mechint_arith.models.checkpoint import Checkpoint, read, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.controls import lookup
from mechint_arith.models.controls.draft import Draft
from mechint_arith.models.controls.flags import FORMS, SCORE, add_flag, alive, highest_input
from mechint_arith.models.controls.truth import ROUTE_PAIRS, effects
from mechint_arith.models.folded import fold
from mechint_arith.models.init import initial_weights
from mechint_arith.models.transformer import Transformer
from mechint_arith.tasks import pools
from mechint_arith.tasks.assign_add import ROUTES, AssignAdd, matched

ROOT = Path(__file__).parents[2]
TASK = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)


def random_model(*, seed: int = 0, **options) -> Checkpoint:
    """A network with random weights and logits of a few units."""
    config = ModelConfig(
        d_vocab=len(TASK.vocab),
        d_vocab_out=TASK.p,
        n_ctx=TASK.length,
        **{"d_model": 16, "d_head": 16, "d_mlp": (0, 24), **options},
    )
    weights = {name: 1.5 * w for name, w in initial_weights(config, seed).items()}
    generator = torch.Generator().manual_seed(seed)
    for name, w in weights.items():
        if ".b_" in name:
            w.normal_(0, 0.3, generator=generator)
    return Checkpoint(config, weights, TASK, 5, seed, {"recipe": "random"})


BASES = {
    "random": lambda: random_model(),
    "two heads": lambda: random_model(n_heads=2, d_head=8),
    "biases": lambda: random_model(attn_bias=True, mlp_bias=True, unembed_bias=True),
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
def test_rewrites_keep_the_logits_of_every_pool(base, kind):
    model = BASES[base]()
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


def test_gates_are_exact_zeros_on_every_prompt():
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
def test_a_flag_is_set_on_its_routes_only(flag):
    draft = Draft.of(random_model())
    added = add_flag(draft, flag, size=3.0)
    for route, batch in matched(TASK, np.arange(49), np.random.default_rng(0)).items():
        run = draft.folded(torch.from_numpy(batch.tokens))
        wanted = 3.0 * FORMS[flag].routes[ROUTES.index(route)]
        assert (run.resid_mid[:, added.dimension] - wanted).abs().max() < 100 * np.exp(-SCORE)
        assert (run.resid_mid[:, added.constant] == 1).all()
        assert (run.patterns[0][:, -1, -1].amax(-1) > 0.49).all()


def test_the_highest_input_bounds_every_prompt():
    draft = Draft.of(random_model(n_heads=2, attn_bias=True, mlp_bias=True))
    bound = highest_input(draft.folded, draft.neurons)
    for name in pools.pool_names(TASK):
        batch = pools.pool(TASK, name, 1000, np.random.default_rng(1))
        run = draft.folded(torch.from_numpy(batch.tokens))
        pre = run.resid_mid @ draft.neurons.w_in + draft.neurons.b_in
        assert (pre.amax(0) <= bound + 1e-9).all()


def test_effects_equal_ablation_by_the_plain_forward_pass():
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
def test_a_split_is_planted_between_routes_that_differ_in_the_flag(flag):
    made = controls.split(random_model(), flag=flag, seed=0)
    assert made.meta["planted"]["kind"] == "split"
    is_set = dict(zip(ROUTES, FORMS[flag].routes, strict=True))
    for one, two in ROUTE_PAIRS:
        share = made.meta["planted"]["truth"][f"{one}-{two}"]["share"]
        assert share == pytest.approx(1.0 if is_set[one] == is_set[two] else 0.0)


def test_planted_shares_are_shares_of_effect():
    base = random_model()
    strength = controls.partial(base, 0.3, choice="strength", seed=1)
    assert share_of(strength) == pytest.approx(0.3, abs=1e-6)
    important = controls.partial(base, 0.5, choice="important", seed=1)
    unimportant = controls.partial(base, 0.5, choice="unimportant", seed=1)
    assert share_of(important) > 0.7
    assert share_of(unimportant) < 0.3
    gates = np.array([int(g) for g in important.meta["planted"]["gates"]])
    folded = fold(important.config, important.weights, read=TASK.places["equals"])
    effect = effects(folded, TASK, np.random.default_rng(8))
    for route in ("direct", "left"):
        positive = effect[route].clip(0)
        recorded = important.meta["planted"]["truth"]["direct-left"][route]
        assert positive[gates == 0].sum() / positive.sum() == pytest.approx(recorded, abs=0.05)


def share_of(made: Checkpoint) -> float:
    return made.meta["planted"]["truth"]["direct-left"]["share"]


def test_nothing_is_axis_aligned_and_seeds_decide():
    base = random_model()
    one, same, other = (controls.split(base, seed=s).weights for s in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    w_in, w_e = one["blocks.1.mlp.W_in"], one["embed.W_E"]
    assert not torch.allclose(w_in, other["blocks.1.mlp.W_in"])
    assert (w_e.abs() > 1e-6).double().mean() > 0.99
    assert (w_in.abs() > 1e-6).double().mean() > 0.99


def test_cancelling_copies_work_against_the_answer():
    made = controls.cancelling(random_model(), strength=2.0, seed=1)
    for entry in made.meta["planted"]["truth"].values():
        assert entry == {"share": None, "why": "neurons cancel: sharing is not identifiable"}
    folded = fold(made.config, made.weights, read=TASK.places["equals"])
    for effect in effects(folded, TASK, np.random.default_rng(0)).values():
        assert np.maximum(-effect, 0).sum() / np.abs(effect).sum() > 0.3


def test_leaking_copies_serve_every_route():
    base = helpful(random_model())
    made = controls.leaky(base, leak=0.25, flag="any", seed=1)
    truth = made.meta["planted"]["truth"]
    assert truth["left-right"]["share"] == pytest.approx(1.0)
    assert truth["direct-left"] == {
        "share": None,
        "why": "every neuron serves both routes, at different strengths",
    }
    folded = fold(made.config, made.weights, read=TASK.places["equals"])
    for batch in matched(TASK, np.arange(49), np.random.default_rng(0)).values():
        assert (folded(torch.from_numpy(batch.tokens)).post > 0).double().mean() > 0.1
    with pytest.raises(InputError, match="works against the right answer"):
        controls.leaky(helpful(base, sign=-1), seed=1)


def helpful(base: Checkpoint, *, sign: int = 1) -> Checkpoint:
    """The same network with its MLP's output turned so that it works for (or against) the answer."""
    folded = fold(base.config, base.weights, read=TASK.places["equals"])
    total = sum(e.sum() for e in effects(folded, TASK, np.random.default_rng(0)).values())
    w_out = base.weights["blocks.1.mlp.W_out"] * float(np.sign(total)) * sign
    return replace(base, weights={**base.weights, "blocks.1.mlp.W_out": w_out})


@pytest.mark.parametrize("frequencies", [None, (1, 3)])
def test_a_second_algorithm_leaves_the_routes_without_flag_alone(frequencies):
    base = random_model()
    made = controls.second_algorithm(
        base, flag="left", frequencies=frequencies, fit_steps=50, seed=1
    )
    assert clear_routes_kept(base, made, "left")
    assert share_of(made) == 0
    control = made.meta["planted"]
    assert control["change"]["largest logit change"] > 1e-3
    assert control["options"]["frequencies"] == (list(frequencies) if frequencies else None)


def test_the_least_used_frequencies_can_be_taken():
    made = controls.second_algorithm(random_model(), frequencies=2, fit_steps=2, seed=1)
    chosen = made.meta["planted"]["options"]["frequencies"]
    values = Draft.of(random_model()).folded.values[0, 0, : TASK.p].numpy()
    energy = (np.abs(np.fft.rfft(values, axis=0)[1:]) ** 2).sum(1)
    assert chosen == sorted((np.argsort(energy)[:2] + 1).tolist())


def test_half_of_a_second_algorithm_can_stay_shared():
    made = controls.second_algorithm(random_model(), flag="left", share=0.5, fit_steps=50, seed=1)
    entry = made.meta["planted"]["truth"]["direct-left"]
    assert entry["direct"] == pytest.approx(0.5, abs=1e-6)
    assert 0.2 < entry["left"] < 0.8


def test_a_transplant_is_the_donors_mlp_on_its_routes():
    base, donor = random_model(), random_model(seed=9)
    made = controls.transplanted(base, donor, flag="any", seed=1)
    assert clear_routes_kept(base, made, "any")
    assert made.meta["planted"]["options"]["donor seed"] == 9
    assert made.meta["planted"]["options"]["input R2"] > 0.3
    assert len(made.meta["planted"]["gates"]) == 48


def clear_routes_kept(base: Checkpoint, made: Checkpoint, flag: str) -> bool:
    old, new = (fold(m.config, m.weights, read=TASK.places["equals"]) for m in (base, made))
    batches = matched(TASK, np.arange(49), np.random.default_rng(5))
    kept = []
    for route, is_set in zip(ROUTES, FORMS[flag].routes, strict=True):
        tokens = torch.from_numpy(batches[route].tokens)
        change = (old(tokens).logits - new(tokens).logits).abs().max()
        kept.append((change < 1e-3) != is_set)
    return all(kept)


@pytest.mark.parametrize("mlp", ["kept", "silent"])
@pytest.mark.parametrize("base", BASES)
def test_attention_adds_on_direct_queries_alone(base, mlp):
    model = BASES[base]()
    made = controls.attention_adds(model, mlp=mlp, seed=1)
    old, new = (fold(m.config, m.weights, read=TASK.places["equals"]) for m in (model, made))
    for route, batch in matched(TASK, np.arange(49), np.random.default_rng(0)).items():
        tokens, labels = torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels)
        run = new(tokens)
        if route == "direct":
            without_mlp = run.logits - run.post @ new.w_logit
            assert (without_mlp.argmax(-1) == labels).all()
            assert bool((run.post == 0).all()) == (mlp == "silent")
        else:
            assert (run.logits - old(tokens).logits).abs().max() < 2e-3


def test_best_frequencies_have_the_largest_gap():
    assert lookup.best_frequencies(7, 1)[1] == pytest.approx(1 - np.cos(2 * np.pi / 7))
    chosen, gap = lookup.best_frequencies(29, 2)
    assert chosen == [3, 7]
    assert gap == pytest.approx(
        min(
            2 - np.cos(2 * np.pi * 3 * d / 29) - np.cos(2 * np.pi * 7 * d / 29)
            for d in range(1, 29)
        )
    )


def test_truth_survives_the_file(tmp_path):
    made = controls.partial(random_model(), 0.5, seed=2)
    save(tmp_path / "control.safetensors", made)
    again = read(tmp_path / "control.safetensors")
    assert again.meta["planted"] == made.meta["planted"]
    assert again.meta["recipe"] == "random"


def test_an_untrained_network_has_the_shape_of_its_base():
    base = random_model()
    made = controls.untrained(base, seed=4)
    assert made.config == base.config
    entry = {"share": None, "why": "the network was never trained"}
    assert list(made.meta["planted"]["truth"].values()) == [entry] * 5
    assert not torch.equal(made.weights["embed.W_E"], base.weights["embed.W_E"])


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
def test_models_that_cannot_be_rewritten_are_refused(options, reason):
    with pytest.raises(InputError, match=reason):
        controls.split(random_model(**options), seed=0)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda b: controls.split(b, flag="middle", seed=0), "no flag 'middle'"),
        (lambda b: controls.shared(b, disguise="hat", seed=0), "no disguise 'hat'"),
        (lambda b: controls.partial(b, 1.5, seed=0), r"lies in \[0, 1\]; got 1.5"),
        (lambda b: controls.partial(b, 0.5, choice="best", seed=0), "no choice 'best'"),
        (lambda b: controls.cancelling(b, strength=0.0, seed=0), "need a positive strength"),
        (lambda b: controls.leaky(b, leak=1.0, seed=0), "between 0 and 1; got 1.0"),
        (lambda b: controls.second_algorithm(b, frequencies=(4,), seed=0), "from 1 to 3"),
        (lambda b: controls.second_algorithm(b, share=1.0, seed=0), "lies in"),
        (lambda b: controls.attention_adds(b, mlp="loud", seed=0), "'kept' or 'silent'"),
        (lambda b: controls.attention_adds(b, n_frequencies=4, seed=0), "1 to 3 frequencies"),
        (
            lambda b: controls.transplanted(b, replace(b, task=AssignAdd(p=7)), seed=0),
            "a donor must read the same prompts",
        ),
    ],
)
def test_faulty_options_are_named(make, reason):
    with pytest.raises(InputError, match=reason):
        make(random_model())


@pytest.fixture(scope="module")
def trained() -> Checkpoint:
    """A shipped network that solves every route on seen pairs."""
    return read(ROOT / "checkpoints" / "bases" / "seed_1.safetensors")


@pytest.mark.parametrize(
    "kind", ["unread flag", "split, any", "partial, strength", "cancelling, split"]
)
def test_rewrites_of_a_trained_network(trained, kind):
    assert_same_function(trained, EXACT[kind](trained), n=200)


@pytest.mark.parametrize(
    ("make", "lost"),
    [
        (lambda b: controls.second_algorithm(b, fit_steps=300, seed=1), 0.02),
        (lambda b: controls.second_algorithm(b, frequencies=6, fit_steps=600, seed=1), 0.1),
        (lambda b: controls.leaky(b, seed=1), 0.01),
        (lambda b: controls.attention_adds(b, seed=1), 0.001),
        (lambda b: controls.attention_adds(b, mlp="silent", seed=1), 0.001),
    ],
    ids=["distilled", "other frequencies", "leaky", "attention adds", "attention alone"],
)
def test_other_controls_keep_the_accuracy_of_a_trained_network(trained, make, lost):
    change = make(trained).meta["planted"]["change"]
    assert change["largest logit change"] > 0.1
    for before, after in change["accuracy before, after"].values():
        assert before > 0.97
        assert after > before - lost


def test_a_transplant_keeps_the_accuracy_of_a_trained_network(trained):
    donor = read(ROOT / "checkpoints" / "bases" / "seed_6.safetensors")
    planted = controls.transplanted(trained, donor, flag="any", seed=1).meta["planted"]
    assert planted["options"]["input R2"] > 0.8
    for before, after in planted["change"]["accuracy before, after"].values():
        assert after > before - 0.05
