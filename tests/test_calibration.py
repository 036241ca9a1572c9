"""Scores from made-up records, and a small calibration end to end on networks with random weights."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from mechint_arith import cli
from mechint_arith.calibration import running, scoring, shipped, table
from mechint_arith.calibration.grid import KINDS, Trial, trials
from mechint_arith.calibration.trial import early
from mechint_arith.errors import InputError
from mechint_arith.files import sha256
from mechint_arith.models import controls
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.controls.flags import FORMS
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.verdict import Thresholds

TASK = AssignAdd(p=5, n_vars=4, length=8, never_left=1, never_right=1)
RECIPE = {"steps": 9, "batch": 32, "lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.02}


def network(seed: int) -> Checkpoint:
    config = ModelConfig(
        d_vocab=len(TASK.vocab),
        d_vocab_out=TASK.p,
        n_ctx=TASK.length,
        d_model=16,
        d_head=16,
        d_mlp=(0, 24),
    )
    return Checkpoint(config, initial_weights(config, seed), TASK, 9, seed, {"recipe": RECIPE})


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    for seed in (0, 1):
        save(folder / f"seed_{seed}.safetensors", network(seed))
    return running.base_files([folder])


def record(kind, planted, found, *, sigma=None, branch="indices", name="one", base="a"):
    estimate = None if sigma is None else {"value": sigma, "low": sigma, "high": sigma, "n": 9}
    pair = {"planted": {"share": planted}, "verdict": found, "branch": branch, "sigma": estimate}
    pairs = dict.fromkeys(("direct-left", "direct-right", "direct-both"), pair)
    return {
        "trial": {"name": name, "kind": kind},
        "base": {"file": base, "sha256": base},
        "planted": {
            "change": {
                "largest logit change": 1e-5,
                "accuracy before, after": {"direct": [1.0, 0.9], "left": [0.9, 0.95]},
            }
        },
        "verdict": {"name": found},
        "pairs": pairs,
        "seconds": {"building": 1.0, "judging": 2.0},
    }


RECORDS = [
    record("split", 0.0, "separate", sigma=0.01, name="one"),
    record("split", 0.1, "shared", sigma=0.9, name="two", base="b"),
    record("shared", 1.0, "shared", sigma=0.99, name="three"),
    record("partial, random", 0.5, "partly shared", sigma=0.52, name="four"),
    record("partial, random", 0.4, "separate", sigma=0.1, name="five"),
    record("cancelling", None, "inconclusive", branch="cancellation", name="six"),
    record("untrained", None, "shared", sigma=1.0, name="seven"),
]


@pytest.mark.parametrize(
    ("planted", "word"),
    [
        (1.0, "shared"),
        (0.85, "shared"),
        (0.84, "partly shared"),
        (0.15, "separate"),
        (0, "separate"),
    ],
)
def test_planted_shares_get_the_rules_words(planted, word):
    assert scoring.word(float(planted), Thresholds()) == word


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["shared", "shared", "shared"], "shared"),
        (["shared", "separate", "separate"], "partly shared"),
        (["shared", "inconclusive", "separate"], "inconclusive"),
        (["not competent", "inconclusive", "separate"], "not competent"),
    ],
)
def test_words_of_pairs_combine_as_in_the_rule(words, word):
    assert scoring.model_word(words) == word


def test_scores_by_hand():
    scores = scoring.score(RECORDS)
    assert (scores.n_controls, scores.n_bases) == (7, 2)
    assert scores.pairs == Counter(
        {
            ("separate", "separate"): 3,
            ("separate", "shared"): 3,
            ("shared", "shared"): 3,
            ("partly shared", "partly shared"): 3,
            ("partly shared", "separate"): 3,
            ("inconclusive", "inconclusive"): 3,
            ("not competent", "shared"): 3,
        }
    )
    assert scores.models["separate", "shared"] == 1
    rates = {name: (e.value, e.n) for name, e in scores.rates.items() if e is not None}
    assert rates["planted separate, called shared (pairs)"] == (0.5, 6)
    assert rates["planted separate, called shared (controls)"] == (0.5, 2)
    assert rates["planted shared, called separate (pairs)"] == (0.0, 3)
    assert rates["planted not separate, called separate (controls)"] == (pytest.approx(1 / 3), 3)
    assert rates["no share to be told, called shared (controls)"] == (0.5, 2)
    random = scores.sigma["partial, random"]
    assert random.mean == pytest.approx(-0.14)
    assert random.largest == pytest.approx(0.3)
    assert (random.n, random.n_between, random.met) == (6, 6, False)
    assert scores.sigma["shared"].n_between == 0
    assert scores.sigma["shared"].met
    assert "cancelling" not in scores.sigma
    assert scores.branches["cancellation"] == 3
    assert scores.branches["disagreement"] == 0
    assert scores.branches["indices: separate"] == 6
    assert scores.accuracy_lost["split"] == pytest.approx(0.1)
    assert {pair.control for pair in scores.wrong} == {"two", "five", "seven"}


def test_tables_say_what_was_scored():
    scores = scoring.score(RECORDS)
    text = table.markdown(scores, "mechint-arith calibrate --out x")
    assert "7 control models from 2 base networks" in text
    assert "| separate | 3 | 0 | 3 | 0 | 0 |" in text
    assert "| partial, random | 6 | -0.140 | 0.160 | 0.300 | 6 | 0.160 | 0.030 | missed |" in text
    value = table.as_dict(scores, Thresholds(), {"command": "x"})
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert value["confusion"]["pairs"]["separate"]["shared"] == 3


def test_the_grid_is_large_and_varied():
    found = trials([59, 29, 29, 29, 29, 29], seed=100)
    assert len(found) >= 200
    assert len({trial.name for trial in found}) == len(found)
    assert len({trial.seed for trial in found}) == len(found)
    assert min(trial.seed for trial in found) == 100
    for kind in {kind.name for kind in KINDS if kind.takes_flag}:
        flags = {
            trial.options["flag"]
            for trial in found
            if "flag" in trial.options and trial.kind == kind
        }
        assert flags == set(FORMS)
    donors = {trial.base: trial.donor for trial in found if trial.make == "transplanted"}
    assert donors == {1: 2, 2: 3, 3: 4, 4: 5, 5: 1}
    shares = {trial.options.get("share") for trial in found}
    assert {0.1, 0.5, 0.9, 1.0} <= shares


def test_finished_trials_are_not_run_again(bases, tmp_path, monkeypatch):
    chosen = [t for t in trials([5, 5], seed=3) if t.make in ("split", "untrained")][:3]
    seen: list[str] = []
    records = running.run_trials(
        chosen, bases, tmp_path, workers=0, on_record=lambda r: seen.append(r["trial"]["name"])
    )
    assert seen == [trial.name for trial in chosen]
    assert [r["trial"]["name"] for r in records] == seen

    def fail(*_):
        raise AssertionError("was run again")

    monkeypatch.setattr(running, "_one", fail)
    again = running.run_trials(chosen, bases, tmp_path, workers=0)
    assert json.loads(json.dumps(records)) == again
    sha = sha256(bases[0])
    other = Trial(**{**chosen[0].__dict__, "seed": 999})
    assert running.finished(other, tmp_path, sha) is None
    assert running.finished(chosen[0], tmp_path, "another base") is None
    running.record_path(tmp_path, chosen[0]).write_text("{half")
    assert running.finished(chosen[0], tmp_path, sha) is None


def test_a_record_has_truth_and_verdict_side_by_side(bases, tmp_path):
    trial = next(t for t in trials([5, 5], seed=3) if t.make == "split")
    (found,) = running.run_trials([trial], bases, tmp_path, workers=0)
    assert set(found["pairs"]) == {
        "direct-left",
        "direct-right",
        "direct-both",
        "left-right",
        "left-both",
    }
    pair = found["pairs"]["direct-left"]
    assert {"planted", "verdict", "branch", "reason", "sigma", "swap", "overlap", "act"} == set(
        pair
    )
    assert pair["verdict"] == "not competent"
    assert "gates" not in found["planted"]


def test_an_early_network_follows_its_bases_recipe():
    base = network(0)
    one, same = (early(base, steps=3, seed=5) for _ in range(2))
    assert all(torch.equal(one.weights[name], same.weights[name]) for name in one.weights)
    assert one.step == 3
    assert not any(w.requires_grad for w in one.weights.values())
    with pytest.raises(InputError, match="carries its recipe"):
        early(Checkpoint(base.config, base.weights, TASK), steps=3, seed=0)


def test_every_kind_can_be_built(bases):
    made = {kind.make for kind in KINDS}
    assert made - {"early"} <= set(controls.__all__)
    assert np.all([isinstance(kind.options, dict) for kind in KINDS])


def test_the_command_writes_tables(bases, tmp_path):
    out = tmp_path / "calibration"
    arguments = ["calibrate", "--out", str(out), "--workers", "0", "--only", "untrained"]
    result = CliRunner().invoke(cli.app, [*arguments, "--base", str(bases[0].parent)])
    assert result.exit_code == 0, result.output
    value = json.loads((out / "calibration.json").read_text())
    assert value["n_controls"] == 2
    assert value["confusion"]["models"] == {
        "not competent": {
            name: 2 * (name == "not competent")
            for name in ("shared", "partly shared", "separate", "not competent", "inconclusive")
        }
    }
    assert "2 control models from 2 base networks" in (out / "calibration.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base", "nowhere"], "no base network nowhere"),
        (["--workers", "-1"], "cannot be negative"),
        (["--only", "magic"], "no kind of control contains magic"),
    ],
)
def test_faulty_options_are_named(bases, tmp_path, arguments, message):
    if "--base" not in arguments:
        arguments = [*arguments, "--base", str(bases[0].parent)]
    result = CliRunner().invoke(cli.app, ["calibrate", "--out", str(tmp_path / "c"), *arguments])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_a_folder_without_networks_is_refused(tmp_path):
    with pytest.raises(InputError, match="no base networks in"):
        running.base_files([tmp_path])


def test_the_numbers_that_the_package_quotes_are_those_of_the_published_calibration():
    """After a new calibration: python -m mechint_arith.calibration.shipped analyses/results/calibration.json"""
    published = Path(__file__).parents[1] / "analyses" / "results" / "calibration.json"
    assert shipped.shipped() == shipped.excerpt(json.loads(published.read_text()))
    said = shipped.error_rate(Thresholds())
    assert f"on {shipped.shipped()['n_controls']} control models with planted truth" in said
    assert "0 of 0 " not in said
    assert "not measured" in shipped.error_rate(Thresholds(shared=0.5))
