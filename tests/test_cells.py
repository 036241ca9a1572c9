"""Tables: reading, order, resuming, what the summary says; and what a bad file is told."""

import json

import pytest

from mechint_arith import cells
from mechint_arith.cells import digits_config, finish, read_table, summarise
from mechint_arith.errors import InputError
from mechint_arith.models.checkpoint import Checkpoint, save, step_path
from mechint_arith.models.init import initial_weights
from mechint_arith.tasks.digits import DigitsTask

TOP = """
[task]
digits = 2
longest = 3
base = 3
[model]
n_heads = 2
d_model = 8
[recipe]
steps = 3
batch = 8
[encoding.absolute]
positions = "absolute"
[encoding.relative]
positions = "relative"
attn_content = false
"""
CELLS = """
[[cell]]
name = "one"
group = "main"
encoding = "relative"
seeds = [1, 2]
round = 1
[[cell]]
name = "two"
encoding = "absolute"
seeds = [1]
task = { modulus = 4 }
model = { n_layers = 2 }
recipe = { steps = 5 }
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(TOP + CELLS)
    return path


def test_options_are_layered_and_runs_ordered(table, tmp_path):
    found = read_table(table)
    one, two = found.cells
    assert one.config.positions == "relative"
    assert not one.config.attn_content
    assert (two.task.modulus, two.task.base, two.recipe.steps) == (4, 3, 5)
    assert two.config.d_mlp == (32, 32)
    assert [run.name for run in found.runs(tmp_path)] == ["two seed 1", "one seed 1", "one seed 2"]
    assert [c.name for c in found.only(["main"]).cells] == ["one"]
    assert [c.name for c in found.only([]).cells] == ["one", "two"]


def test_summary_tells_what_is_missing_and_keeps_unconverged_runs_apart(table, tmp_path):
    found = read_table(table)
    run = found.runs(tmp_path)[1]
    assert run.measured(30) is None
    config = run.cell.config
    model = Checkpoint(config, initial_weights(config, 1), run.cell.task, 3, 1)
    save(step_path(run.folder.path, 3), model)
    finish(run, n=30)
    assert run.measured(30)["seed"] == 1
    assert run.measured(31) is None
    values = json.loads(json.dumps(summarise(found, tmp_path, source="table.toml", n=30)))
    one, two = values["cells"]
    assert one["missing"] == [2]
    assert two["missing"] == [1]
    assert one["verdicts"]["upward"] == {"not converged": 1}
    assert one["lengths"] == []
    assert one["runs"][0]["seed"] == 1
    assert set(one["runs"][0]["lengths"]["3"]) == {"accuracy", "agreement"}


def test_runs_of_a_summary_count_as_done_while_their_cell_is_the_same(table, tmp_path):
    found, summary = read_table(table), tmp_path / "kept.json"
    run = found.runs(tmp_path)[1]
    config = run.cell.config
    model = Checkpoint(config, initial_weights(config, 1), run.cell.task, 3, 1)
    save(step_path(run.folder.path, 3), model)
    finish(run, n=30)
    values = summarise(found, tmp_path, source="table.toml", n=30)
    summary.write_text(json.dumps(values))
    known = cells.runs_of_summary(found, summary, n=30)
    assert set(known) == {("one", 1)}
    elsewhere = summarise(found, tmp_path / "gone", source="table.toml", n=30, known=known)
    assert json.dumps(elsewhere["cells"]) == json.dumps(values["cells"])
    assert elsewhere["command"] == "mechint-arith cells table.toml --out gone --n 30"
    table.write_text((TOP + CELLS).replace("steps = 3", "steps = 4"))
    assert cells.runs_of_summary(read_table(table), summary, n=30) == {}
    assert cells.runs_of_summary(found, tmp_path / "none.json", n=30) == {}
    with pytest.raises(InputError, match="measured with --n 30, not 40"):
        cells.runs_of_summary(found, summary, n=40)
    one = values["cells"][0]
    for damaged in (
        [],
        {"n": 30, "cells": [{"name": "one"}]},
        {"n": 30, "cells": [{**one, "runs": [{"seed": 1}]}]},
        {"n": 30, "cells": [{**one, "runs": 3}]},
    ):
        summary.write_text(json.dumps(damaged))
        with pytest.raises(InputError, match="is not a summary of cells"):
            cells.runs_of_summary(found, summary, n=30)


def test_reports_of_other_settings_or_damaged_ones_are_not_taken(table, tmp_path):
    run = read_table(table).runs(tmp_path)[1]
    config = run.cell.config
    model = Checkpoint(config, initial_weights(config, 1), run.cell.task, 3, 1)
    save(step_path(run.folder.path, 3), model)
    finish(run, n=30)
    table.write_text((TOP + CELLS).replace("batch = 8", "batch = 9"))
    other = read_table(table).runs(tmp_path)[1]
    assert other.folder.path == run.folder.path
    assert run.measured(30)
    assert other.measured(30) is None
    for damaged in ("", "[]", "{}", '{"a'):
        run.report.write_text(damaged)
        assert run.measured(30) is None


def test_means_over_converged_runs_have_the_run_as_unit(table):
    cell = read_table(table).cells[1]
    runs = [
        {"lengths": {"3": {"accuracy": {"value": v}, "agreement": {"value": 1.0}}}}
        for v in (0.4, 0.6)
    ]
    (found,) = cells._lengths(cell, runs)
    assert found["runs"] == 2
    assert found["region"] == "upward"
    assert found["accuracy"] == [0.4, 0.6]
    assert found["mean_accuracy"]["value"] == pytest.approx(0.5)
    assert found["mean_accuracy"]["n"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[cell]", "is not TOML"),
        ("[sell]\n", "unknown 'sell'; expected task, model"),
        ("cell = 3", "cell must be a list, not 3"),
        ("cell = ['a']", r"each \[\[cell\]\] is a table, not 'a'"),
        ("task = 'x'", "task must be a table, not 'x'"),
        (TOP + CELLS.replace('name = "one"', "name = 5"), "cell 5: name must be a text, not 5"),
        (TOP + CELLS.replace('name = "one"', 'name = "../up"'), "cannot be the name of a folder"),
        (TOP + CELLS.replace('name = "one"', 'name = ""'), "cannot be the name of a folder"),
        (
            TOP + CELLS.replace('name = "one"', 'name = "a\\u0000"'),
            "cannot be the name of a folder",
        ),
        (TOP + CELLS.replace('group = "main"', "group = ['x']"), "group must be a text"),
        (
            TOP + CELLS.replace("seeds = [1, 2]", "seeds = ['a']"),
            "seeds must be a list, each a whole",
        ),
        (
            TOP + CELLS.replace("seeds = [1, 2]", "seeds = [true]"),
            "seeds must be a list, each a whole",
        ),
        (TOP + CELLS.replace("seeds = [1, 2]", 'seeds = "12"'), "seeds must be a list"),
        (
            TOP + CELLS.replace("seeds = [1, 2]", "seeds = [-1]"),
            "cell 'one': seeds cannot be negative",
        ),
        (TOP + CELLS.replace("round = 1", "round = 'x'"), "round must be a whole number"),
        (TOP + CELLS.replace("n_layers = 2", "d_vocab = 3"), "d_vocab cannot be chosen"),
        (TOP + CELLS.replace("{ modulus = 4 }", "3"), "cell 'two': task must be a table, not 3"),
        (
            TOP + CELLS.replace('encoding = "absolute"', "encoding = 3"),
            "encoding 3 is none of absolute",
        ),
        (TOP, r"no \[\[cell\]\]"),
        (TOP + '[[cell]]\nname = "x"\nseeds = [1]\n', "cell 'x': 'encoding' is missing"),
        (TOP + '[[cell]]\nname = "x"\nencoding = "y"\nseeds = [1]\n', "none of absolute, relative"),
        (TOP + '[[cell]]\nname = "x"\nsteps = 3\n', "unknown options steps"),
        (TOP + CELLS + CELLS, "listed twice: one seed 1"),
        (TOP + CELLS.replace("modulus = 4", 'op = "pow"'), "cell 'two'.*op must be"),
        (TOP + CELLS.replace("n_layers = 2", "n_layer = 2"), "cell 'two'.*n_layer"),
    ],
)
def test_bad_tables_are_told_what_is_wrong(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_table(path)


def test_unknown_names_are_refused(table):
    with pytest.raises(InputError, match="no cell or group three; there are"):
        read_table(table).only(["three"])


def test_the_shipped_table_is_readable(pytestconfig):
    found = read_table(pytestconfig.rootpath / "analyses" / "length_cells.toml")
    names = {cell.name for cell in found.cells}
    assert {"add-relative", "add-absolute"} <= names


def test_sizes_of_a_digits_model():
    config = digits_config(DigitsTask(digits=2, longest=3), n_layers=2, d_model=32, n_heads=4)
    assert (config.d_head, config.d_mlp, config.n_ctx) == (8, (128, 128), 12)
