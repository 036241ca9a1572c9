"""The sequence builder against a reader that knows nothing of how sequences are built."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from mechint_arith.errors import InputError
from mechint_arith.tasks import pools, splits
from mechint_arith.tasks.assign_add import (
    BOTH,
    DIRECT,
    LEFT,
    RIGHT,
    ROUTES,
    AssignAdd,
    build,
    matched,
)
from mechint_arith.tasks.prompts import from_text

TASK = AssignAdd()
ODD_TASKS = [
    AssignAdd(p=2, n_vars=2, length=8, never_left=0, never_right=0),
    AssignAdd(p=7, n_vars=3, length=9, never_left=1, never_right=1),
    AssignAdd(p=10, n_vars=4, length=8, never_left=1, never_right=0),
    AssignAdd(p=23, n_vars=30, length=40, never_left=3, never_right=5),
]


def read_by_hand(task: AssignAdd, tokens: np.ndarray) -> tuple[int, dict[str, int]]:
    """Answer a sequence by reading it, token by token."""
    words = task.vocab.decode(tokens)
    assert words[-4] == "+"
    assert words[-1] == "="
    value: dict[str, int] = {}
    i = 0
    while i < len(words) - 4:
        if words[i] != "PAD":
            assert not words[i].isdigit()
            assert words[i] not in value
            value[words[i]] = int(words[i + 1])
            i += 1
        i += 1
    operands = [value[w] if w in value else int(w) for w in words[-3:-1]]
    return sum(operands) % task.p, value


@pytest.mark.parametrize("task", [TASK, *ODD_TASKS], ids=lambda t: f"p{t.p}")
def test_labels_and_places_are_what_a_reader_finds(task):
    batch = pools.Mixture(task).sample(800, np.random.default_rng(1))
    for row in range(len(batch)):
        label, value = read_by_hand(task, batch.tokens[row])
        assert label == batch.labels[row]
        assert len(value) == batch.factors["assignments"][row]
        for operand, number in (("lhs", "a"), ("rhs", "b")):
            place = batch.positions[f"value of {operand}"][row]
            assert batch.tokens[row, place] == batch.factors[number][row]
            variable = batch.positions[f"variable of {operand}"][row]
            query = batch.tokens[row, batch.positions[operand][row]]
            if variable >= 0:
                assert place == variable + 1
                assert batch.tokens[row, variable] == query
            else:
                assert query == batch.factors[number][row]


GOLDEN = [
    ("a 7 b 12 + a b =", [61] * 8 + [62, 7, 63, 12, 59, 62, 63, 60], 19, BOTH),
    ("+ 58 58 =", [61] * 12 + [59, 58, 58, 60], 57, DIRECT),
    ("l 3 PAD*6 k 0 + l 58 =", [61, 61, 73, 3] + [61] * 6 + [72, 0, 59, 73, 58, 60], 2, LEFT),
    ("c 30 PAD + 30 c =", [61] * 9 + [64, 30, 61, 59, 30, 64, 60], 1, RIGHT),
]


@pytest.mark.parametrize(("text", "tokens", "label", "form"), GOLDEN)
def test_golden_prompts(text, tokens, label, form):
    batch = from_text(TASK, [text])
    assert batch.tokens[0].tolist() == tokens
    assert batch.labels[0] == label
    assert batch.factors["form"][0] == form


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a 7 + a b =", "b is not assigned"),
        ("a 7 a 8 + a 3 =", "assigned twice"),
        ("a 7 b + a 3 =", "expected 'variable number' at 'b'"),
        ("7 a + a 3 =", "expected 'variable number' at '7'"),
        ("a 7 b 12 a b", "expected assignments"),
        ("+ 59 3 =", "unknown symbol '59'"),
        ("+ = 3 =", "neither a number nor a variable"),
        ("PAD*20 + 1 2 =", "24 tokens"),
    ],
)
def test_bad_prompts_say_what_is_wrong(text, complaint):
    with pytest.raises(InputError, match=complaint):
        from_text(TASK, [text])


def test_the_seed_42_split_is_the_released_one():
    seen = splits.seen_pairs(59, 0.7, 42)
    assert seen.sum() == 2436
    stratum = splits.strata(np.flatnonzero(~seen), seen, 59)
    assert np.bincount(stratum).tolist() == [723, 302, 20]


def test_variable_pairs_by_broken_rules():
    assert [len(TASK.variable_pairs(v)) for v in range(3)] == [92, 36, 4]


def test_training_mixture():
    batch = pools.Mixture(TASK).sample(200_000, np.random.default_rng(0))
    form, count = batch.factors["form"], batch.factors["assignments"]
    expected = np.array([12, 10, 10, 10]) / 42 * len(batch)
    assert stats.chisquare(np.bincount(form), expected).pvalue > 1e-4
    assert TASK.seen[batch.factors["pair"]].all()
    for f in (DIRECT, LEFT, RIGHT):
        observed = np.bincount(count[form == f], minlength=7)[1:]
        assert stats.chisquare(observed).pvalue > 1e-4
    two = np.bincount(count[form == BOTH], minlength=7)[2:]
    assert stats.chisquare(two, np.array([2, 1, 1, 1, 1]) / 6 * two.sum()).pvalue > 1e-4
    left, right = batch.factors["left variable"], batch.factors["right variable"]
    assert left[form == LEFT].max() == 9
    assert right[form == RIGHT].min() == 2
    pair = left[form == BOTH] * 12 + right[form == BOTH]
    allowed = TASK.variable_pairs() @ [12, 1]
    observed = np.bincount(pair, minlength=144)[allowed]
    assert observed.sum() == len(pair)
    assert stats.chisquare(observed).pvalue > 1e-4


def test_prefix_is_uniform_over_variables_values_order_and_gaps():
    """Assignments are exchangeable, PADs multinomial over the gaps, values uniform."""
    rng = np.random.default_rng(5)
    batch = pools.Mixture(TASK).sample(300_000, rng)
    three = batch[(batch.factors["assignments"] == 3) & (batch.factors["form"] == BOTH)]
    start = np.flatnonzero((three.tokens[:, :12] >= 62).ravel()).reshape(-1, 3) % 12
    gaps = (
        np.diff(
            np.concatenate(
                [np.zeros((len(start), 1), int) - 2, start, np.full((len(start), 1), 12)], 1
            )
        )
        - 2
    )
    for gap in gaps.T:
        observed = np.bincount(gap, minlength=7)
        expected = stats.binom.pmf(np.arange(7), 6, 0.25) * len(gap)
        assert stats.chisquare(observed, expected).pvalue > 1e-4
    slot = (three.positions["variable of lhs"][:, None] > start).sum(1)
    assert stats.chisquare(np.bincount(slot)).pvalue > 1e-4
    other = (three.positions["variable of rhs"][:, None] > start).sum(1)
    assert stats.chisquare(np.bincount(slot * 3 + other)[[1, 2, 3, 5, 6, 7]]).pvalue > 1e-4
    # Operand values follow the seen pairs, so only the direct form's assignments are all distractors.
    prefix = batch.tokens[batch.factors["form"] == DIRECT, :12]
    values = prefix[:, 1:][prefix[:, :-1] >= 62]
    assert stats.chisquare(np.bincount(values)).pvalue > 1e-4
    names = prefix[prefix >= 62]
    assert stats.chisquare(np.bincount(names - 62)).pvalue > 1e-4


@pytest.mark.parametrize("name", pools.POOLS)
def test_pools_obey_their_rules(name):
    rule = pools.POOLS[name]
    batch = pools.pool(TASK, name, 2000, np.random.default_rng(3))
    assert set(batch.factors["form"]) == set(rule.forms)
    assert (TASK.seen[batch.factors["pair"]] == (not rule.held)).all()
    left, right = batch.factors["left variable"], batch.factors["right variable"]
    broken = (left >= 10).astype(int) + np.isin(right, [0, 1])
    assert (broken == rule.violations).all()
    if BOTH in rule.forms:
        assert set(batch.factors["assignments"]) == {2, 3, 4, 5, 6}


def test_cells_and_exhaustive_sets():
    batch = pools.cells(TASK, 5, np.random.default_rng(0))
    assert np.bincount(batch.factors["cell"]).tolist() == [5] * 24
    assert [pools.is_restricted(TASK, c) for c in range(24)].count(True) == 4
    every = [
        len(pools.exhaustive(TASK, "both", held=h, violations=v, rng=np.random.default_rng(0)))
        for h, v in ((True, 0), (False, 1), (False, 2))
    ]
    assert sum(every) == 193_580
    assert len(pools.exhaustive(TASK, "direct", held=True, rng=np.random.default_rng(0))) == 1045


def test_matched_prompts_differ_only_in_the_query():
    pair = np.arange(59 * 59)
    routes = matched(TASK, pair, np.random.default_rng(0))
    assert list(routes) == list(ROUTES)
    first = routes["direct"].tokens
    for route, batch in routes.items():
        assert (batch.tokens[:, :13] == first[:, :13]).all()
        assert (batch.labels == (pair // 59 + pair % 59) % 59).all()
        has_left, has_right = route in ("left", "both"), route in ("right", "both")
        assert ((batch.tokens[:, 13] >= 62) == has_left).all()
        assert ((batch.tokens[:, 14] >= 62) == has_right).all()
        for row in range(0, len(batch), 97):
            assert read_by_hand(TASK, batch.tokens[row])[0] == batch.labels[row]
    assert set(routes["both"].factors["assignments"]) == {2, 3, 4, 5, 6}


def test_two_var_rows_rule_thins_coverage_and_weight_does_not():
    few = AssignAdd(two_var_frequency=0.01, two_var_rule="rows")
    kept = pools.Mixture(few)._kept_rows
    assert len(np.unique(kept[:, 1])) == 211
    weighted = AssignAdd(two_var_frequency=0.5)
    weights = pools.Mixture(weighted).weights
    assert weights[BOTH] / weights[DIRECT] == pytest.approx(5 / 12)
    batch = pools.Mixture(few).sample(20_000, np.random.default_rng(0))
    both = batch[batch.factors["form"] == BOTH]
    rows = set(map(tuple, kept.tolist()))
    assert len(both)
    assert all(
        (v, pair) in rows
        for v, pair in zip(both.factors["left variable"], both.factors["pair"], strict=True)
    )


def test_same_generator_same_batch():
    one, two = (pools.Mixture(TASK).sample(64, np.random.default_rng((7, 3))) for _ in range(2))
    assert (one.tokens == two.tokens).all()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"p": 1}, "p must be at least 2"),
        ({"n_vars": 1}, "at least 2 variables"),
        ({"length": 7}, "length must be at least 8"),
        ({"n_vars": 2, "never_left": 2}, "no variable pair"),
        ({"train_share": 1.0}, "train_share must lie between"),
        ({"p": 2, "train_share": 0.1}, "leaves a side empty"),
        ({"two_var_rule": "lucky"}, "must be one of weight, rows"),
        ({"two_var_frequency": 1.5}, r"must lie in \[0, 1\]"),
    ],
)
def test_impossible_tasks_are_refused(options, complaint):
    with pytest.raises(InputError, match=complaint):
        AssignAdd(**options)


def test_every_fault_is_named_at_once():
    with pytest.raises(InputError, match=r"p must be.*length must be.*train_share"):
        AssignAdd(p=0, length=3, train_share=2.0)


def built(task, rng, *, form=BOTH, a=1, left=0):
    one = np.ones(1, int)
    return build(task, one * form, one * a, one, one * left, one * 3, one * 2, rng)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda rng: matched(TASK, np.array([5, 59**2]), rng), "from 0 to 3480; got 3481"),
        (lambda rng: matched(TASK, np.array([-1]), rng), "from 0 to 3480; got -1"),
        (lambda rng: matched(TASK, np.array([0.5]), rng), "whole numbers; got float64"),
        (lambda rng: matched(TASK, np.array(7), rng), "should be an array; got array\\(7"),
        (lambda rng: matched(TASK, [1], rng, max_distractors=-1), "cannot be negative: -1"),
        (lambda rng: pools.on_pairs(TASK, "both", np.array([59**2]), rng), "got 3481"),
        (lambda rng: pools.on_pairs(TASK, "up", np.array([1]), rng), "no route 'up': choose from"),
        (lambda rng: pools.exhaustive(TASK, "up", held=True, rng=rng), "no route 'up'"),
        (lambda rng: pools.pool(TASK, "0var_seen", -1, rng), "cannot be negative: -1"),
        (lambda rng: pools.cells(TASK, -1, rng), "cannot be negative: -1"),
        (lambda rng: pools.Mixture(TASK).sample(-1, rng), "cannot be negative: -1"),
        (lambda rng: built(TASK, rng, a=59), "numbers go from 0 to 58; got 59"),
        (lambda rng: built(TASK, rng, left=12), "operand variables go from 0 to 11; got 12"),
        (lambda rng: built(TASK, rng, form=4), "forms go from 0 to 3; got 4"),
    ],
)
def test_builders_refuse_what_does_not_exist(rng, make, complaint):
    with pytest.raises(InputError, match=complaint):
        make(rng)


def test_variables_that_a_form_does_not_have_are_not_looked_at(rng):
    assert len(built(TASK, rng, form=DIRECT, left=99)) == 1
    assert all(len(batch) == 0 for batch in matched(TASK, [], rng).values())


@pytest.mark.parametrize(
    "options",
    [
        {"n_vars": 3, "never_left": 0, "never_right": 2},
        {"n_vars": 2, "never_left": 0, "never_right": 1},
        {"n_vars": 4, "never_left": 0, "never_right": 3},
    ],
)
def test_the_rows_rule_needs_a_partner_for_every_left_variable(options, rng):
    pools.Mixture(AssignAdd(p=5, length=8, **options)).sample(200, rng)
    with pytest.raises(
        InputError, match=r"which may stand left, is the only one that may stand right"
    ):
        AssignAdd(p=5, length=8, two_var_rule="rows", **options)
    barred = {**options, "never_left": 1}
    pools.Mixture(AssignAdd(p=5, length=8, two_var_rule="rows", **barred)).sample(200, rng)


def test_every_setting_that_is_allowed_can_be_drawn_from(rng):
    sizes = product((2, 3), (2, 3, 4), (8, 9), (0, 1, 2, 3), (0, 1, 2, 3), (0, 0.05, 1))
    for p, n_vars, length, never_left, never_right, frequency in sizes:
        for rule in ("weight", "rows"):
            try:
                task = AssignAdd(
                    p=p,
                    n_vars=n_vars,
                    length=length,
                    never_left=never_left,
                    never_right=never_right,
                    two_var_frequency=frequency,
                    two_var_rule=rule,
                )
            except InputError:
                continue
            pools.Mixture(task).sample(40, rng)
            for name in pools.pool_names(task):
                pools.pool(task, name, 10, rng)


def test_more_assignments_than_a_byte_counts(rng):
    task = AssignAdd(p=5, n_vars=300, length=700)
    batch = pools.Mixture(task).sample(6, rng)
    assert batch.factors["assignments"].max() > 255 or task.max_assignments > 255
    full = np.full(2, task.max_assignments)
    left, right = task.variable_pairs()[:2].T
    whole = build(task, np.full(2, BOTH), np.ones(2, int), np.ones(2, int), left, right, full, rng)
    variables = np.isin(whole.tokens[:, :-4], task.variable_ids).sum(1)
    assert (variables == task.max_assignments).all()
