"""Files are written whole or not at all, and asking whether one could be written leaves no trace."""

import os
from pathlib import Path

import pytest

from mechint_arith import files
from mechint_arith.errors import InputError


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_check_leaves_nothing_behind(tmp_path):
    files.check_writable(tmp_path / "a" / "b" / "x.json")
    assert left(tmp_path) == []
    (tmp_path / "x.json").write_text("old")
    files.check_writable(tmp_path / "x.json")
    assert (tmp_path / "x.json").read_text() == "old"


def test_folders_of_others_stay(tmp_path):
    (tmp_path / "mine").mkdir()
    files.check_writable(tmp_path / "mine" / "x.json")
    assert left(tmp_path) == ["mine"]


@pytest.mark.parametrize("place", ["/proc/x.csv", "file/x.csv", "folder", "n" * 300 + ".csv"])
def test_what_cannot_be_written_is_refused_by_name(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    Path("folder").mkdir()
    with pytest.raises(InputError, match=f"cannot write {place}"):
        files.check_writable(place)
    assert left(tmp_path) == ["file", "folder"]


def test_several_texts_are_written_or_none(tmp_path, monkeypatch):
    one, two = tmp_path / "out" / "one", tmp_path / "out" / "two"
    files.write_texts({one: "1", two: "2"})
    assert (one.read_text(), two.read_text()) == ("1", "2")
    write = Path.write_text

    def full(path, text, **options):
        if text == "new 2":
            raise OSError(28, "No space left on device")
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match=r"two: No space left on device"):
        files.write_texts({one: "new 1", two: "new 2"})
    assert (one.read_text(), two.read_text()) == ("1", "2")
    with pytest.raises(InputError, match="No space left"):
        files.write_texts({tmp_path / "new" / "one": "1", tmp_path / "new" / "two": "new 2"})
    assert left(tmp_path) == ["out", "out/one", "out/two"]


def test_a_failed_move_leaves_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("old")

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="an earlier file there is unchanged"):
        files.write_text(path, "new")
    assert left(tmp_path) == ["x"]
    assert path.read_text() == "old"
