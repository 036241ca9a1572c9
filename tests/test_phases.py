"""Change points, events and orders where the truth was planted, and where there is none."""

import numpy as np
import pytest

from mechint_arith.dynamics import Series
from mechint_arith.errors import InputError
from mechint_arith.phases import Rule, change_points, event, events, jump, orders, reached
from mechint_arith.stats import Estimate

STEPS = tuple(range(0, 6000, 100))


def planted(at, *, noise=0.0, seed=0, steps=STEPS, top=1.0):
    """A curve that goes from 0 to `top` at a step, as estimates ± .02."""
    rng = np.random.default_rng(seed)
    x = np.where(np.array(steps) >= at, top, 0.0) + noise * rng.standard_normal(len(steps))
    return tuple(Estimate(v, v - 0.02, v + 0.02, 100) for v in x)


def test_planted_change_points_are_found_inside_their_intervals():
    rng = np.random.default_rng(1)
    truth = (1000, 2500, 4200)
    curves = np.array([[float(step >= at) for at in truth] for step in STEPS])
    for noise, width in ((0.02, 100), (0.15, 600)):
        noisy = curves + noise * rng.standard_normal(curves.shape)
        found = change_points(STEPS, noisy)
        for point, at in zip(found, truth, strict=True):
            assert point.low < at <= point.high
            assert point.low < point.step <= point.high
            assert point.high - point.low <= width


def test_intervals_of_change_points_cover_the_truth():
    truth, hits = 3000, 0
    for seed in range(40):
        noise = 0.5 * np.random.default_rng(seed).standard_normal(len(STEPS))
        (found,) = change_points(
            STEPS, (np.array(STEPS) >= truth) + noise, n_changes=1, n_resamples=100, seed=seed
        )
        hits += found.low < truth <= found.high
    assert hits >= 34


def test_change_points_need_enough_checkpoints():
    with pytest.raises(InputError, match="at least 8 checkpoints; got 4"):
        change_points(STEPS[:4], np.zeros((4, 2)))
    with pytest.raises(InputError, match="one finite row per step"):
        change_points(STEPS, np.zeros((4, 2)))


def test_an_event_is_the_first_kept_level_with_limits():
    series = Series(STEPS, {"x": planted(2000)})
    found = event(series, "solved", Rule(("x",)))
    assert (found.step, found.low, found.high, found.lapses) == (2000, 1900, 2000, 0)
    value = np.array([0, 0.95, 0, 0.92, 0.95, 0.95, 0.2, 0.95, 0.95])
    found = reached("x", range(9), value, value - 0.04, value + 0.04, level=0.9)
    assert found.step == 3, "one checkpoint above the level is not kept"
    assert found.high is None or found.high > 3
    assert found.lapses == 1
    never = reached("x", range(9), 0 * value, 0 * value, 0 * value, level=0.9)
    assert (never.step, never.low, never.high) == (None, 8, None)


def test_a_rule_of_several_curves_waits_for_the_last():
    series = Series(STEPS, {"x": planted(1000), "y": planted(3000)})
    assert event(series, "both", Rule(("x", "y"))).step == 3000


def test_cells_get_events_of_their_own():
    series = Series(STEPS, {"cell b right": planted(4000), "0var_held": planted(500)})
    found = events(series)
    assert set(found) == {"addition", "cell b right"}
    assert found["cell b right"].step == 4000


def test_orders_over_runs():
    def run(x, y, z):
        series = Series(STEPS, {"x": planted(x), "y": planted(y), "z": planted(z)})
        return {name: event(series, name, Rule((name,))) for name in "xyz"}

    runs = [run(500, 1000, 2000), run(700, 2000, 1500), run(300, 900, 900)]
    found = {(o.first, o.second): o for o in orders(runs)}
    assert found["x", "y"].always
    assert found["x", "z"].always
    assert found["x", "y"].share.n == 3
    luck = found.get(("y", "z")) or found["z", "y"]
    assert not luck.always
    assert (luck.before, luck.after, luck.unclear) == (1, 1, 1)
    with pytest.raises(InputError, match="at least one run"):
        orders([])


def test_what_never_happened_comes_after_what_did():
    series = Series(STEPS, {"x": planted(500), "y": planted(9999)})
    run = {name: event(series, name, Rule((name,))) for name in "xy"}
    (found,) = orders([run])
    assert (found.first, found.second, found.before) == ("x", "y", 1)


def test_jump_tells_a_step_from_a_slope():
    step = np.array([float(s >= 3000) for s in STEPS])
    slope = np.array(STEPS) / STEPS[-1]
    assert jump(STEPS, step, within=400).share == 1
    assert jump(STEPS, slope, within=400).share == pytest.approx(400 / STEPS[-1])
    assert jump(STEPS, 0 * slope, within=400).share == 0
    found = jump(STEPS, step, within=100)
    assert (found.start, found.end) == (2900, 3000)
