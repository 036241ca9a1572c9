"""Labels reach the reader as they are, arrays are checked, and nobody's defaults change."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from mechint_arith.errors import InputError
from mechint_arith.figures import style


@pytest.mark.parametrize(
    ("label", "escaped"),
    [
        ("</script>", "&lt;/script&gt;"),
        ("<b>x</b> & y", "&lt;b&gt;x&lt;/b&gt; &amp; y"),
        ("$x$", "&#36;x&#36;"),
        ("a\nb", "a\\nb"),
        (7, "7"),
    ],
)
def test_labels_are_escaped(label, escaped):
    assert style.shown(label) == escaped


def test_a_hover_template_keeps_its_own_places():
    assert style.words("%{x} <b>") == "%&#123;x} &lt;b&gt;"


def test_the_template_is_the_figures_own():
    before = pio.templates.default
    chart = style.figure([go.Scatter(y=[1, 2])], title="a <b>", height=222)
    assert pio.templates.default == before
    assert chart.layout.template.layout.paper_bgcolor == style.CLEAR
    assert chart.layout.template.data.to_plotly_json() == {}
    assert chart.layout.title.text == "a &lt;b&gt;"
    assert chart.layout.height == 222


def test_arrays_are_checked():
    assert style.array([[1, None]], "a b", "x").shape == (1, 2)
    for wrong, message in [
        ([1, 2], r"x should have the axes \[a b\]; got shape \(2,\)"),
        (np.zeros((0, 3)), r"x \[a b\] are empty: shape \(0, 3\)"),
        ([[1, np.inf]], "infinite"),
        ([["one"]], r"x \[a b\] should be numbers"),
        ([[1], [2, 3]], "should be numbers"),
    ]:
        with pytest.raises(InputError, match=message):
            style.array(wrong, "a b", "x")


def test_series_come_from_arrays_mappings_and_frames():
    assert list(style.series([1, 2], "step", "values")) == [""]
    assert list(style.series({"a": [1], "b": [2]}, "step", "values")) == ["a", "b"]
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert style.series(frame, "step", "values")["b"].tolist() == [3, 4]
    with pytest.raises(InputError, match="one shape"):
        style.series({"a": [1], "b": [2, 3]}, "step", "values")
    with pytest.raises(InputError, match="at least one series"):
        style.series({}, "step", "values")


def test_signed_colours_are_centred_at_0():
    values = np.array([-1.0, 5.0, np.nan])
    axis = style.colour_axis(values, signed=True, unit="<u>")
    assert (axis["cmin"], axis["cmax"]) == (-5, 5)
    assert axis["colorbar"]["title"]["text"] == "&lt;u&gt;"
    axis = style.colour_axis(values, signed=False, unit="", low=0.0)
    assert (axis["cmin"], axis["cmax"]) == (0, 5)


def test_colours_of_nothing_still_have_ends():
    for signed in (True, False):
        axis = style.colour_axis(np.array([np.nan]), signed=signed, unit="")
        assert axis["cmin"] < axis["cmax"]


def test_categories_stay_apart_after_the_colours_repeat():
    looks = {(style.colour(i), style.line_dash(i)) for i in range(20)}
    assert len(looks) == 20
