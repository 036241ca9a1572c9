"""Run notebooks from top to bottom and keep their outputs in them, as they are committed.

    python analyses/run_notebooks.py notebooks/first_probe.ipynb

Warnings of imported libraries and times are left out, so that a run changes nothing but results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

LIMIT = 900
"""s for one cell."""


def main(path: Path) -> None:
    """Execute a notebook in its own folder and write it back."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook, timeout=LIMIT, kernel_name="python3", resources=folder, record_timing=False
    )
    client.execute()
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(Path(name))
