"""The page as text: everything escaped, sections and pictures where they belong, nothing from elsewhere."""

import importlib.util
import re
from pathlib import Path

import pytest

from mechint_arith.errors import InputError
from mechint_arith.figures.spectra import spectrum
from mechint_arith.models.checkpoint import Checkpoint, save
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.report.page import (
    Claim,
    Diagram,
    Picture,
    Section,
    TableView,
    making,
    render,
    write,
)
from mechint_arith.tasks.assign_add import AssignAdd

HOSTILE = "</script><script>alert(1)</script>"
ROOT = Path(__file__).parents[1]


def test_text_is_escaped_everywhere():
    section = Section(
        HOSTILE,
        HOSTILE,
        (Claim(HOSTILE, (HOSTILE,)),),
        (Picture(spectrum([1.0, 2.0], title=HOSTILE), HOSTILE), Diagram("<svg></svg>", HOSTILE)),
        (TableView((HOSTILE,), ((HOSTILE,),), HOSTILE),),
    )
    page = render(HOSTILE, HOSTILE, [section, making({HOSTILE: HOSTILE})])
    assert "<script>alert" not in page
    assert page.count("&lt;/script&gt;") >= 10


def test_a_page_with_plots_holds_the_library_once_and_names_no_other_place():
    picture = Picture(spectrum([1.0, 2.0]), "a")
    page = render(
        "t", "s", [Section("A", pictures=(picture,) * 3), Section("B", pictures=(picture,))]
    )
    assert page.count("plotly.js v") == 1
    assert len(re.findall(r'id="plot-[ab]-\d"', page)) == 4
    assert page.count('class="pictures many"') == 1
    assert "cdn.plot.ly/plotly" not in re.sub(r"<script>/\*\*.*?</script>", "", page, flags=re.S)
    assert not re.findall(r'<(?:script|img|iframe)[^>]* src=|<link[^>]*href="http', page)


def test_sections_need_names_of_their_own():
    with pytest.raises(InputError, match="two sections of the report are called 'found'"):
        render("t", "s", [Section("Found"), Section("Found!")])


def test_write_replaces_the_file_in_one_step(tmp_path):
    path = tmp_path / "out" / "report.html"
    write(path, "Title", "sub", [Section("Found", claims=(Claim("It holds."),))])
    assert "It holds." in path.read_text(encoding="utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_the_readme_pictures_come_from_a_command(tmp_path):
    spec = importlib.util.spec_from_file_location(
        "readme_figures", ROOT / "analyses" / "readme_figures.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    task = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
    config = ModelConfig(len(task.vocab), 7, 10, d_model=12, d_head=6, d_mlp=(0, 20))
    ckpt = tmp_path / "step_000004.safetensors"
    save(ckpt, Checkpoint(config, initial_weights(config, 0), task, 4, 0))
    series = tmp_path / "series.json"
    series.write_text(
        '{"source": "x", "steps": [0, 1], "change_points": [{"step": 1}], "values": {"2var_held":'
        ' {"value": [0.1, 0.9], "low": [0.0, 0.8], "high": [0.2, 1.0], "n": [9, 9]}}}'
    )
    written = script.main(ckpt, series, tmp_path / "pictures")
    assert [path.name for path in written] == ["sharing.png", "training.svg"]
    assert all(path.stat().st_size > 1000 for path in written)
