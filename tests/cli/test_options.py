"""Options that commands share: every one has a help text, and numbers have their limits."""

import inspect

import pytest
import typer
from typer.testing import CliRunner

from mechint_arith.cli import options as o
from mechint_arith.errors import InputError


def test_a_command_gets_what_is_said_of_an_outside_file_as_one_value():
    app = typer.Typer()
    heard = []

    @app.command()
    @o.outside_files(without=o.MODULAR)
    def read(seed: o.Seed = 3, *, hints: o.Hints) -> None:
        """Read."""
        heard.append((seed, hints))

    result = CliRunner().invoke(app, ["--p", "7", "--never-left", "0", "--layout", "transposed"])
    assert result.exit_code == 0, result.output
    seed, hints = heard[0]
    assert (seed, hints.p, hints.never_left, hints.layout) == (3, 7, 0, "transposed")
    assert hints.op is None
    assert CliRunner().invoke(app, ["--op", "add"]).exit_code == 2
    assert list(inspect.signature(read).parameters)[:2] == ["seed", "task"]


def test_every_outside_option_has_a_help_text_in_its_own_panel():
    for kind in o.OUTSIDE_FILES.values():
        (option,) = kind.__metadata__
        assert option.help
        assert option.rich_help_panel == o.OUTSIDE


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("probe", "--seed", -1), "--seed must be at least 0, not -1"),
        (("decode", "--ckpt", "x", "--controls", 0), "--controls must be at least 1, not 0"),
        (("series", "--run", "x", "--n", 0), "--n must be at least 1, not 0"),
        (("length", "--ckpt", "x", "--to", 0), "--to must be at least 1, not 0"),
        (("diagram", "--ckpt", "x", "--pairs", 0), "--pairs must be at least 1, not 0"),
        (("diagram", "--ckpt", "x", "--width", "nan"), "--width must lie between 1 and 200"),
        (("diagram", "--ckpt", "x", "--dpi", 1), "--dpi must lie between 30 and 2400, not 1"),
        (("diagram", "--ckpt", "x", "--threshold", "nan"), "--threshold must be at least 0"),
        (("sweep", "x", "--workers", 0), "--workers must be at least 1, not 0"),
        (("cells", "x", "--out", "y", "--n", 0), "--n must be at least 1, not 0"),
    ],
)
def test_numbers_out_of_reach_are_one_line(run, args, said):
    code, _, err = run(*args)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_results_that_json_cannot_hold_are_refused(tmp_path):
    with pytest.raises(InputError, match="NaN or infinite"):
        o.write_results(tmp_path / "out", {"a": float("nan")}, "page")
    assert not (tmp_path / "out").exists()
