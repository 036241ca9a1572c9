"""Boxes never overlap, edges never cross a box, and everything stays on the sheet."""

import itertools
import math

import numpy as np
import pytest

from mechint_arith.circuits.graph import Node
from mechint_arith.errors import InputError
from mechint_arith.figures import diagram
from mechint_arith.figures.drawing import columns, grid, lettering, routes
from mechint_arith.figures.drawing.lanes import Lanes, best_lanes, untangle
from mechint_arith.figures.drawing.shapes import CM_PER_PT

WIDTHS = (9.0, 17.0, 30.0)
LINE = 0.05


def placed(circuits, width):
    return grid.place(circuits, width=width, bottom=1.0, breadths=[{} for _ in circuits])


def routed(circuit, panel, rows):
    each = {edge.ends: LINE for edge in circuit.edges}
    heads = {edge.ends: 0.1 for edge in circuit.edges}
    return routes.route(panel, rows, each, heads, heads)


def on_curve(points, n=24):
    """Points along a chain of cubics [n * pieces, 2]."""
    points = np.array(points)
    t = np.linspace(0, 1, n)[:, None]
    found = []
    for i in range(0, len(points) - 1, 3):
        a, b, c, d = points[i : i + 4]
        found.append(
            (1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d
        )
    return np.concatenate(found)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(8))
def test_boxes_and_tokens_are_apart_and_on_the_sheet(random_circuit, seed, width):
    circuits = (random_circuit(seed), random_circuit(seed + 100, n_nodes=6))
    place = placed(circuits, max(width, 14.0))
    for circuit, panel in zip(circuits, place.panels, strict=True):
        assert panel.cells.keys() == circuit.by_id.keys()
    boxes = [cell.box for panel in place.panels for cell in panel.cells.values()]
    for a, b in itertools.combinations(boxes, 2):
        assert a.right < b.x or b.right < a.x or a.top < b.y or b.top < a.y
    assert min(box.x for box in boxes) > grid.STRIP
    assert max(box.right for box in boxes) < place.width
    assert min(box.y for box in boxes) >= 1.0
    for panel in place.panels:
        for token in panel.tokens:
            half = lettering.width(token.label) * place.size * CM_PER_PT / 2
            for cell in panel.cells.values():
                inside_x = cell.box.x < token.x + half and token.x - half < cell.box.right
                assert not (inside_x and cell.box.y < token.y < cell.box.top)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(8))
def test_edges_pass_boxes_at_a_distance(random_circuit, seed, width):
    circuit = random_circuit(seed, n_edges=40)
    place = placed((circuit,), width)
    (panel,) = place.panels
    for ends, chain in routed(circuit, panel, place.rows).items():
        points = on_curve(chain)
        for name, cell in panel.cells.items():
            if name not in ends:
                box, near = cell.box, LINE / 2
                in_x = (points[:, 0] > box.x - near) & (points[:, 0] < box.right + near)
                in_y = (points[:, 1] > box.y) & (points[:, 1] < box.top)
                assert not (in_x & in_y).any()
        assert (points[:, 0] > panel.left).all()
        assert (points[:, 0] < panel.right).all()


@pytest.mark.parametrize("seed", range(4))
def test_edges_rise_from_box_to_box(random_circuit, seed):
    circuit = random_circuit(seed)
    place = placed((circuit,), 12.0)
    (panel,) = place.panels
    for (sender, receiver), chain in routed(circuit, panel, place.rows).items():
        start, end = panel.cells[sender].box, panel.cells[receiver].box
        assert len(chain) % 3 == 1
        assert chain[0][1] == start.top
        assert start.x < chain[0][0] < start.right
        assert chain[-1][1] == pytest.approx(end.y - 0.1)
        assert end.x < chain[-1][0] < end.right
        assert (np.diff([y for _, y in chain]) >= -1e-12).all()
        assert chain[-1][0] == chain[-2][0]


@pytest.mark.parametrize("seed", range(4))
def test_layers_go_upward_and_positions_across(random_circuit, seed):
    circuit = random_circuit(seed)
    place = placed((circuit,), 17.0)
    (panel,) = place.panels
    for a, b in itertools.combinations(circuit.nodes, 2):
        if a.height < b.height:
            assert panel.cells[a.id].box.top < panel.cells[b.id].box.y
    order = [position.name for position in circuit.positions]
    for a, b in itertools.permutations(circuit.nodes, 2):
        if a.height == b.height and order.index(a.position) < order.index(b.position):
            assert panel.cells[a.id].box.right < panel.cells[b.id].box.x


def test_labels_fit_their_boxes(random_circuit):
    for width in WIDTHS:
        place = placed((random_circuit(1),), width)
        for cell in place.panels[0].cells.values():
            for line in cell.lines:
                assert lettering.width(line) * place.size * CM_PER_PT < cell.box.width


def test_one_place_has_one_height_in_both_panels(pair):
    place = placed(pair, 12.0)
    left, right = (panel.cells for panel in place.panels)
    for name in ("L1H0", "MLP 1", "logits"):
        assert left[name].box.centre[1] == right[name].box.centre[1]
    assert place.panels[0].right == place.panels[1].left


def test_text_has_a_size_that_is_readable(pair):
    assert placed(pair, 8.0).size >= 6
    assert placed(pair, 17.0).size >= 7


def test_a_token_is_shown_once(pair):
    (panel,) = placed(pair[:1], 8.0).panels
    assert [token.label for token in panel.tokens] == ["="]


def test_a_sheet_too_narrow_names_the_width_that_works(random_circuit):
    circuit = random_circuit(3, n_nodes=20)
    with pytest.raises(InputError, match=r"2 cm wide is too narrow .* use at least") as caught:
        placed((circuit,), 2.0)
    width = float(str(caught.value).split("at least ")[1].split(" cm")[0])
    placed((circuit,), width)
    with pytest.raises(InputError):
        placed((circuit,), width - 0.2)


def test_circuits_of_any_size_have_a_width_of_their_own(random_circuit):
    empty = random_circuit(0).prune(math.inf)
    assert diagram.draw(empty).width == diagram.COLUMN
    assert diagram.draw(random_circuit(0, n_nodes=40, n_edges=60)).width == diagram.PAGE


def test_wide_cells_at_the_end_lean_inward():
    setting = columns.Setting(6.0, 0.3, leaning=True)
    node = Node("n", "mlp", 0, "equals", "x")
    tiles = [columns.Tile(node, ("x",), 1.0, 0.4) for _ in range(3)]
    lone = columns.Column("=", 0.3, {(1, 0, 1): tiles, (2, 0, 0): tiles[:1]}, 3, lean=1)
    assert setting.em == pytest.approx(6 * CM_PER_PT)
    assert lone.reach(tiles)[1] == pytest.approx(0.5)
    assert sum(lone.reach(tiles)) == pytest.approx(columns.row_width(tiles))


def test_a_lane_is_the_gentlest_way_through_the_gaps():
    assert best_lanes([[(0.0, 10.0)]], 2.0, 4.0) == [3.0]
    assert best_lanes([[(0.0, 10.0)]] * 2, 5.0, 5.0) == [5.0, 5.0]
    assert best_lanes([[(0.0, 1.0), (9.0, 10.0)]], 2.0, 2.0) == [1.0]
    assert best_lanes([[(0.0, 1.0), (3.0, 4.0)]], 2.0, 2.0) == [3.0]


def test_lanes_keep_apart_while_there_is_room():
    lanes = Lanes()
    taken = [lanes.settle([4], [0.5], [[(0.0, 1.0)]], 0.1)[0] for _ in range(5)]
    assert taken[0] == 0.5
    assert np.diff(sorted(taken)).min() > 0.1
    assert lanes.settle([5], [0.5], [[(0.0, 1.0)]], 0.1) == [0.5]


def test_lanes_that_cross_are_swapped():
    paths = {"a": [0.0, 1.1, 0.0], "b": [5.0, 1.0, 5.0]}
    untangle(paths, {"a": 0, "b": 0})
    assert paths == {"a": [0.0, 1.0, 0.0], "b": [5.0, 1.1, 5.0]}
