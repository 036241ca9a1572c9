"""The command line in this process, as a user meets it."""

import sys

import pytest

from mechint_arith.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Call the command line in this process; returns (exit code, stdout, stderr)."""

    def call(*args) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mechint-arith", *map(str, args)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call
