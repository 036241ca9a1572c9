"""Diagrams in four formats: vectors, fonts, escapes, the same bytes every time, and what is highlighted."""

import hashlib
import itertools
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib
import pytest

from mechint_arith.circuits import graph_file
from mechint_arith.circuits.graph import Circuit, Node, Position
from mechint_arith.errors import InputError
from mechint_arith.figures import diagram
from mechint_arith.figures.drawing.shapes import Curve, Text
from mechint_arith.figures.drawing.svg import svg
from mechint_arith.figures.drawing.tikz import escaped, tikz

NASTY = ["</script>", "&amp;", "a_b^c~", "#1 50%", "\\end{x}", "$x$", "{", '"<|"', "\n\x00", "中é"]
FORMATS = (".svg", ".pdf", ".png", ".tikz")


@pytest.fixture
def nasty(pair):
    """A circuit whose tokens, node labels, route and units are made to break formats."""
    direct = pair[0]
    positions = tuple(Position(f"p{i}", label) for i, label in enumerate(NASTY))
    nodes = tuple(
        Node(f"n{i}", "embedding", None, f"p{i}", label[::-1]) for i, label in enumerate(NASTY)
    )
    logits = Node("logits", "logits", None, "p0", "lo_gits & <b>")
    edges = [
        replace(direct.edges[0], sender=node.id, receiver="logits", unit="nats & <i>_%")
        for node in nodes
    ]
    about = replace(direct.about, route="</title>_$", metric="m & m")
    return Circuit(about, positions, (*nodes, logits), tuple(edges))


def curves(drawing):
    """Edges of the diagram, without the white behind them and the legend's samples."""
    return [shape for shape in drawing.shapes if isinstance(shape, Curve) and shape.note]


def test_shared_edges_are_solid_and_all_others_dashed(pair):
    drawn = {curve.note.split(":")[0]: curve.dashed for curve in curves(diagram.draw(pair))}
    assert drawn == {
        "7 → L1H0": True,
        "12 → L1H0": True,
        "x → L0H0": True,
        "L0H0 → L1H0": True,
        "L1H0 → logits": True,
        "L1H0 → MLP 1": False,
        "MLP 1 → logits": False,
    }


def test_a_circuit_alone_has_no_dashes(pair):
    assert not any(curve.dashed for curve in curves(diagram.draw(pair[0])))


def test_widths_follow_the_effects_over_both_circuits(pair):
    sizes = {curve.note: curve.width for curve in curves(diagram.draw(pair))}
    by_effect = sorted(
        sizes, key=lambda n: abs(float(re.search(r": (−?[\d.]+)", n)[1].replace("−", "-")))
    )
    widths = [sizes[note] for note in by_effect]
    assert widths == sorted(widths)
    assert len(sizes) == 10


def test_edges_tell_their_numbers(pair):
    assert "L1H0 → logits: −1.5 [−1.6, −1.4] logits, n = 100" in svg(diagram.draw(pair[0]))


def test_units_must_agree(pair):
    other = replace(pair[1], edges=tuple(replace(e, unit="nats") for e in pair[1].edges))
    with pytest.raises(InputError, match="one unit; got logits and nats"):
        diagram.draw((pair[0], other))


@pytest.mark.parametrize("width", [0.5, float("nan"), 1e9])
def test_a_width_is_possible(pair, width):
    with pytest.raises(InputError, match="1 to 200 cm"):
        diagram.draw(pair, width=width)


def test_three_circuits_are_too_many(pair):
    with pytest.raises(InputError, match="one circuit or two; got 3"):
        diagram.draw((*pair, pair[0]))


def test_svg_is_xml_with_text_as_text_and_loads_nothing(pair):
    text = svg(diagram.draw(pair, width=8.0))
    root = ET.fromstring(text)
    assert root.attrib["width"] == "8cm"
    shown = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"7", "12", "L1H0", "MLP 1", "=", "direct", "indirect"} <= shown
    assert text.count("http") == 1
    assert not re.search(r"href|url\(|<style|<script|<image|@import| id=", text)


def test_svg_escapes_every_label(nasty):
    root = ET.fromstring(svg(diagram.draw(nasty, width=17.0)))
    shown = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"</script>", "&amp;", '"<|"', "\\n\\x00", "lo_gits & <b>", "</title>_$"} <= shown


def test_tikz_is_balanced_and_escaped(nasty):
    text = tikz(diagram.draw(nasty, width=17.0))
    assert text.count(r"\begin{") == text.count(r"\end{") == 1
    plain = re.sub(r"\\[{}]", "", text)
    depth = 0
    for char in plain:
        depth += (char == "{") - (char == "}")
        assert depth >= 0
    assert depth == 0
    body = "\n".join(text.split("\n")[1:])
    assert not re.search(r"(?<!\\)[%&#$_^~]", body)
    assert body.isascii() or "é" in body


def test_tikz_escapes_are_the_right_ones():
    assert escaped("a_b&#%$^~") == r"a\_b\&\#\%\$\textasciicircum{}\textasciitilde{}"
    assert escaped("\\{}") == r"\textbackslash{}\{\}"
    assert escaped("<>|") == r"\textless{}\textgreater{}\textbar{}"
    assert escaped("é þ 中") == "é U+00FE U+4E2D"
    assert escaped("−1 ≥ --") == r"\ensuremath{-}1 \ensuremath{\geq} -{}-{}"


def test_tikz_compiles_in_a_column(nasty, pair, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    diagram.save(pair, tmp_path / "pair.tikz", width=8.0)
    diagram.save(nasty, tmp_path / "nasty.tex", width=17.0)
    (tmp_path / "paper.tex").write_text(
        r"\documentclass{article}\usepackage{tikz}\usepackage[margin=1cm]{geometry}\begin{document}"
        r"\noindent\input{pair.tikz}\par\noindent\input{nasty.tex}\end{document}"
    )
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert "Missing character" not in done.stdout


def test_pdf_is_vector_with_truetype_fonts(pair, tmp_path):
    diagram.save(pair, tmp_path / "pair.pdf", width=8.0)
    content = (tmp_path / "pair.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/FontFile2" in content
    assert not re.search(rb"/Subtype\s*/Image", content)
    assert b"/Type3" not in content
    assert b"/CreationDate" not in content
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", content)
    assert float(box[1]) == pytest.approx(8 / 2.54 * 72, abs=0.01)


def test_png_has_the_width_asked_for_and_is_not_empty(pair, tmp_path):
    from PIL import Image

    diagram.save(pair, tmp_path / "pair.png", width=8.0, dpi=100)
    with Image.open(tmp_path / "pair.png") as picture:
        assert picture.width == pytest.approx(8 / 2.54 * 100, abs=1)
        assert len(picture.convert("RGB").getcolors(100_000)) > 50


@pytest.mark.parametrize("suffix", FORMATS)
def test_nasty_labels_break_no_format(nasty, tmp_path, suffix):
    diagram.save(nasty, tmp_path / f"nasty{suffix}", width=17.0)
    assert [file.name for file in tmp_path.iterdir()] == [f"nasty{suffix}"]


def test_bytes_depend_on_the_circuit_alone(pair, tmp_path):
    for circuit in pair:
        graph_file.write(circuit, tmp_path / f"{circuit.about.route}.json")
    script = (
        "import sys; from mechint_arith.circuits import graph_file; from mechint_arith.figures import diagram\n"
        "pair = [graph_file.read(f'{sys.argv[1]}/{r}.json') for r in ('direct', 'indirect')]\n"
        f"[diagram.save(pair, sys.argv[1] + '/there' + s, width=8.0) for s in {FORMATS}]\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, env={"PYTHONHASHSEED": "7"})
    with matplotlib.rc_context({"font.family": "serif", "lines.linewidth": 9, "pdf.fonttype": 3}):
        before = dict(matplotlib.rcParams)
        for suffix in FORMATS:
            diagram.save(pair, tmp_path / f"here{suffix}", width=8.0)
        assert dict(matplotlib.rcParams) == before
    for suffix in FORMATS:
        here, there = (
            hashlib.sha256((tmp_path / f"{name}{suffix}").read_bytes()).hexdigest()
            for name in ("here", "there")
        )
        assert here == there, suffix


@pytest.mark.parametrize("name", ["fig.jpg", "fig", "fig.PDFX"])
def test_other_formats_are_refused(pair, tmp_path, name):
    with pytest.raises(InputError, match=r"\.svg, \.pdf, \.png or \.tikz"):
        diagram.save(pair, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_capital_suffixes_are_read(pair, tmp_path):
    diagram.save(pair, tmp_path / "fig.SVG")
    assert (tmp_path / "fig.SVG").read_text().startswith("<svg")


def test_resolution_is_possible(pair, tmp_path):
    with pytest.raises(InputError, match="pixels per inch; got 10"):
        diagram.save(pair, tmp_path / "fig.png", dpi=10)


def test_every_label_is_on_the_sheet(random_circuit):
    circuit = random_circuit(5)
    drawing = diagram.draw(circuit, width=12.0)
    words = [shape.content for shape in drawing.shapes if isinstance(shape, Text)]
    joined = [*words, *map(" ".join, itertools.pairwise(words))]
    assert {node.label for node in circuit.nodes} <= set(joined)
