"""`cells` as its help explains it."""

import inspect

from mechint_arith.cells import read_table
from mechint_arith.cli.cells import cells


def test_the_example_in_the_help_is_a_table(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(inspect.cleandoc(cells.__doc__).split("```")[1])
    assert len(read_table(file).runs(tmp_path)) == 2
