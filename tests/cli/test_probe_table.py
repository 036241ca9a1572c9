"""The table over checkpoints: runs are told apart, intervals are in the CSV, and a page has room for the rest."""

import csv
import re
import shutil
from pathlib import Path

import pandas as pd

from mechint_arith.cli.probe_table import narrow

SMALL = Path(__file__).parents[2] / "checkpoints" / "assign_add_small"


def test_two_runs_in_one_table_of_every_format(run, tmp_path):
    last = "step_006000.safetensors"
    for folder in "ab":
        (tmp_path / folder).mkdir()
        shutil.copy(SMALL / last, tmp_path / folder / last)
    files = [tmp_path / "t.csv", tmp_path / "t.tex"]
    tables = [word for file in files for word in ("--table", file)]
    code, out, _ = run("probe", "--ckpt", tmp_path / "a", tmp_path / "b" / last, "--quick", *tables)
    assert code == 0
    assert out.count("shared") == 2
    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    assert [(row["folder"], row["file"]) for row in rows] == [
        (str(tmp_path / folder), last) for folder in "ab"
    ]
    assert {row["seed"] for row in rows} == {"6"}
    first = rows[0]
    held = [float(first[f"2var_held{end}"]) for end in (" low", "", " high")]
    assert held == sorted(held)
    assert first["2var_held n"] == "2000"
    assert float(first["index low"]) <= float(first["index"]) <= float(first["index high"])
    page = files[1].read_text()
    assert "sha256" not in page
    assert len(re.findall(r"shared & \.\d{3} \[\.\d{3}, \d?\.\d{3}\]", page)) == 2


def test_a_row_of_the_page_is_short():
    pools = {
        f"{pool}{end}": [0.5, 0.25]
        for pool in ("0var_seen", "1var_restricted")
        for end in ("", " low")
    }
    names = {"folder": "a", "file": ["x", "y"], "step": [1, 2], "seed": 3}
    index = {"index": [0.5, float("nan")], "index low": 0.25, "index high": 1.0}
    frame = pd.DataFrame({**names, **pools, "verdict": "inconclusive", **index, "sha256": "abc"})
    page = narrow(frame, limits=True)
    assert list(page.columns) == ["step", "0v\nseen", "1v\nrestr", "verdict", "index"]
    assert list(page["index"]) == [".500 [.250, 1.000]", "–"]
    for changed, told in (
        ({"step": 1, "seed": [3, 4]}, ["seed", "step"]),
        ({"step": 1, "folder": ["a", "b"]}, ["folder", "step"]),
        ({"step": None}, ["file"]),
        ({"step": 1, "file": "x"}, ["folder", "file"]),
    ):
        assert list(narrow(frame.assign(**changed)).columns[: len(told)]) == told
