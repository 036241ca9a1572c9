"""The scripts of the length tables run, and say what their sources say."""

import importlib.util
import json

import pytest


@pytest.fixture
def script(pytestconfig):
    def load(name):
        path = pytestconfig.rootpath / "analyses" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_formula_table_has_the_exact_rates(script, tmp_path):
    rows = script("length_theory").main(tmp_path)
    (row,) = [r for r in rows if (r["digits"], r["modulus"]) == (4, 51)]
    assert row["reduced"] == 51
    assert row["add"] == {"limit": 1.9608, "lengths": {"5": 0.0, "6": 1.9877, "7": 1.96}}
    assert row["mul"]["limit"] == pytest.approx(2.529, abs=5e-4)
    written = json.loads((tmp_path / "length_theory.json").read_text())
    assert written["rows"] == rows


def test_the_table_of_cells_shows_every_run(script, tmp_path):
    module = script("length_table")
    text = module.main(tmp_path)
    values = json.loads(module.MEASURED.read_text())
    for cell in values["cells"]:
        if cell["runs"]:
            assert f"| {cell['name']} |" in text
    assert len(module.main(tmp_path, smoke=True)) <= len(text)


def test_the_mechanism_of_the_first_shipped_model(script, tmp_path):
    values = script("length_mechanism").main(tmp_path, smoke=True)
    assert values["n"] == 40
    (found,) = values["models"].values()
    assert set(found["leak"]) == {"4", "5", "6"}
    assert json.loads((tmp_path / "length_mechanism.json").read_text()) == values
