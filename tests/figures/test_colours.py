"""Ramps keep their order in black and white, and both signs weigh the same."""

import numpy as np
import pytest

from mechint_arith.figures import colours


@pytest.mark.parametrize("sign", [1, -1])
def test_larger_effects_are_darker(sign):
    light = [colours.luminance(colours.effect_colour(sign * s)) for s in np.linspace(0.01, 1, 50)]
    assert (np.diff(light) < 0).all()


def test_equal_sizes_of_both_signs_are_equally_dark():
    for share in np.linspace(0.05, 1, 20):
        up, down = (colours.luminance(colours.effect_colour(s)) for s in (share, -share))
        assert up == pytest.approx(down, abs=0.05)


def test_the_weakest_effect_is_visible_on_white():
    for sign in (1, -1):
        light = colours.luminance(colours.effect_colour(sign * 1e-9))
        assert 1.05 / (light + 0.05) > 2


def test_steps_of_a_ramp_look_equal():
    ramp = [colours.luminance(c) ** (1 / 3) for c in colours.sequential(9)]
    steps = -np.diff(ramp)
    assert steps.min() > 0.7 * steps.max()


def test_the_middle_of_diverging_colours_is_the_palest_and_grey():
    ramp = colours.diverging(11)
    assert np.argmax([colours.luminance(c) for c in ramp]) == 5
    assert len(set(colours.rgb(ramp[5]))) == 1
    assert len(ramp) == len(set(ramp)) == 11


def test_known_colours():
    assert colours.hexadecimal(np.array([1.0, 0, 0])) == "#ffffff"
    assert colours.hexadecimal(np.array([0.0, 0, 0])) == "#000000"
    assert colours.hexadecimal(np.array([0.627955, 0.224863, 0.125846])) == "#ff0000"
    assert colours.luminance("#ffffff") == pytest.approx(1)


def test_grey_text_is_readable_on_white_and_on_near_black():
    light = colours.luminance(colours.GREY)
    assert 1.05 / (light + 0.05) > 4.5
    assert (light + 0.05) / (colours.luminance("#0d0d0d") + 0.05) > 4
