"""Rows from top to bottom, layers from bottom to top, labels that repeat, gaps where nothing is known."""

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.figures.heatmap import heat_map, patching_grid

TOKENS = ["a", "7", "a", "</script>", "$x$"]


def test_the_first_query_is_on_top():
    chart = heat_map(np.eye(5), rows=TOKENS, columns=TOKENS)
    low, high = chart.layout.yaxis.range
    assert low > high
    assert chart.layout.yaxis.ticktext[0] == "a"
    assert chart.layout.xaxis.range == (-0.5, 4.5)


def test_labels_may_repeat_and_are_escaped():
    chart = heat_map(np.eye(5), rows=TOKENS, columns=TOKENS)
    assert chart.layout.xaxis.ticktext == ("a", "7", "a", "&lt;/script&gt;", "&#36;x&#36;")
    assert chart.layout.xaxis.tickvals == (0, 1, 2, 3, 4)


def test_values_are_not_turned_around():
    values = np.arange(6.0).reshape(2, 3)
    chart = heat_map(values, rows="ab", columns="xyz", signed=True)
    np.testing.assert_array_equal(chart.data[0].z, values)
    assert (chart.layout.coloraxis.cmin, chart.layout.coloraxis.cmax) == (-5, 5)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ("abc", "xyz", "the axis 'query' of the values has 2 entries, but there are 3 rows"),
        ("ab", "xy", "the axis 'key' of the values has 3 entries, but there are 2 columns"),
    ],
)
def test_labels_must_fit(rows, columns, message):
    with pytest.raises(InputError, match=message):
        heat_map(np.zeros((2, 3)), rows=rows, columns=columns)


def test_layers_go_upward_and_colours_are_centred_over_all_panels():
    grids = {"denoising": np.array([[0.1, 0.2]]), "noising": np.array([[-0.9, np.nan]])}
    chart = patching_grid(grids, layers=["attn 0"], positions=["x", "="])
    assert chart.layout.yaxis.range == (-0.5, 0.5)
    assert (chart.layout.coloraxis.cmin, chart.layout.coloraxis.cmax) == (-0.9, 0.9)
    assert len(chart.data) == 2
    assert [a.text for a in chart.layout.annotations] == ["denoising", "noising"]
    assert np.isnan(chart.data[1].z[0][1])


def test_intervals_are_shown_at_the_pointer():
    effect = np.array([[0.1, 0.2]])
    chart = patching_grid(
        effect, layers=["0"], positions=["x", "="], low=effect - 1, high=effect + 1
    )
    np.testing.assert_allclose(chart.data[0].customdata[0, 1], [-0.8, 1.2], rtol=1e-6)
    assert "%{customdata[0]" in chart.data[0].hovertemplate


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([[0.0, 0.0]], None, "two ends"),
        ([[0.0]], [[1.0]], "one shape"),
        ({"a": [[0.0, 0.0]]}, {"a": [[1.0, 1.0]]}, "should be there for"),
    ],
)
def test_intervals_must_fit(low, high, message):
    with pytest.raises(InputError, match=message):
        patching_grid([[0.1, 0.2]], layers=["0"], positions=["x", "="], low=low, high=high)


def test_a_grid_needs_layers_and_positions():
    with pytest.raises(InputError, match="'layer' of the effects has 1 entries"):
        patching_grid([[0.1, 0.2]], layers=["0", "1"], positions=["x", "="])


def test_many_grids_stand_in_rows():
    grids = {f"head {i}": np.full((2, 3), i / 10) for i in range(6)}
    chart = patching_grid(grids, layers="ab", positions="xyz")
    assert len(chart.data) == 6
    assert chart.data[4].xaxis == "x5"
    assert chart.layout.xaxis5.ticktext == ("x", "y", "z")
