"""One process at a time in a folder."""

import pytest

from mechint_arith.errors import InputError
from mechint_arith.locks import locked


def test_a_held_folder_is_refused_until_it_is_free(tmp_path):
    with locked(tmp_path / "run"):
        with (
            pytest.raises(InputError, match=r"run is in use by another process"),
            locked(tmp_path / "run"),
        ):
            pass
        with locked(tmp_path / "other"):
            pass
    with locked(tmp_path / "run"), locked(tmp_path / "other", wait=True):
        pass


def test_a_fault_inside_is_passed_on_and_frees_the_folder(tmp_path):
    with pytest.raises(OSError, match="mine"), locked(tmp_path):
        raise OSError("mine")
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("name", ["n" * 300, "file/run"])
def test_folders_that_cannot_be_made(tmp_path, name):
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(InputError, match="choose a folder you can write to"),
        locked(tmp_path / name),
    ):
        pass
