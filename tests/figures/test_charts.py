"""Curves, spectra, neuron maps, scatters and histograms: what is drawn is what was given."""

import numpy as np
import pandas as pd
import pytest

from mechint_arith.errors import InputError
from mechint_arith.figures.curves import Phase, curves
from mechint_arith.figures.histogram import histogram
from mechint_arith.figures.neurons import neuron_maps
from mechint_arith.figures.plane import cyclic_scatter, ring
from mechint_arith.figures.sharing import sharing_scatter
from mechint_arith.figures.spectra import spectrum

STEPS = np.array([1.0, 10.0, 100.0])


class TestCurves:
    def test_each_series_is_a_line(self):
        frame = pd.DataFrame({"0var": [0.1, 0.5, 1.0], "<b>": [0.0, np.nan, 0.2]})
        chart = curves(STEPS, frame, unit="accuracy")
        assert [line.name for line in chart.data] == ["0var", "&lt;b&gt;"]
        np.testing.assert_array_equal(chart.data[1].y, frame["<b>"])

    def test_an_interval_is_an_area_behind_its_line(self):
        chart = curves(STEPS, {"a": [1, 2, 3]}, low={"a": [0, 1, 2]}, high={"a": [2, 3, 4]})
        low, high, line = chart.data
        assert high.fill == "tonexty"
        assert list(low.y) == [0, 1, 2]
        assert list(line.y) == [1, 2, 3]
        assert not low.showlegend

    @pytest.mark.parametrize("log", [False, True])
    def test_phases_are_shaded_and_named(self, log):
        phases = [Phase("addition", 1.0, 2.0), Phase("assignment", 2.0, 100.0)]
        chart = curves(STEPS, {"a": [1, 2, 3]}, phases=phases, log=log)
        assert [(s.x0, s.x1) for s in chart.layout.shapes] == [(1, 2), (2, 100)]
        assert [a.text for a in chart.layout.annotations] == ["addition", "assignment"]
        middle = chart.layout.annotations[1].x
        assert middle == pytest.approx(np.log10(200) / 2 if log else 51)
        assert chart.layout.annotations[0].textangle == (0 if log else -90)

    def test_intervals_need_both_ends_and_a_series(self):
        for low, high in [({"a": [0, 0, 0]}, None), ({"b": [0, 0, 0]}, {"b": [1, 1, 1]})]:
            with pytest.raises(InputError, match="intervals need a low and a high end"):
                curves(STEPS, {"a": [1, 2, 3]}, low=low, high=high)
        with pytest.raises(InputError, match="low end above"):
            curves(STEPS, {"a": [1, 2, 3]}, low={"a": [2, 2, 2]}, high={"a": [1, 1, 1]})

    def test_steps_rise_and_fit(self):
        with pytest.raises(InputError, match="rise"):
            curves([1, 1, 2], {"a": [1, 2, 3]})
        with pytest.raises(InputError, match="steps has 3 entries, but there are 2 values of 'a'"):
            curves(STEPS, {"a": [1, 2]})

    def test_a_logarithm_needs_steps_above_0(self):
        with pytest.raises(InputError, match="above 0; got 0"):
            curves([0, 1], {"a": [1, 2]}, log=True)
        with pytest.raises(InputError, match="phase 'x' should start above 0 and before it ends"):
            curves(STEPS, {"a": [1, 2, 3]}, phases=[Phase("x", 0.0, 5.0)], log=True)

    def test_a_phase_ends_after_it_starts(self):
        with pytest.raises(InputError, match="phase 'x' should start before it ends; got 5"):
            curves(STEPS, {"a": [1, 2, 3]}, phases=[Phase("x", 5.0, 5.0)])


class TestSpectrum:
    def test_key_frequencies_are_full_and_numbered(self):
        chart = spectrum([0.1, 0.7, 0.2], key=(2,), null=0.3, null_name="null, 95 %")
        bars, line = chart.data
        assert list(bars.x) == [1, 2, 3]
        assert [colour.startswith("#") for colour in bars.marker.color] == [False, True, False]
        assert list(bars.text) == ["", "2", ""]
        assert list(line.y) == [0.3, 0.3]
        assert line.name == "null, 95 %"

    def test_several_spectra_stand_beside_each_other(self):
        chart = spectrum({"direct": [0.1, 0.2], "both": [0.3, 0.4]}, frequencies=[0, 5])
        assert [bars.name for bars in chart.data] == ["direct", "both"]
        assert list(chart.data[0].x) == [0, 5]

    def test_what_is_refused(self):
        with pytest.raises(InputError, match=r"key frequencies \[9\] are not among the 2"):
            spectrum([0.1, 0.2], key=(1, 9))
        with pytest.raises(InputError, match="negative"):
            spectrum([0.1, -0.2])
        with pytest.raises(InputError, match="but there are 1 frequencies"):
            spectrum([0.1, 0.2], frequencies=[1])


class TestNeuronMaps:
    def test_one_map_per_neuron_on_one_scale(self):
        maps = np.arange(2 * 3 * 4.0).reshape(2, 3, 4)
        chart = neuron_maps(maps, names=["n1", "<n2>"])
        np.testing.assert_array_equal(chart.data[1].z, maps[1])
        assert [a.text for a in chart.layout.annotations] == ["n1", "&lt;n2&gt;"]
        assert (chart.layout.coloraxis.cmin, chart.layout.coloraxis.cmax) == (0, 23)

    def test_signed_maps_are_centred(self):
        chart = neuron_maps(-np.ones((1, 2, 2)), names=["n"], signed=True)
        assert (chart.layout.coloraxis.cmin, chart.layout.coloraxis.cmax) == (-1, 1)

    def test_what_is_refused(self):
        with pytest.raises(InputError, match=r"axes \[neuron a b\]"):
            neuron_maps(np.zeros((2, 2)), names=["a", "b"])
        with pytest.raises(InputError, match="at most 48 neurons; got 49"):
            neuron_maps(np.zeros((49, 2, 2)), names=range(49))


class TestSharingScatter:
    def test_points_by_group_and_the_diagonal(self):
        chart = sharing_scatter(
            [0.1, 0.2, 0.3], [0.3, -0.1, 0.5], groups=["cos 1", "cos 2", "cos 1"]
        )
        diagonal, first, second = chart.data
        assert list(diagonal.x) == list(diagonal.y) == [-0.1, 0.5]
        assert list(first.x) == [0.1, 0.3]
        assert list(second.text) == ["neuron 1"]
        assert first.marker.symbol != second.marker.symbol

    def test_axes_are_named_after_the_routes(self):
        chart = sharing_scatter([0.1], [0.2], routes=("direct", "left"))
        assert chart.layout.xaxis.title.text == "direct: share of effect"
        assert chart.layout.yaxis.title.text == "left: share of effect"
        assert chart.layout.yaxis.scaleanchor == "x"

    def test_lengths_must_agree(self):
        with pytest.raises(InputError, match="effect_a has 2 entries, but there are 1 effect b"):
            sharing_scatter([0.1, 0.2], [0.1])
        with pytest.raises(InputError, match="1 names"):
            sharing_scatter([0.1, 0.2], [0.1, 0.2], names=["x"])


class TestHistogram:
    def test_bars_and_outline_count_shares_on_common_bins(self):
        rng = np.random.default_rng(0)
        values, null = rng.normal(2, 1, 300), np.append(rng.normal(0, 1, 1000), np.nan)
        bars, outline = histogram(values, null, unit="cosine", bins=20, mark=9.0).data
        assert bars.y.sum() == pytest.approx(1)
        assert outline.y[1::2].sum() == pytest.approx(1)
        assert len(bars.x) == 20
        assert outline.x[0] == pytest.approx(np.nanmin(null))
        assert outline.x[-1] == 9
        assert outline.name == "null (n = 1000)"

    def test_equal_values_are_one_bar(self):
        bars, _ = histogram([1.0, 1.0], [1.0], unit="x", bins=3).data
        assert bars.y.sum() == 1

    def test_what_is_refused(self):
        with pytest.raises(InputError, match=r"null \[sample\] hold no number"):
            histogram([1.0], [np.nan], unit="x")
        with pytest.raises(InputError, match="at least 1 bin"):
            histogram([1.0], [1.0], unit="x", bins=0)


class TestCyclicScatter:
    def test_colours_start_again_at_the_period(self):
        chart = cyclic_scatter(np.zeros((3, 2)), [1, 60, 119], period=59.0)
        assert list(chart.data[0].marker.color) == [1, 1, 1]
        scale = ring()
        assert scale[0][1] == scale[-1][1]
        assert len({colour for _, colour in scale}) == len(scale) - 1

    def test_labels_are_shown_beside_few_points_only(self):
        few = cyclic_scatter(np.zeros((3, 2)), [0, 1, 2], period=3.0, labels=["<0>", 1, 2])
        assert few.data[0].mode == "markers+text"
        assert list(few.data[0].text) == ["&lt;0&gt;", "1", "2"]
        many = cyclic_scatter(np.zeros((500, 2)), np.arange(500), period=59.0)
        assert many.data[0].mode == "markers"

    def test_what_is_refused(self):
        with pytest.raises(InputError, match="need two axes; got 3"):
            cyclic_scatter(np.zeros((4, 3)), range(4), period=4.0)
        with pytest.raises(InputError, match="above 0"):
            cyclic_scatter(np.zeros((4, 2)), range(4), period=0.0)
