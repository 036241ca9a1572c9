"""Effects on numbers worked out by hand: ratios, missing values, intervals, tables, figures."""

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.interventions.effects import Axis, Effects, clusters_of
from mechint_arith.interventions.patching import sweep
from mechint_arith.interventions.summary import NO_GAP, NO_ROW
from mechint_arith.tasks.batch import Batch


def effects(patched, base, donor, *, clusters=None, **more):
    """Two cells on one axis."""
    patched = np.asarray(patched, float)
    n = patched.shape[-1]
    return Effects(
        (Axis("site", ("low", "high")),),
        patched,
        np.asarray(base, float),
        None if donor is None else np.asarray(donor, float),
        np.arange(n) if clusters is None else np.asarray(clusters),
        np.arange(n),
        "logit difference",
        "a test",
        **more,
    )


def test_the_two_ratios_differ_and_are_named():
    found = effects([[1, 4, 2], [0, 0, 0]], [0, 0, 0], [2, 4, 10])
    assert found.summary().kind == "ratio of means"
    assert found.summary().value == pytest.approx([7 / 16, 0])
    assert found.summary("mean of ratios").value == pytest.approx([(0.5 + 1 + 0.2) / 3, 0])
    assert found.summary("change").value == pytest.approx([7 / 3, 0])
    assert found.summary("level").value == pytest.approx([7 / 3, 0])
    assert found.per_example[0] == pytest.approx([0.5, 1, 0.2])


def test_an_example_without_a_gap_is_left_out_of_the_mean_of_ratios_and_counted():
    found = effects([[1, 3], [2, 3]], [0, 3], [2, 3])
    summary = found.summary("mean of ratios")
    assert summary.value == pytest.approx([0.5, 1])
    assert summary.excluded.tolist() == [1, 1]
    assert summary.n.tolist() == [1, 1]
    assert np.isnan(found.per_example[:, 1]).all()


def test_without_a_gap_the_value_is_missing_and_says_why():
    found = effects([[1, 2], [2, 3]], [0, 3], [1, 2])
    summary = found.summary()
    assert np.isnan(summary.value).all()
    assert summary.missing.tolist() == [NO_GAP, NO_GAP]
    with pytest.raises(InputError, match="same metric"):
        found.estimate(site="low")


def test_a_cell_that_no_row_has_is_missing_for_another_reason():
    found = effects([[np.nan, np.nan], [1, 1]], [0, 0], [1, 2])
    assert found.summary().missing.tolist() == [NO_ROW, None]
    assert found.summary().excluded.tolist() == [2, 0]
    assert found.to_dataframe()["missing"].isna().tolist() == [False, True]


def test_intervals_cover_and_shrink_with_independent_clusters():
    rng = np.random.default_rng(0)
    gaps = rng.uniform(1, 2, 400)
    patched = np.stack([gaps * 0.3 + rng.normal(0, 0.2, 400)] * 2)
    alone = effects(patched, np.zeros(400), gaps).summary()
    tied = effects(patched, np.zeros(400), gaps, clusters=np.arange(400) // 40).summary()
    assert alone.low[0] < 0.3 < alone.high[0]
    assert alone.n[0] == 400
    assert tied.n[0] == 10
    half = 1.96 * 0.2 / np.sqrt(400) / gaps.mean()
    assert (alone.high - alone.low)[0] / 2 == pytest.approx(half, rel=0.2)
    copied = [np.repeat(x, 25, -1) for x in (patched[:, :16], np.zeros(16), gaps[:16])]
    few = effects(patched[:, :16], np.zeros(16), gaps[:16]).summary()
    many = effects(*copied, clusters=np.repeat(np.arange(16), 25)).summary()
    np.testing.assert_allclose([many.low, many.high], [few.low, few.high])


def test_a_level_stays_within_the_metrics_range():
    found = effects([[1, 1, 1, 0], [1, 1, 1, 1]], [1, 1, 1, 1], None).summary("level")
    assert found.high[0] <= 1
    assert (found.low[1], found.high[1]) == (1, 1)


def test_an_ablation_has_no_share_of_a_gap():
    found = effects([[1, 2], [0, 0]], [2, 2], None)
    assert found.summary().kind == "change"
    assert found.summary().value == pytest.approx([-0.5, -2])
    with pytest.raises(InputError, match="come from no run"):
        found.summary("ratio of means")


def test_selecting_goes_by_name():
    found = effects([[1, 2], [0, 0]], [0, 0], [2, 2])
    assert found.select(site="low").patched.tolist() == [1, 2]
    assert found.estimate(site="high").value == 0
    with pytest.raises(InputError, match="no site 'mid' here; known: low, high"):
        found.select(site="mid")
    with pytest.raises(InputError, match="no axis 'layer'"):
        found.select(layer=0)
    with pytest.raises(InputError, match="open: site"):
        found.estimate()
    with pytest.raises(InputError, match="one of"):
        found.summary("median")


def test_values_must_fit_their_axes():
    with pytest.raises(InputError, match="need values"):
        effects([[1, 2]], [0, 0], None)


def test_clusters_are_unordered_pairs():
    tokens, labels = np.zeros((3, 2), int), np.zeros(3, int)
    batch = Batch(tokens, labels, 1, {}, {"a": np.array([1, 2, 1]), "b": np.array([2, 1, 1])})
    assert clusters_of(batch).tolist() == [1, 1, 0]
    assert clusters_of(Batch(tokens, labels, 1)).tolist() == [0, 1, 2]


def test_tables_have_a_row_per_cell_and_per_example(model, pair):
    found = sweep(model, *pair, "z")
    cells = found.to_dataframe()
    assert list(cells.columns[:4]) == ["direction", "layer", "position", "head"]
    assert len(cells) == 2 * 2 * 8 * 2
    chosen = cells[(cells.layer == 1) & (cells.position == "equals") & (cells["head"] == 1)]
    estimate = found.estimate(direction="noising", layer=1, position="equals", head=1)
    assert chosen[chosen.direction == "noising"].effect.item() == pytest.approx(estimate.value)
    assert cells.inert.sum() == 2 * 2 * 7
    examples = found.to_dataframe(examples=True)
    assert len(examples) == len(cells) * len(found.rows)
    row = examples[(examples.row == found.rows[3]) & (examples.layer == 0)].iloc[0]
    assert row.patched == found.patched[0, 0, 0, 0, 3]
    assert row.base == found.base[0, 0, 0, 0, 3]


def test_a_figure_in_one_call(model, pair):
    found = sweep(model, *pair, "resid_pre")
    figure = found.figure()
    grids = [trace.z for trace in figure.data]
    np.testing.assert_allclose(grids, found.summary().value, atol=1e-6)
    panels = sweep(model, *pair, "z").figure(title="heads")
    assert len(panels.data) == 4
    assert effects([[1, 2], [0, 0]], [2, 2], None).figure().data


def test_effects_print_what_was_done_and_the_largest_cells(model, pair):
    found = sweep(model, *pair, "z")
    first, *cells = repr(found).splitlines()
    assert first == (
        "Effects(activation patching of z: logit difference, 2 direction x 2 layer x 8 position x 2 head,"
        f" {len(found.rows)} examples; largest by ratio of means:"
    )
    values = found.summary().value
    best = np.unravel_index(np.abs(values).argmax(), values.shape)
    names = [axis.labels[i] for axis, i in zip(found.axes, best, strict=True)]
    assert len(cells) == 5
    want = f"{names[0]}, layer {names[1]}, {names[2]}, head {names[3]}"
    assert cells[0] == f"  {values[best]:+.3f}  {want}"
    assert repr(effects([[1, np.nan], [np.nan, np.nan]], [0, 0], None)).count("\n") == 2
