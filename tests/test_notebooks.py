"""Every notebook runs from top to bottom, is small, carries its outputs, and defines nothing of its own."""

import ast
import asyncio
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LIMIT = 300
"""s for one notebook."""
LARGEST = 1_000_000
"""bytes"""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@every
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_runs(path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=LIMIT, kernel_name="python3", resources=folder)
    asyncio.run(asyncio.wait_for(client.async_execute(), LIMIT))


@every
def test_it_defines_nothing_and_is_whole_code(path):
    for cell in code_cells(path):
        tree = ast.parse(cell.source)
        found = [node for node in ast.walk(tree) if isinstance(node, DEFINITIONS)]
        assert not found, cell.source


@every
def test_its_outputs_are_committed_small_and_without_errors(path):
    assert path.stat().st_size < LARGEST
    cells = code_cells(path)
    assert any(cell.outputs for cell in cells)
    for cell in cells:
        assert cell.execution_count is not None, cell.source
        assert not [output for output in cell.outputs if output.output_type == "error"]
    told = ["".join(output.get("text", "")) for cell in cells for output in cell.outputs]
    assert not [text for text in told if str(ROOT.parent) in text]
