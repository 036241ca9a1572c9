"""Every analysis script of the paper's figures runs as small as possible and writes what it says."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest

ANALYSES = Path(__file__).parents[1] / "analyses"
FIGURES = {
    "accuracy_curves": "pools",
    "progress_measures": "events",
    "attention_maps": "direct_layer0",
    "qk_maps": "variables",
    "early_window": "measures",
    "late_window": "scores",
    "b_on_the_right": "14001_right",
    "cosines": "ov_sum",
    "neuron_patterns": "maps",
    "spectra": "neurons",
    "pca": "W_E_OV1",
    "patching": "grid",
    "emergence": "supplied",
}


@pytest.fixture
def script(monkeypatch):
    """Load a script as a module, with its neighbours importable."""
    monkeypatch.syspath_prepend(str(ANALYSES))
    monkeypatch.delitem(sys.modules, "common", raising=False)

    def load(name):
        spec = importlib.util.spec_from_file_location(f"analyses_{name}", ANALYSES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert sys.modules["common"].folder().is_dir()
        return module

    return load


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_script_runs(script, tmp_path, name, monkeypatch):
    module = script(name)
    pages = {}
    common = sys.modules["common"]
    monkeypatch.setattr(common, "save", lambda figure, path: pages.update({path.stem: figure}))
    found = module.main(tmp_path, True)
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(found)
    )
    assert f"{name}_{FIGURES[name]}" in pages
    assert all(figure.data for figure in pages.values())


def test_the_study_of_seeds_runs(script, tmp_path):
    found = script("seeds").main(tmp_path, True)
    assert set(found) == {f"C{i}" for i in range(1, 11)}
    written = json.loads((tmp_path / "seeds.json").read_text(encoding="utf-8"))
    assert written["claims"]["C4"]["holding"]["n"] == 1


def test_sweep_figures_say_what_is_missing_or_draw_it(script, tmp_path):
    found = script("sweep_figures").main(tmp_path, True)
    assert found
    for value in found.values():
        assert "mechint-arith sweep" in value or all(
            0 <= v <= 1 and math.isfinite(v) for v in value.values()
        )


def test_every_script_is_in_the_table():
    table = (ANALYSES / "README.md").read_text(encoding="utf-8")
    for name in (*FIGURES, "seeds", "sweep_figures"):
        assert f"`{name}.py`" in table
