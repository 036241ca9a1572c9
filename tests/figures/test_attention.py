"""Attention in notebooks: nothing is loaded, labels end nothing, shapes are checked."""

import html
import re

import numpy as np
import pytest

from mechint_arith.errors import InputError
from mechint_arith.figures.attention import attention

TOKENS = ["</script>", "<img src=x onerror=alert(1)>", '"', "\n"]
PATTERNS = np.tril(np.ones((2, 4, 4))) / np.arange(1, 5)[:, None]


@pytest.fixture(scope="module")
def source():
    return attention(PATTERNS, TOKENS, names=["L0H0", "</script><b>"])._repr_html_()


@pytest.fixture(scope="module")
def inner(source):
    """The page inside the frame."""
    return html.unescape(re.search(r'srcdoc="([^"]*)"', source)[1])


def test_nothing_is_loaded_from_anywhere(source, inner):
    for text in (source, inner):
        assert not re.search(r'src="?http', text)
        assert not re.search(r"unpkg|jsdelivr|cdn\.|google\.com", text.replace("cdn.js", ""))
        assert 'from "http' not in text
    assert inner.index("default-src 'none'") < inner.index("<script")


def test_a_label_ends_no_script(source, inner):
    assert source.count("<script") == 0
    assert inner.count("</script>") == 1
    call = inner[inner.rindex("CircuitsVis.render(") :]
    assert "\\u003c/script>" in call
    assert "<img" not in call


def test_it_calls_the_page_element_it_made(inner):
    mark = re.search(r'<div id="([^"]+)"', inner)[1]
    assert f'"{mark}"' in inner[inner.rindex("CircuitsVis.render(") :]
    assert "></div>" in inner


def test_it_is_the_same_every_time(source):
    assert str(attention(PATTERNS, TOKENS, names=["L0H0", "</script><b>"])) == source


def test_its_repr_is_short():
    assert len(repr(attention(PATTERNS[0], TOKENS))) < 80


@pytest.mark.parametrize(
    ("patterns", "tokens", "message"),
    [
        (np.ones((2, 4, 3)), TOKENS, "as many queries as keys"),
        (PATTERNS, TOKENS[:3], "'key' of the patterns has 4 entries, but there are 3 tokens"),
        (np.ones(4), TOKENS, r"axes \[head query key\]"),
        (PATTERNS * np.nan, TOKENS, "none is missing"),
        (PATTERNS * 2, TOKENS, "between 0 and 1"),
    ],
)
def test_shapes_and_values_are_checked(patterns, tokens, message):
    with pytest.raises(InputError, match=message):
        attention(patterns, tokens)


def test_names_must_fit():
    with pytest.raises(
        InputError, match="'head' of the patterns has 2 entries, but there are 1 names"
    ):
        attention(PATTERNS, TOKENS, names=["one"])
