"""The legend names unit and measure, shows round numbers and stays on the sheet."""

from dataclasses import replace

import numpy as np
import pytest

from mechint_arith.circuits.graph import Circuit
from mechint_arith.figures.drawing import legend, lettering, strokes
from mechint_arith.figures.drawing.shapes import CM_PER_PT, Box, Text

SHARED, ALONE = Box(0.0, 0.0, 0.4, 0.2, "#ffff00"), Box(0.0, 0.0, 0.4, 0.2, dashed=True)


def words(circuits):
    return [e.words for line in legend.entries(circuits, shared=SHARED, alone=ALONE) for e in line]


def test_it_says_what_was_measured_and_how(pair):
    assert words(pair[:1]) == [
        "effect on mean margin (logits)",
        *("−1", "1", "2.5", "5"),
        *("|effect| ≥ 0.25", "zero ablation", "noising"),
    ]


def test_of_two_circuits_it_says_what_is_shared(pair):
    assert "in direct and indirect" in words(pair)
    assert "in one only" in words(pair)


def test_a_metric_that_is_its_own_unit_is_named_once(pair):
    direct = pair[0]
    about = replace(direct.about, metric="logits", threshold=None)
    found = words([replace(direct, about=about)])
    assert found[0] == "effect (logits)"
    assert not any("≥" in word for word in found)


def test_without_edges_there_is_no_scale(pair):
    bare = Circuit(pair[0].about, pair[0].positions, pair[0].nodes, ())
    assert words([bare])[0] == "|effect| ≥ 0.25"


@pytest.mark.parametrize(
    ("value", "below"), [(8.3, 5), (5.0, 5), (1.0, 1), (0.3, 0.2), (999.0, 500), (2e-7, 2e-7)]
)
def test_round_numbers(value, below):
    assert legend.rounded_down(value) == pytest.approx(below)


def test_samples_lie_within_the_effects():
    rng = np.random.default_rng(0)
    for _ in range(50):
        effects = list(rng.normal(size=5) * 10 ** rng.uniform(-3, 3))
        found = legend.samples(effects)
        assert max(found) <= max(max(effects), 0)
        assert min(found) >= min(effects)
        assert 0 not in found


@pytest.mark.parametrize("width", [6.0, 8.0, 17.0])
def test_it_stays_on_the_sheet(pair, width):
    paragraphs = legend.entries(pair, shared=SHARED, alone=ALONE)
    shapes = legend.draw(paragraphs, width, 8.0)
    texts = [shape for shape in shapes if isinstance(shape, Text)]
    for text in texts:
        assert text.x + lettering.width(text.content) * text.size * CM_PER_PT < width
        assert 0 < text.y < legend.height(paragraphs, width)
    assert len(texts) == len(words(pair))


def test_width_grows_with_the_effect():
    effects = np.linspace(0, 5, 40)
    for sign in (1, -1):
        widths = [strokes.width(sign * effect, 5.0) for effect in effects]
        assert (np.diff(widths) > 0).all()
    assert strokes.width(5.0, 5.0) == strokes.WIDEST
    assert strokes.width(0.0, 5.0) == strokes.THINNEST


def test_signs_end_in_different_heads():
    points = ((0.0, 0.0), (0.0, 0.3), (0.0, 0.6), (0.0, 0.9))
    *_, arrow = strokes.stroke(points, (0.0, 1.0), 2.0, 2.0)
    *_, bar = strokes.stroke(points, (0.0, 1.0), -2.0, 2.0)
    assert len(arrow.points) == 3
    assert len(bar.points) == 4
    assert arrow.points[1] == (0.0, 1.0)
    assert max(x for x, _ in bar.points) * 2 > strokes.width(2.0, 2.0) * CM_PER_PT
