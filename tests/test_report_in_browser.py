"""The report in a real browser with the network blocked: no error, no request, every plot drawn, two widths.

Chromium is driven through its DevTools protocol over a pipe. Skipped where no Chrome or Chromium is installed.
"""

import json
import os
import re
import select
import subprocess
import sys
import time

import pytest

from mechint_arith.figures import export
from mechint_arith.models.checkpoint import Checkpoint
from mechint_arith.models.config import ModelConfig
from mechint_arith.models.init import initial_weights
from mechint_arith.probing import probe
from mechint_arith.report import page as report
from mechint_arith.report.findings import findings_report
from mechint_arith.tasks.assign_add import AssignAdd
from mechint_arith.verdict import Thresholds

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 50) for fd in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and answers on 4."""
LIMIT = 400.0
"""s"""
WIDTHS = (1280, 420)

DRAWN = """
(() => {
  const plots = [...document.querySelectorAll('.js-plotly-plot')].map(plot => {
    const frame = plot.querySelector('svg.main-svg').getBoundingClientRect();
    const marks = plot.querySelectorAll(
      '.scatterlayer path, .scatterlayer .point, .barlayer path, .heatmaplayer image, .heatmaplayer path');
    return { id: plot.id, width: frame.width, height: frame.height, marks: marks.length,
             inside: frame.right <= document.documentElement.clientWidth + 1 };
  });
  const papers = [...document.querySelectorAll('.paper svg')].map(
    svg => ({ width: svg.getBoundingClientRect().width, paths: svg.querySelectorAll('path').length }));
  const root = document.documentElement;
  return JSON.stringify({
    divs: document.querySelectorAll('[id^=plot-]').length, plots, papers, title: document.title,
    overflow: root.scrollWidth - root.clientWidth,
    links: [...document.querySelectorAll('nav a')].map(
      a => !!document.getElementById(a.getAttribute('href').slice(1))),
    sources: [...document.querySelectorAll('[src], link[href]')].map(e => e.src || e.href),
  });
})()
"""


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, path, folder):
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        command = [sys.executable, "-c", START, str(read), str(write), path, *OPTIONS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={folder}"],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._left, self._count, self._session = b"", 0, None
        self.events = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        conditions = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.send("Network.emulateNetworkConditions", offline=True, **conditions)

    def send(self, method, **parameters):
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            answer = self._next(deadline)
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)
        raise TimeoutError(method)

    def _next(self, deadline):
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError("the browser does not answer")
            self._left += part
        message, self._left = self._left.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, width):
        """Show a file at a width; return the events up to its load and a moment beyond."""
        self.events = []
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + LIMIT
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next(deadline))
        self.ask("new Promise(done => setTimeout(() => done(1), 500))")
        return self.events

    def ask(self, expression):
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        return answer["result"].get("value")

    def close(self):
        self._session = None
        try:
            self.send("Browser.close")
        except (TimeoutError, OSError):
            self._process.kill()
        self._process.wait(20)
        os.close(self._read)
        os.close(self._write)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = export.browser()
    if path is None:
        pytest.skip("no Chrome or Chromium installed")
    browser = Browser(path, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A probe's report with every section, of a model that is called competent although it is not."""
    task = AssignAdd(p=7, n_vars=4, length=10, never_left=1, never_right=1)
    config = ModelConfig(len(task.vocab), 7, 10, d_model=12, d_head=6, d_mlp=(0, 20))
    checkpoint = Checkpoint(config, initial_weights(config, 0), task, 4, 0)
    hostile = "</script><script>throw 'hostile'</script>"
    findings = probe(
        checkpoint,
        thresholds=Thresholds(competent=0.0),
        provenance={"file": hostile, "sha256": "0" * 64, "command": hostile},
    )
    assert findings.circuits
    assert findings.frequencies
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(findings_report(findings), encoding="utf-8")
    return path


def troubles(events):
    """Return errors, failures and requests among DevTools events."""
    found = []
    for event in events:
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            found.append(what["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            found.append(json.dumps(what["args"])[:300])
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            found.append(what["entry"]["text"])
        elif method == "Network.loadingFailed":
            found.append(what["errorText"])
        elif method == "Network.requestWillBeSent":
            url = what["request"]["url"]
            if not re.match(r"(file|data|blob):", url):
                found.append(url)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_opens_offline_with_every_plot_drawn(browser, page, width):
    assert not troubles(browser.open(page, width))
    seen = json.loads(browser.ask(DRAWN))
    assert seen["title"].startswith("</script>")
    assert len(seen["plots"]) == seen["divs"] >= 12
    for plot in seen["plots"]:
        assert plot["marks"] > 0, plot
        assert plot["width"] > 200, plot
        assert plot["height"] > 100, plot
        assert plot["inside"], plot
    assert [paper["paths"] > 3 for paper in seen["papers"]] == [True]
    assert seen["overflow"] <= 0
    assert all(seen["links"])
    assert not [s for s in seen["sources"] if not s.startswith("data:")]
    assert page.stat().st_size < 10_000_000


def test_troubles_would_be_seen(browser, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<img src='http://example.org/x.png'><script>console.error('a'); undefinedName()</script>"
    )
    found = " ".join(troubles(browser.open(path, 800)))
    assert "http://example.org/x.png" in found
    assert "Uncaught" in found


def test_a_report_without_plots_carries_no_script(browser, tmp_path):
    path = tmp_path / "plain.html"
    section = report.Section("Found", claims=(report.Claim("It holds.", ("n = 3",)),))
    report.write(path, "Plain", "", [section, report.making({"file": "a"})])
    assert "<script" not in path.read_text(encoding="utf-8")
    assert not troubles(browser.open(path, 800))
    assert browser.ask("document.querySelectorAll('nav a').length") == 2
