"""One exception for what a user can mend: one line, and the file is named once."""

import pytest

from mechint_arith.errors import InputError, naming


def test_the_message_is_one_line():
    assert str(InputError("a\n  b")) == "a b"


def test_a_file_is_named_once():
    with pytest.raises(InputError, match=r"^runs/a\.pt: it is empty$"), naming("runs/a.pt"):
        raise InputError("it is empty")
    with pytest.raises(InputError, match=r"^no such file: runs/a\.pt$"), naming("runs/a.pt"):
        raise InputError("no such file: runs/a.pt")
    with pytest.raises(InputError, match=r"^modular: no modular task$"), naming("modular"):
        raise InputError("no modular task")


def test_other_errors_pass():
    with pytest.raises(KeyError), naming("a.pt"):
        raise KeyError("a")
