"""HTML everywhere; pictures where there is a browser, in time, or one line that says what to do."""

import os
import stat
import sys
from html.parser import HTMLParser

import psutil
import pytest

from mechint_arith.errors import InputError
from mechint_arith.figures import export
from mechint_arith.figures.spectra import spectrum

CHART = spectrum([0.1, 0.6, 0.3], key=(2,), title="a </script><b> & $x$")


def needs_browser():
    if export.browser() is None:
        pytest.skip("no Chrome or Chromium is installed")


def attributes(text):
    """(tag, attribute) of every element of a page; what scripts contain is not looked into."""
    found = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.extend((tag, name) for name, _ in attrs)
    parser.feed(text)
    assert ("meta", "charset") in found
    return found


def test_a_page_opens_offline_and_loads_nothing(tmp_path):
    export.save(CHART, tmp_path / "chart.html")
    text = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not [(tag, name) for tag, name in attributes(text) if name in ("src", "href")]
    assert "<title>a &lt;/script&gt;&lt;b&gt; &amp; $x$</title>" in text
    assert len(text) < 7_000_000


def test_pages_of_one_figure_are_the_same():
    assert export.page(CHART) == export.page(CHART)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF")]
)
def test_pictures(tmp_path, suffix, start):
    needs_browser()
    export.save(CHART, tmp_path / f"chart{suffix}", width=400, height=300)
    assert (tmp_path / f"chart{suffix}").read_bytes().startswith(start)
    assert [file.name for file in tmp_path.iterdir()] == [f"chart{suffix}"]
    assert CHART.layout.paper_bgcolor is None


def test_without_a_browser_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"apt install chromium.* or write \.html") as caught:
        export.save(CHART, tmp_path / "chart.png")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_without_kaleido_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "choreographer.browsers.chromium", None)
    with pytest.raises(InputError, match=r"pip install 'mechint-arith\[export\]'"):
        export.save(CHART, tmp_path / "chart.pdf")


def fake_browser(tmp_path, monkeypatch, script):
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER_PATH", str(program))


@pytest.mark.skipif(os.name != "posix", reason="the stand-in browser is a shell script")
def test_a_browser_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    pytest.importorskip("kaleido")
    fake_browser(tmp_path, monkeypatch, f"exec {sys.executable} -c 'import time; time.sleep(20)'")
    monkeypatch.setattr(export, "GRACE", 1.0)
    (tmp_path / "chart.png").write_text("before")
    with pytest.raises(InputError, match="not draw the figure within 2 s"):
        export.save(CHART, tmp_path / "chart.png", timeout=2.0)
    assert (tmp_path / "chart.png").read_text() == "before"
    left = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info["cmdline"])]
    # A killed process needs a moment to go; the stand-in by itself would stay for 20 s.
    _, alive = psutil.wait_procs(left, timeout=5)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.skipif(os.name != "posix", reason="the stand-in browser is a shell script")
def test_a_browser_that_fails_is_one_line(tmp_path, monkeypatch):
    pytest.importorskip("kaleido")
    fake_browser(tmp_path, monkeypatch, "exit 1")
    with pytest.raises(InputError, match=r"did not draw the figure .*write \.html") as caught:
        export.save(CHART, tmp_path / "chart.png", timeout=30.0)
    assert "\n" not in str(caught.value)


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.html, \.png, \.svg or \.pdf"):
        export.save(CHART, tmp_path / "chart.jpg")
