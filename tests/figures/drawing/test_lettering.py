"""Labels of every kind become one printable line that fits."""

import pytest

from mechint_arith.figures.drawing import lettering


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("L0H0", "L0H0"),
        ("</script>", "</script>"),
        ("a\nb\t", "a\\nb\\t"),
        ("\x00\u202e\u2028", "\\x00\\u202e\\u2028"),
        ("é→中", "é→中"),
        ("", ""),
    ],
)
def test_printable(label, shown):
    assert lettering.printable(label) == shown


def test_long_labels_lose_their_middle():
    shown = lettering.printable("start" + "x" * 100 + "end")
    assert len(shown) == lettering.LONGEST
    assert shown.startswith("start")
    assert shown.endswith("end")
    assert "…" in shown


def test_broken_at_spaces():
    assert lettering.broken("MLP 1") == ("MLP", "1")
    assert lettering.broken(" ") == (" ",)
    assert lettering.broken("") == ("",)


def test_wide_letters_are_wider():
    assert lettering.width("MMM") > lettering.width("iii") > lettering.width("") == 0
    assert lettering.width("0") == pytest.approx(lettering.SPARE * 0.636, abs=1e-3)


def test_letters_that_the_font_lacks_are_named():
    assert lettering.settable("a中") == "aU+4E2D"
    assert lettering.width("中") == lettering.width("U+4E2D")
